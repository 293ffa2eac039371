"""A loop as one function: the kernels, inner loops and branches of its body, inlined into it.

Input: the modules of the kernels, and what their arguments are in an iteration. Output: a module in
which `KERNEL` runs many iterations (`RepeatFunction` in `_native/programs/program.h`). What is
carried, and what kernels pass to each other, is in local variables, which LLVM keeps in registers
where it can: a recurrence of scalars touches no memory between its first and its last step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from ingot.compiler.llvm.module import ATTRIBUTES, IN_VECTORS, KERNEL_FUNCTION, OUTLINED

__all__ = [
    "Call",
    "Carried",
    "Check",
    "InnerLoop",
    "KernelCall",
    "Module",
    "Passed",
    "repeated_module",
]

_SIGNATURE = (
    "ptr %carried, ptr %inputs, ptr %outputs, ptr %constants, ptr %poll, "
    "i64 %first, i64 %direction, i64 %steps"
)
_METADATA = re.compile(r"!(\d+)\b")


class Carried(NamedTuple):
    """The bytes of a carried value, and whether its next value may be written over it."""

    nbytes: int
    in_place: bool


class Passed(NamedTuple):
    """The value that an argument is in: a carried value, its next value, the flag, the arena, or
    one of the other inputs, outputs and constants, by number; `nbytes` are those of a slice, of
    which each iteration has its own, and `offset` where in the value it begins.
    """

    kind: Literal["carried", "next", "flag", "arena", "inputs", "outputs", "constants"]
    number: int
    nbytes: int
    offset: int


class Module(NamedTuple):
    """The parts of a module, whose main function is called `KERNEL`."""

    declarations: tuple[str, ...]
    functions: str
    metadata: tuple[str, ...]

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(
            [
                *sorted(self.declarations),
                self.functions,
                f"attributes #0 = {{ {ATTRIBUTES} }}",
                f"attributes #1 = {{ alwaysinline {ATTRIBUTES} }}",
                *self.metadata,
            ]
        )


class KernelCall(NamedTuple):
    """A kernel of the body: its module, its trip count and its arguments."""

    text: str
    parts: int
    passed: tuple[Passed, ...]

    def module(self) -> Module:
        """The module without the function that unpacks arguments."""
        head, _, tail = self.text.removeprefix(IN_VECTORS).partition(KERNEL_FUNCTION)
        declared, start, body = head.strip("\n").partition("define internal")
        metadata = tail.partition(OUTLINED)[2].strip("\n")
        return Module(
            tuple(filter(None, declared.split("\n"))), start + body, tuple(metadata.split("\n"))
        )

    def modules(self) -> list[Module]:
        """Those that it calls functions of."""
        return [self.module()]


class Check(NamedTuple):
    """A flag that ends the loop if it is set: the program then raises its error elsewhere."""

    passed: tuple[Passed, ...]

    def modules(self) -> list[Module]:
        """None."""
        return []


class InnerLoop(NamedTuple):
    """A loop or branch in the body: the functions that it runs (a body; a condition and a body; or
    branches), its arguments, the bytes of what it carries, and the number of its iterations: None
    if there is no limit.
    """

    kind: Literal["scan", "while", "branch"]
    bodies: tuple[Module, ...]
    sources: tuple[Passed, ...]
    results: tuple[Passed, ...]
    carry_bytes: tuple[int, ...]
    length: int | None
    reverse: bool

    def modules(self) -> list[Module]:
        """Those that it calls functions of."""
        return list(self.bodies)


Call = KernelCall | Check | InnerLoop


def repeated_module(
    calls: Sequence[Call],
    carries: Sequence[Carried],
    outputs: int,
    has_flag: bool,
    arena: int,
) -> Module:
    """The module of a loop whose body is these calls. With a flag, which is the last of its
    outputs, it ends when that is clear.
    """
    declarations = {"declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64, i1)"}
    functions: list[str] = []
    metadata: list[str] = []
    for number, call in enumerate(calls):
        for part, module in enumerate(call.modules()):
            declarations.update(module.declarations)
            moved = _Renamed(f"KERNEL_{number}_{part}", len(metadata))
            functions.append(moved.text(module.functions))
            metadata += map(moved.metadata, filter(None, module.metadata))
    function = _Function(carries, outputs - 1 if has_flag else None, arena)
    functions.append("\n".join(function.lines(calls)))
    return Module(tuple(declarations), "\n".join(functions), tuple(metadata))


class _Renamed:
    """Functions and metadata under names of their own; all functions are inlined."""

    def __init__(self, name: str, first: int) -> None:
        self.name = name
        self.first = first

    def text(self, functions: str) -> str:
        named = functions.replace("@KERNEL", f"@{self.name}")
        named = named.replace(f"define i64 @{self.name}(", f"define internal i64 @{self.name}(")
        return self.metadata(named.replace(") #0 {", ") #1 {"))

    def metadata(self, text: str) -> str:
        return _METADATA.sub(lambda found: f"!{int(found[1]) + self.first}", text)


class _Function:
    """The function of a loop."""

    def __init__(self, carries: Sequence[Carried], flag: int | None, arena: int) -> None:
        self.carries = carries
        self.flag = flag
        self.arena = arena
        self.block = "step"  # that instructions are added to
        self.can_stop = self.can_fail = False

    def lines(self, calls: Sequence[Call]) -> Iterator[str]:
        """Its text."""
        body = [
            line for number, call in enumerate(calls) for line in self._call(call, f"c{number}")
        ]
        yield f"define i64 @KERNEL({_SIGNATURE}) #0 {{"
        yield "entry:"
        yield from self._entry(calls)
        yield "  br label %step"
        yield "step:"
        yield f"  %position = phi i64 [ %first, %entry ], [ %position.next, %{self.block} ]"
        yield f"  %done = phi i64 [ 0, %entry ], [ %done.next, %{self.block} ]"
        yield from body
        carries = enumerate(self.carries)
        yield from _copies((f"%in{i}", f"%out{i}", x.nbytes) for i, x in carries if not x.in_place)
        yield "  %position.next = add i64 %position, %direction"
        yield "  %done.next = add i64 %done, 1"
        yield "  %more = icmp ult i64 %done.next, %steps"
        yield from self._condition()
        yield "exit:"
        yield from self._ends()
        yield "  ret i64 %done.next"
        if self.can_stop:
            yield "stopped:"
            yield "  ret i64 -1"
        if self.can_fail:
            yield "failed:"
            yield "  ret i64 -2"
        yield "}"

    def _entry(self, calls: Sequence[Call]) -> Iterator[str]:
        """The variables, with the first carried values, and the addresses that are given."""
        yield "  %flag = alloca i8"
        yield f"  %arena = alloca [{self.arena} x i8], align 64"
        for number, call in enumerate(calls):
            if isinstance(call, InnerLoop):
                yield f"  %c{number}.in = alloca [{len(call.sources) + 1} x ptr]"
                yield f"  %c{number}.out = alloca [{len(call.results) + 1} x ptr]"
                yield f"  %c{number}.test = alloca [1 x ptr]"
                yield f"  %c{number}.flag = alloca i8"
        for number, carry in enumerate(self.carries):
            yield f"  %in{number} = alloca [{carry.nbytes} x i8], align 64"
            if not carry.in_place:
                yield f"  %out{number} = alloca [{carry.nbytes} x i8], align 64"
            yield from _loaded(f"%start{number}", "%carried", number)
        carries = enumerate(self.carries)
        yield from _copies((f"%in{i}", f"%start{i}", x.nbytes) for i, x in carries)
        passed = [x for call in calls for x in _passed(call)]
        given = {(x.kind, x.number) for x in passed if x.kind in ("inputs", "outputs", "constants")}
        for kind, number in sorted(given):
            yield from _loaded(f"%{kind}.{number}", f"%{kind}", number)

    def _call(self, call: Call, name: str) -> Iterator[str]:
        passed = _passed(call)
        for number, each in enumerate(passed):
            yield from self._address(each, f"{name}.a{number}")
        if isinstance(call, KernelCall):
            arguments = "".join(f"ptr %{name}.a{number}, " for number in range(len(passed)))
            body = f"@KERNEL_{name.removeprefix('c')}_0_body"
            yield f"  call void {body}({arguments}i64 0, i64 {call.parts})"
            return
        if isinstance(call, Check):
            yield from self._check(name)
            return
        first = call.kind == "branch"  # whose first argument is not one of its bodies'
        for number in range(first, len(call.sources)):
            yield from _stored(f"%{name}.a{number}", f"%{name}.in", number - first)
        for number in range(len(call.results)):
            yield from _stored(f"%{name}.a{len(call.sources) + number}", f"%{name}.out", number)
        yield from {"scan": self._scan, "while": self._while, "branch": self._branch}[call.kind](
            call, name
        )

    def _check(self, name: str) -> Iterator[str]:
        yield f"  %{name}.value = load i8, ptr %{name}.a0"
        yield f"  %{name}.passes = icmp eq i8 %{name}.value, 0"
        yield f"  br i1 %{name}.passes, label %{name}.next, label %failed"
        yield f"{name}.next:"
        self.block = f"{name}.next"
        self.can_fail = True

    def _scan(self, call: InnerLoop, name: str) -> Iterator[str]:
        assert call.length is not None
        if call.length == 0:
            yield from self._unchanged(call, name)
            return
        first, direction = (call.length - 1, -1) if call.reverse else (0, 1)
        yield from self._run(name, 0, "in", "out", f"i64 {first}, i64 {direction}", call.length)

    def _while(self, call: InnerLoop, name: str) -> Iterator[str]:
        yield from self._unchanged(call, name)
        if call.length == 0:
            return
        yield from _stored(f"%{name}.flag", f"%{name}.test", 0)
        yield from _stored(f"%{name}.flag", f"%{name}.out", len(call.results))
        yield from self._run(name, 0, "in", "test", "i64 0, i64 1", 1)
        yield from self._goes_on(name, "begin", f"{name}.again", f"{name}.end")
        yield f"{name}.again:"
        self.block = f"{name}.again"
        most = MAX_UNPOLLED if call.length is None else call.length
        yield from self._run(name, 1, "out", "out", "i64 0, i64 1", most)
        if call.length is None:
            yield from self._goes_on(name, "more", f"{name}.poll", f"{name}.end")
            yield f"{name}.poll:"
            yield f"  %{name}.stop = call zeroext i1 %poll()"
            yield f"  br i1 %{name}.stop, label %stopped, label %{name}.again"
            self.can_stop = True
        else:
            yield f"  br label %{name}.end"
        yield f"{name}.end:"
        self.block = f"{name}.end"

    def _goes_on(self, name: str, what: str, yes: str, no: str) -> Iterator[str]:
        yield f"  %{name}.{what} = load i8, ptr %{name}.flag"
        yield f"  %{name}.{what}.holds = icmp ne i8 %{name}.{what}, 0"
        yield f"  br i1 %{name}.{what}.holds, label %{yes}, label %{no}"

    def _branch(self, call: InnerLoop, name: str) -> Iterator[str]:
        last = len(call.bodies) - 1
        yield f"  %{name}.given = load i32, ptr %{name}.a0"
        yield f"  %{name}.low = icmp slt i32 %{name}.given, 0"
        yield f"  %{name}.index = select i1 %{name}.low, i32 0, i32 %{name}.given"
        cases = " ".join(f"i32 {n}, label %{name}.case{n}" for n in range(last))
        yield f"  switch i32 %{name}.index, label %{name}.case{last} [ {cases} ]"
        for number in range(last + 1):
            yield f"{name}.case{number}:"
            self.block = f"{name}.case{number}"
            yield from self._run(name, number, "in", "out", "i64 0, i64 1", 1)
            yield f"  br label %{name}.end"
        yield f"{name}.end:"
        self.block = f"{name}.end"

    def _unchanged(self, call: InnerLoop, name: str) -> Iterator[str]:
        """Copies what is carried to the results."""
        sources = len(call.sources)
        pairs = enumerate(call.carry_bytes)
        yield from _copies((f"%{name}.a{sources + i}", f"%{name}.a{i}", n) for i, n in pairs)

    def _run(
        self, name: str, part: int, carried: str, outputs: str, order: str, steps: int
    ) -> Iterator[str]:
        """Calls the function of a body, which may have to stop."""
        ran = f"{name}.ran{part}"
        yield (
            f"  %{ran} = call i64 @KERNEL_{name.removeprefix('c')}_{part}(ptr %{name}.{carried}, "
            f"ptr %{name}.in, ptr %{name}.{outputs}, ptr null, ptr %poll, {order}, i64 {steps})"
        )
        yield f"  %{ran}.fails = icmp slt i64 %{ran}, 0"
        yield f"  br i1 %{ran}.fails, label %stopped, label %{ran}.next"
        yield f"{ran}.next:"
        self.block = f"{ran}.next"
        self.can_stop = True

    def _address(self, passed: Passed, name: str) -> Iterator[str]:
        """An argument in this iteration."""
        kind, number, nbytes, offset = passed
        named = {"carried": f"%in{number}", "next": f"%out{number}"}
        base = named.get(kind, f"%{kind}.{number}")
        if kind == "next" and self.carries[number].in_place:
            base = f"%in{number}"
        if kind in ("flag", "arena"):
            base = f"%{kind}"
        if nbytes:
            yield f"  %{name}.bytes = mul i64 %position, {nbytes}"
            yield f"  %{name}.slice = getelementptr i8, ptr {base}, i64 %{name}.bytes"
            base = f"%{name}.slice"
        yield f"  %{name} = getelementptr i8, ptr {base}, i64 {offset}"

    def _condition(self) -> Iterator[str]:
        if self.flag is None:
            yield "  br i1 %more, label %step, label %exit"
            return
        yield "  %value = load i8, ptr %flag"
        yield "  %holds = icmp ne i8 %value, 0"
        yield "  %again = and i1 %more, %holds"
        yield "  br i1 %again, label %step, label %exit"

    def _ends(self) -> Iterator[str]:
        """Stores the last carried values and the flag."""
        for number in range(len(self.carries)):
            yield from _loaded(f"%end{number}", "%outputs", number)
        carries = enumerate(self.carries)
        yield from _copies((f"%end{i}", f"%in{i}", x.nbytes) for i, x in carries)
        if self.flag is not None:
            yield from _loaded("%end.flag", "%outputs", self.flag)
            yield "  store i8 %value, ptr %end.flag"


MAX_UNPOLLED = 1024  # iterations of an inner loop between two looks for signals


def _passed(call: Call) -> tuple[Passed, ...]:
    return (*call.sources, *call.results) if isinstance(call, InnerLoop) else call.passed


def _loaded(name: str, table: str, number: int) -> Iterator[str]:
    slot = f"%slot.{name.removeprefix('%')}"
    yield f"  {slot} = getelementptr inbounds ptr, ptr {table}, i64 {number}"
    yield f"  {name} = load ptr, ptr {slot}"


def _stored(value: str, table: str, number: int) -> Iterator[str]:
    slot = f"{table}.slot{number}"
    yield f"  {slot} = getelementptr inbounds ptr, ptr {table}, i64 {number}"
    yield f"  store ptr {value}, ptr {slot}"


def _copies(pairs: Iterable[tuple[str, str, int]]) -> Iterator[str]:
    for to, source, nbytes in pairs:
        yield (
            f"  call void @llvm.memcpy.inline.p0.p0.i64(ptr {to}, ptr {source}, "
            f"i64 {nbytes}, i1 false)"
        )
