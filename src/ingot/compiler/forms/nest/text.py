"""Loop nests as text: shown by `explain`, and compared with goldens in tests.

A value that is used once is printed inline at its use; others get a name and a line of their own.
Callers may name buffers and values by their `origin`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from ingot.compiler.forms.affine import Affine, Extent, Variable, affine
from ingot.compiler.forms.nest.data import (
    Apart,
    Apply,
    Body,
    Buffer,
    Bundle,
    Carried,
    Checked,
    Constant,
    CopyBlock,
    Indices,
    Joined,
    Lanes,
    Load,
    Loop,
    Mask,
    Multiple,
    Nest,
    Parallel,
    Position,
    Prefetch,
    Repeated,
    Splat,
    Split,
    Statement,
    Store,
    Value,
    When,
)
from ingot.compiler.forms.nest.words import CASTS

__all__ = ["nest_text"]

Names = Callable[[Any], str | None]
_LETTERS = "ijklmnopqrst"
_INDENT = "  "
MAX_INLINE = 60  # characters of an expression that is printed inline
# infix words and their precedence
_INFIX = {
    "multiply": ("*", 3),
    "divide": ("/", 3),
    "add": ("+", 2),
    "subtract": ("-", 2),
    "equal": ("==", 1),
    "not_equal": ("!=", 1),
    "less": ("<", 1),
    "less_equal": ("<=", 1),
    "greater": (">", 1),
    "greater_equal": (">=", 1),
}
_ATOM = 5


def nest_text(nest: Nest, title: str = "kernel", names: Names = lambda origin: None) -> str:
    """A nest as text. `names` returns the name of an origin, or None."""
    return _Printer(nest, names).text(title)


class _Printer:
    def __init__(self, nest: Nest, names: Names) -> None:
        self.nest = nest
        self.names = names
        self.lines: list[str] = []
        self.variables: dict[Variable, str] = {symbol: symbol.name for symbol in nest.symbols}
        self.expressions: dict[Value, tuple[str, int]] = {}  # and their precedence
        self.uses: dict[Value, list[Body]] = {}
        self.unnamed = 0
        self.named: dict[str, int] = {}
        self.multiples = 0
        for region in nest.parallel:
            self._count(region.body)
        taken = {symbol.name for symbol in nest.symbols}
        self.letters = [letter for letter in _LETTERS if letter not in taken]

    # Uses of values

    def _count(self, body: Body) -> None:
        for statement in body:
            for value in _operands(statement):
                self._use(value, body)
            if isinstance(statement, Loop):
                for carried in statement.carried:
                    self._use(carried.start, body)
                    if carried.update is not None:
                        self._use(carried.update, statement.body)
            if isinstance(statement, Mask):
                for chosen in statement.results:
                    self._use(chosen.value, statement.body)
            if isinstance(statement, (Loop, When, Mask, Apart)):
                self._count(statement.body)

    def _use(self, value: Value, body: Body) -> None:
        while isinstance(value, Checked):
            value = value.value
        self.uses.setdefault(value, []).append(body)

    # Lines

    def text(self, title: str) -> str:
        arguments = [self._declared(b) for b in self.nest.buffers if b.argument is not None]
        numbers = [f"{symbol.name}: int64" for symbol in self.nest.symbols]
        self.lines = [f"{title}({', '.join([*arguments, *numbers])})"]
        for buffer in self.nest.buffers:
            if buffer.argument is None:
                self._add(1, f"local {self._declared(buffer)}")
        for region in self.nest.parallel:
            self._parallel(region)
        return "\n".join(self.lines)

    def _add(self, depth: int, text: str) -> None:
        self.lines.append(_INDENT * depth + text)

    def _letter(self, depth: int) -> str:
        """The name of the index of a loop within `depth` others."""
        return self.letters[depth] if depth < len(self.letters) else f"i{depth}"

    def _declared(self, buffer: Buffer) -> str:
        shape = ", ".join(self._affine(affine(length)) for length in buffer.shape)
        text = f"{self._buffer(buffer)}: {buffer.dtype.name}[{shape}]"
        if buffer.packed() or not buffer.shape:
            return text
        strides = ", ".join(self._affine(affine(stride)) for stride in buffer.strides)
        return f"{text} strides [{strides}]"

    def _buffer(self, buffer: Buffer) -> str:
        return self.names(buffer.origin) or buffer.name

    def _parallel(self, region: Parallel) -> None:
        if not region.indices:
            self._body(region.body, 1)
            return
        parts = []
        for number, (index, length) in enumerate(zip(region.indices, region.lengths, strict=True)):
            self.variables[index] = self._letter(number)
            parts.append(f"{self._letter(number)} in 0..{self._affine(affine(length))}")
        grain = f" grain {region.grain}" if region.grain else ""
        self._add(1, f"parallel {', '.join(parts)}{self._kind(region)}{grain}")
        self._body(region.body, 2, len(region.indices))

    @staticmethod
    def _kind(loop: Loop | Parallel) -> str:
        if loop.lanes == 1:
            return ""
        lanes = f" {loop.lanes}" if loop.lanes else ""
        copies = f" unroll {loop.copies}" if isinstance(loop, Loop) and loop.copies > 1 else ""
        return copies if loop.kind == "for" else f" {loop.kind}{lanes}{copies}"

    def _body(self, body: Body, depth: int, loops: int = 0) -> None:
        for statement in body:
            if isinstance(statement, (Apply, Load, Bundle, Splat, Lanes)):
                self._value(statement, body, depth)
            elif isinstance(statement, Store):
                element = self._lanes_of(statement, statement.value.lanes, statement.limit)
                kind = " non-temporal" if statement.nontemporal else ""
                self._add(depth, f"{element} = {self._text(statement.value)}{kind}")
            elif isinstance(statement, Loop):
                self._loop(statement, depth, loops)
            elif isinstance(statement, When):
                low, high = self._affine(statement.low), self._affine(statement.high)
                self._add(depth, f"when {self._text(statement.value)} in {low}..{high}")
                self._body(statement.body, depth + 1, loops)
            elif isinstance(statement, Joined):
                pairs = zip(statement.parts, statement.lengths, strict=True)
                parts = [f"{self._text(p)} of {self._affine(n)}" for p, n in pairs]
                self._name(statement)
                self._add(depth, f"{self._text(statement)} = join({', '.join(parts)})")
            elif isinstance(statement, Split):
                self._split(statement, depth)
            elif isinstance(statement, Apart):
                one, other = map(self._buffer, statement.buffers)
                self._add(depth, f"unless {other} is {one}")
                self._body(statement.body, depth + 1, loops)
            elif isinstance(statement, Mask):
                self._mask(statement, depth, loops)
            elif isinstance(statement, Multiple):
                self._multiple(statement, depth)
            else:
                self._copy(statement, depth)

    def _mask(self, mask: Mask, depth: int, loops: int) -> None:
        self._add(depth, f"if {self.variables[mask.index]} < {self._least(mask.ends)}")
        self._body(mask.body, depth + 1, loops)
        for chosen in mask.results:
            self._name(chosen)
            name, other = self._text(chosen), self._text(chosen.other)
            self._add(depth + 1, f"{name} = {self._text(chosen.value)} or else {other}")

    def _multiple(self, multiple: Multiple, depth: int) -> None:
        self.multiples += 1
        name = f"m{self.multiples}"
        self.variables[multiple.index] = name
        base, end = self._affine(multiple.base), self._least(multiple.ends)
        whole = f"multiple of {multiple.by} in {base}..{end}"
        self._add(depth, f"{name} = last {whole}")

    def _split(self, split: Split, depth: int) -> None:
        for index in split.indices:
            self.multiples += 1
            self.variables[index] = f"m{self.multiples}"
        names = ", ".join(self.variables[index] for index in split.indices)
        lengths = ", ".join(self._affine(length) for length in split.lengths)
        self._add(depth, f"{names} = split({self._affine(split.number)} by {lengths})")

    def _least(self, ends: tuple[Affine, ...]) -> str:
        text = ", ".join(self._affine(end) for end in ends)
        return text if len(ends) == 1 else f"min({text})"

    def _copy(self, block: CopyBlock | Prefetch, depth: int) -> None:
        if isinstance(block, Prefetch):
            self._add(depth, f"prefetch {self._element(block.buffer, block.index)}")
            return
        target = self._element(block.target, block.index)
        source = self._element(block.source, block.source_index)
        block_of = f"{block.side} x {block.side} transposed from " if block.side > 1 else ""
        self._add(depth, f"{target} = {block_of}{source}")

    def _loop(self, loop: Loop, depth: int, loops: int) -> None:
        letter = self._letter(loops)
        begin = self._affine(loop.begin)
        end = self._least(loop.ends)
        step = f" by {loop.step}" if loop.step != 1 else ""
        self.variables[loop.index] = letter
        for carried in loop.carried:
            self._name(carried)
            if not self._is_reduction(carried):
                self._add(depth, f"{self._text(carried)} = {self._text(carried.start)}")
        self._add(depth, f"for {letter} in {begin}..{end}{step}{self._kind(loop)}")
        self._body(loop.body, depth + 1, loops + 1)
        for carried in loop.carried:
            self._carried(carried, depth + 1)

    @staticmethod
    def _is_reduction(carried: Carried) -> bool:
        update = carried.update
        return isinstance(update, Apply) and update.operands[:1] == (carried,)

    def _carried(self, carried: Carried, depth: int) -> None:
        name, update = self._text(carried), carried.update
        assert update is not None
        if not self._is_reduction(carried):
            self._add(depth, f"{name} = {self._text(update)}")
            return
        assert isinstance(update, Apply)
        start = self._text(carried.start)
        added = ", ".join(self._text(operand) for operand in update.operands[1:])
        self._add(depth, f"{name} = reduce {update.word} {start}: {added}")

    # Values

    def _value(self, value: Apply | Load | Bundle | Splat | Lanes, body: Body, depth: int) -> None:
        """Prints a line for a value unless it is printed inline."""
        uses = self.uses.get(value, [])
        here = all(each is body for each in uses)
        if isinstance(value, Load):
            text, binding = self._lanes_of(value, value.lanes, value.limit), _ATOM
            text += f" ahead {value.ahead}" if value.ahead else ""
        elif isinstance(value, Splat):
            text, binding = f"{self._text(value.value, 3)} x {value.lanes}", 3
        elif isinstance(value, Bundle):
            text, binding = f"{self._buffer(value.buffer)}[0..{value.lanes}]", _ATOM
        elif isinstance(value, Lanes):
            bundles = ", ".join(self._text(each, _ATOM - 1) for each in value.values)
            bundles = f"({bundles})" if len(value.values) > 1 else bundles
            text, binding = f"{bundles}[{_picks_text(value.picks)}]", _ATOM
        else:
            text, binding = self._applied(value)
        alone = len(uses) == 1 and len(text) <= MAX_INLINE
        if here and uses and (isinstance(value, Load) or alone or self._updates(value)):
            self.expressions[value] = (text, binding)
            return
        self._name(value)
        self._add(depth, f"{self._text(value)} = {text}")

    def _updates(self, value: Value) -> bool:
        """Whether a value is the update of a reduction, which is printed as a line of its own."""
        return (
            isinstance(value, Apply)
            and bool(value.operands)
            and isinstance(value.operands[0], Carried)
            and value.operands[0].update is value
            and len(self.uses[value]) == 1
        )

    def _name(self, value: Value) -> None:
        name = self.names(value.origin) if value.origin is not None else None
        if name is None:
            self.unnamed += 1
            name = f"v{self.unnamed}"
        # the same step may be computed at several points
        count = self.named[name] = self.named.get(name, 0) + 1
        self.expressions[value] = (name if count == 1 else f"{name}.{count}", _ATOM)

    def _text(self, value: Value, binding: int = 0) -> str:
        """A value as an operand, in parentheses if an operator of this precedence requires it."""
        found = self.expressions.get(value)
        if found is None:
            found = self._leaf(value)
        text, own = found
        return text if own > binding or own == _ATOM else f"({text})"

    def _leaf(self, value: Value) -> tuple[str, int]:
        if isinstance(value, Constant):
            return _number(value), _ATOM
        if isinstance(value, Repeated):
            return f"{_number(value.value)} x {value.lanes}", 3
        if isinstance(value, Checked):
            return f"checked({self._text(value.value)}, {self._affine(affine(value.bound))})", _ATOM
        assert isinstance(value, Position), f"{value} is used before it is computed"
        return f"{value.dtype.name}({self._affine(value.position)})", _ATOM

    def _applied(self, value: Apply) -> tuple[str, int]:
        operands = value.operands
        if value.word in _INFIX and len(operands) == 2:
            sign, binding = _INFIX[value.word]
            left = self._text(operands[0], binding - 1)
            return f"{left} {sign} {self._text(operands[1], binding)}", binding
        if value.word == "negative":
            return f"-{self._text(operands[0], _ATOM - 1)}", _ATOM - 1
        word = value.dtype.name if value.word in CASTS else value.word
        inside = [self._text(operand) for operand in operands]
        if value.word in ("rotate_left", "lookup", "rank"):
            inside.append(str(value.parameter))
        if value.word == "from_rank":
            dtype, order = value.parameter
            inside += [dtype.name, order]
        return f"{word}({', '.join(inside)})", _ATOM

    def _element(self, buffer: Buffer, index: Indices) -> str:
        inside = [self._affine(at) if isinstance(at, Affine) else self._text(at) for at in index]
        return f"{self._buffer(buffer)}[{', '.join(inside)}]"

    def _lanes_of(self, access: Load | Store, lanes: int, limit: Affine | None) -> str:
        """An element of a buffer, or adjacent elements up to a limit."""
        text = self._element(access.buffer, access.index)
        if lanes == 1 and limit is None:
            return text
        end = "" if limit is None else f" below {self._affine(limit)}"
        return f"{text[:-1]} x {lanes}{end}]"

    def _affine(self, x: Extent) -> str:
        x = affine(x)
        text = ""
        for variable, factor in x.terms.items():
            name = self.variables[variable]
            part = name if abs(factor) == 1 else f"{abs(factor)}*{name}"
            text = _signed(text, factor < 0, part)
        if x.constant or not text:
            text = _signed(text, x.constant < 0, str(abs(x.constant)))
        return text


def _signed(text: str, negative: bool, part: str) -> str:
    if not text:
        return f"-{part}" if negative else part
    return f"{text} {'-' if negative else '+'} {part}"


def _number(value: Constant) -> str:
    if isinstance(value.value, bool | np.bool_):
        return str(bool(value.value))
    return str(np.array(value.value).astype(value.dtype.numpy)[()])


def _operands(statement: Statement) -> list[Value]:
    """The values that a statement itself uses, without those used in nested bodies."""
    if isinstance(statement, Apply):
        return list(statement.operands)
    if isinstance(statement, Load):
        return [at for at in statement.index if isinstance(at, Value)]
    if isinstance(statement, Store):
        return [*(at for at in statement.index if isinstance(at, Value)), statement.value]
    if isinstance(statement, When):
        return [statement.value]
    if isinstance(statement, Joined):
        return list(statement.parts)
    if isinstance(statement, Lanes):
        return list(statement.values)
    if isinstance(statement, Splat):
        return [statement.value]
    return []


def _picks_text(picks: tuple[int, ...]) -> str:
    """The numbers of lanes, as ranges of equal steps."""
    steps = [second - first for first, second in pairwise(picks)]
    if not steps or steps[0] < 1:
        return ", ".join(map(str, picks))
    length = next((at for at, step in enumerate(steps) if step != steps[0]), len(steps)) + 1
    text = f"{picks[0]}..{picks[length - 1] + 1}" + (f" by {steps[0]}" if steps[0] > 1 else "")
    return text if length == len(picks) else f"{text}, {_picks_text(picks[length:])}"
