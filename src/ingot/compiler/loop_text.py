"""Loops as text: what a kernel does, loop by loop, in the words of the tape.

While a walk writes LLVM code it notes loops, reads, writes and steps (`Code.notes`). This module
prints these notes, with bounds and places worked out from the code itself, so the text cannot say
anything else than the code does. It also tells what a kernel really reads and writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ingot.compiler.loops import Kernel
from ingot.compiler.tape import Step

__all__ = ["loop_text", "touched_steps"]

# As text: compiling them would make the first use of `compile` slower.
_ASSIGNMENT = r"^\s+(%\w+) = (.*)$"
_BINARY = r"(mul|add|sub|udiv|urem|srem)(?: nsw| nuw)* i64 ([^,]+), (.+)"
_MINIMUM = r"call i64 @llvm\.smin\.i64\(i64 ([^,]+), i64 ([^)]+)\)"
_CONVERSION = r"(?:sext|zext|trunc) \w+ (%\w+) to i64"
_CHOICE = r"select i1 (%\w+), i64 ([^,]+), i64 (.+)"
_LESS = r"icmp slt i64 ([^,]+), (.+)"
_ADDRESS = r"getelementptr inbounds (\w+), ptr (%\w+), i64 (.+)"
_SIGNS = {"mul": "*", "add": "+", "sub": "-", "udiv": "//", "urem": "%", "srem": "%"}
_SIZES = {"i8": 1, "i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8}
_INDICES = "ijklmnopq"
LONGEST_BOUND = 24


class _Reader:
    """The code of a kernel, read for what its registers hold."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        body = kernel.text.split("define void @KERNEL(")[0]
        self.meaning = dict(re.findall(_ASSIGNMENT, body, re.MULTILINE))
        self.index_names: dict[str, str] = {}  # of loops' indices and bounds, and loaded indices

    def number(self, name: str) -> str:
        """An integer as an expression of the loops' indices."""
        name = name.strip()
        if not name.startswith("%"):
            return name
        if name in self.index_names:
            return self.index_names[name]
        text = self.meaning.get(name, "")
        found = re.match(_BINARY, text)
        if found:
            sign, left, right = _SIGNS[found[1]], self.number(found[2]), self.number(found[3])
            return _joined(sign, left, right)
        found = re.match(_MINIMUM, text)
        if found:
            return f"min({self.number(found[1])}, {self.number(found[2])})"
        found = re.match(_CONVERSION, text)
        if found:
            return self.number(found[1])
        found = re.match(_CHOICE, text)
        less = re.match(_LESS, self.meaning.get(found[1], "")) if found else None
        if found and less:
            condition = f"{self.number(less[1])} < {self.number(less[2])}"
            return f"({self.number(found[2])} if {condition} else {self.number(found[3])})"
        return name.lstrip("%")

    def place(self, name: str) -> tuple[str, str]:
        """The memory that an address is in, and how many bytes from its beginning."""
        terms: list[str] = []
        while (found := re.match(_ADDRESS, self.meaning.get(name, ""))) is not None:
            size, index = _SIZES[found[1]], self.number(found[3])
            if index != "0":
                terms.append(index if size == 1 else _joined("*", index, str(size)))
            name = found[2]
        return name, " + ".join(reversed(terms)) or "0"

    def operand(self, memory: str) -> Step | None:
        """The value whose memory it is; None if it is the kernel's own."""
        found = re.fullmatch(r"%a(\d+)", memory)
        return None if found is None else self.kernel.operands[int(found[1])]


def _joined(sign: str, left: str, right: str) -> str:
    if sign == "+" and left == "0":
        return right
    if sign in "*+-" and right == ("1" if sign == "*" else "0"):
        return left
    if sign != "+":
        left, right = (
            f"({x})" if re.search(r" [-+%/*]", x) and not _is_enclosed(x) else x
            for x in (left, right)
        )
    return f"{left} {sign} {right}"


def _is_enclosed(text: str) -> bool:
    """Whether an expression is in one pair of parentheses."""
    if not text.startswith("("):
        return False
    depth = 0
    for position, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            return position == len(text) - 1
    return False


def touched_steps(kernel: Kernel) -> tuple[list[Step], list[Step], bool]:
    """The values that a kernel reads and that it writes, and whether it uses scratch memory."""
    reader = _Reader(kernel)
    reads: dict[Step, None] = {}
    writes: dict[Step, None] = {}
    scratch = False
    for note in kernel.notes:
        if note[0] in ("load", "store"):
            memory, _ = reader.place(note[2])
            step = reader.operand(memory)
            if step is not None:
                (reads if note[0] == "load" else writes)[step] = None
            else:
                scratch |= memory.startswith("%a")
    # an output's row may serve as memory between passes: that is read while it is in the cache
    return [step for step in reads if step not in writes], list(writes), scratch


class _Printer:
    def __init__(self, kernel: Kernel, numbers: dict[Step, int], line: Callable[[Step], str]):
        self.reader = _Reader(kernel)
        self.kernel = kernel
        self.numbers = numbers
        self.line = line
        self.value_of: dict[str, str] = {}  # what registers hold
        self.content: dict[str, str] = {}  # what the kernel put into memory
        self.lines: list[str] = []
        self.depth = 0
        self.bounds = 0

    def text(self) -> str:
        for note in self.kernel.notes:
            getattr(self, "_" + note[0])(*note[1:])
        return "\n".join(self.lines)

    def _add(self, text: str) -> None:
        line = "    " * self.depth + text
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)

    def _name(self, step: Step) -> str:
        return f"%{self.numbers[step]}" if step in self.numbers else "copy"

    def _loop(self, index: str, begin: str, end: str, step: int) -> None:
        first, last = self._bound(begin), self._bound(end)
        letter = _INDICES[self.depth] if self.depth < len(_INDICES) else f"i{self.depth}"
        self.reader.index_names[index] = letter
        by = f" by {step}" if step != 1 else ""
        self._add(f"for {letter} in {first} .. {last}{by}:")
        self.depth += 1

    def _bound(self, register: str) -> str:
        """A loop's bound; long ones get a line and a name of their own."""
        text = self.reader.number(register)
        if len(text) <= LONGEST_BOUND:
            return text
        self.bounds += 1
        name = f"bound{self.bounds}"
        self.reader.index_names[register] = name
        self._add(f"{name} = {text}")
        return name

    def _if(self, left: str, right: str) -> None:
        self._add(f"if {self.reader.number(left)} < {self.reader.number(right)}:")
        self.depth += 1

    def _end(self) -> None:
        self.depth -= 1

    def _memory(self, address: str) -> tuple[str, str]:
        memory, offset = self.reader.place(address)
        step = self.reader.operand(memory)
        if step is not None:
            return self._name(step), offset
        return ("scratch" if memory.startswith("%a") else memory.lstrip("%")), offset

    def _load(self, register: str, address: str) -> None:
        memory, offset = self._memory(address)
        value = self.content.get(memory, memory)
        self.value_of[register] = value
        self.reader.index_names[register] = value
        origin = "" if value == memory else f" from {memory}"
        self._add(f"load {value}{origin} at {offset}")

    def _store(self, register: str, address: str) -> None:
        memory, offset = self._memory(address)
        value = self.value_of.get(register, memory)
        if value != memory:
            self.content[memory] = value
        target = "" if value == memory else f" in {memory}"
        self._add(f"store {value}{target} at {offset}")

    def _compute(self, step: Step, register: str) -> None:
        name = self._name(step)
        known = self.value_of.get(register)
        self.value_of[register] = name
        if known is None or (step.op is not None and step.op.role != "view"):
            self._add(self.line(step) if step in self.numbers else f"{name} of the view's elements")

    def _start(self, step: Step) -> None:
        assert step.op is not None
        self._add(f"{self._name(step)} = {step.op.start(step.dtype)}")  # type: ignore[attr-defined]

    def _combine(self, step: Step, register: str) -> None:
        name = self._name(step)
        added = self.value_of.get(register, "its part")
        self._add(f"{name} = {type(step.op).__name__}({name}, {added})")


def loop_text(kernel: Kernel, numbers: dict[Step, int], line: Callable[[Step], str]) -> str:
    """The loops of a kernel. Places are in bytes; `line` prints a step of the tape."""
    return _Printer(kernel, numbers, line).text()
