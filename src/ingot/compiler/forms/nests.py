"""Nests: a schedule as loop nests and calls in order; its printer and verifier.

The output of lowering and the input of planning. Every value is in a `Block` of memory, and the
layouts of views are fixed; the plan assigns the addresses of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ingot._native import NativeRoutine, NestedProgram
from ingot.compiler.forms.affine import size_of_extent
from ingot.compiler.forms.nest.data import Buffer, Nest
from ingot.compiler.forms.schedule import Schedule
from ingot.compiler.forms.tape import Step, program_lines
from ingot.graph.deferred import Deferred
from ingot.graph.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from ingot.compiler.forms.nest import text as printer
    from ingot.compiler.forms.nest import verify as verifier
else:
    printer = Deferred("ingot.compiler.forms.nest.text")
    verifier = Deferred("ingot.compiler.forms.nest.verify")

__all__ = [
    "Area",
    "Block",
    "CallHost",
    "Instruction",
    "Kernel",
    "Location",
    "Multiply",
    "Nested",
    "Nests",
    "RaiseIf",
    "RunKernel",
    "RunNested",
    "RunRoutine",
    "reach_of",
    "step_namer",
    "value_name",
]


class Block:
    """Memory for a value, or for data that the kernels of one group pass to each other ("scratch").
    Inputs and constants exist before the program runs; a "result" is written by kernels and
    products; a "host" block is an array that NumPy allocates.
    """

    __slots__ = ("kind", "nbytes", "step")

    def __init__(
        self,
        kind: Literal["input", "constant", "result", "host", "scratch"],
        nbytes: int,
        step: Step | None,
    ) -> None:
        self.kind = kind
        self.nbytes = nbytes
        self.step = step  # whose value it holds; None for scratch


class Location(NamedTuple):
    """The location of a value: a block, and an offset and strides in bytes."""

    block: Block
    offset: int
    strides: tuple[int, ...]


class Area(Enum):
    """Scratch memory of a group apart from its common block: what is computed from one operand
    alone can then be kept for later runs.
    """

    LEFT = "left operand"


@dataclass(frozen=True)
class Kernel:
    """A loop nest and its arguments, in order; None stands for the scratch memory of its group.
    Kernels with equal `code_key`s have equal code. Groups that repeat share a nest, which was made
    for the first of them: `renamed` says what its steps are here.
    """

    nest: Nest
    operands: tuple[Step | Area | None, ...]
    code_key: tuple[Hashable, ...] | None = None
    renamed: dict[Step | None, Step] | None = None

    def text(self, title: str, name: Callable[[Step | None], str | None]) -> str:
        """The nest as text, with these names for steps."""
        renamed = self.renamed or {}
        return printer.nest_text(self.nest, title, lambda step: name(renamed.get(step, step)))


@dataclass(eq=False)
class RunKernel:
    """Runs a kernel. `replaceable` are the operands that are read only at the element being
    written, so that an output may share their memory.
    """

    kernel: Kernel
    steps: list[Step]  # that it computes, or computes a part of
    operands: tuple[Location, ...]
    written: frozenset[Block]
    replaceable: tuple[int, ...] = ()
    kind = "kernel"
    can_fail = False

    @cached_property
    def reads(self) -> list[Block]:
        """The inputs; scratch memory counts as read by all kernels that share it."""
        return [each.block for each in self.operands if each.block not in self.written]

    @cached_property
    def writes(self) -> list[Block]:
        """The outputs, and scratch memory."""
        return [
            each.block
            for each in self.operands
            if each.block in self.written or each.block.kind == "scratch"
        ]


@dataclass(eq=False)
class Multiply:
    """A BLAS matrix product: `product` describes it for the strides of the operands."""

    steps: list[Step]
    product: Any
    sources: tuple[Location, Location]
    result: Location
    kind = "BLAS"
    can_fail = False

    @property
    def reads(self) -> list[Block]:
        """The two factors."""
        return [each.block for each in self.sources]

    @property
    def writes(self) -> list[Block]:
        """The product."""
        return [self.result.block]


@dataclass(eq=False)
class CallHost:
    """Runs an op by its `evaluate` rule, which returns one array for each of `results`."""

    steps: list[Step]
    sources: tuple[Location, ...]
    results: tuple[Block, ...]
    kind = "host"
    can_fail = True

    @property
    def reads(self) -> list[Block]:
        """The inputs."""
        return [each.block for each in self.sources]

    @property
    def writes(self) -> list[Block]:
        """The results."""
        return list(self.results)


class Nested(NamedTuple):
    """A loop or branch in native code: its program, and the functions that run its bodies many
    times, if they have such. `length` is negative if a condition alone ends it.
    """

    program: NestedProgram
    kind: Literal["scan", "while", "branch"]
    bodies: tuple[Any, ...]
    length: int
    reverse: bool


@dataclass(eq=False)
class RunNested:
    """Runs a loop or branch in native code, which writes contiguous results. If it fails, the op's
    `evaluate` rule is called.
    """

    steps: list[Step]
    nested: Nested
    sources: tuple[Location, ...]
    results: tuple[Location, ...]
    scratch: Location
    kind = "nested"

    @property
    def can_fail(self) -> bool:
        """Whether a check or a routine in it may fail."""
        return self.nested.program.can_fail

    @property
    def reads(self) -> list[Block]:
        """The inputs."""
        return [each.block for each in self.sources]

    @property
    def writes(self) -> list[Block]:
        """The results, and scratch memory."""
        return [each.block for each in (*self.results, self.scratch)]


@dataclass(eq=False)
class RunRoutine:
    """Runs the routine of an op, which reads contiguous operands and writes contiguous results. If
    it fails, the op's `evaluate` rule is called.
    """

    steps: list[Step]
    routine: NativeRoutine
    sources: tuple[Location, ...]
    results: tuple[Location, ...]
    kind = "routine"

    @property
    def can_fail(self) -> bool:
        """Whether the routine may fail."""
        return self.routine.can_fail

    @property
    def reads(self) -> list[Block]:
        """The inputs."""
        return [each.block for each in self.sources]

    @property
    def writes(self) -> list[Block]:
        """The results."""
        return [each.block for each in self.results]


@dataclass(eq=False)
class RaiseIf:
    """Runs an op that raises if a flag is set; the value that it guards stays where it is."""

    steps: list[Step]
    value: Location
    flag: Location
    kind = "check"
    can_fail = True

    @property
    def reads(self) -> list[Block]:
        """The flag, and the value, which the error may quote."""
        return [self.value.block, self.flag.block]

    @property
    def writes(self) -> list[Block]:
        """None."""
        return []


Instruction = RunKernel | Multiply | RunNested | RunRoutine | CallHost | RaiseIf


@dataclass
class Nests:
    """The instructions of a program in order, and the location of every value in memory."""

    schedule: Schedule
    inputs: list[Block]
    constants: list[Block]
    locations: dict[Step, Location]
    instructions: list[Instruction]
    any_layout: bool = False  # whether inputs are read with the strides they had at compilation
    invariant: int = 0  # instructions, the first ones, that a loop runs in its first iteration only

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels in the order in which they run."""
        return [each.kernel for each in self.instructions if isinstance(each, RunKernel)]

    @property
    def outputs(self) -> list[Location]:
        """The locations of the outputs."""
        return [self.locations[step] for step in self.schedule.tape.outputs]

    def text(self) -> str:
        """The nests, and calls between them, with the schedule's names of values."""
        name = step_namer(self.schedule)
        return "\n".join(self._lines(name))

    def _lines(self, name: Callable[[Step | None], str | None]) -> Iterator[str]:
        tape, numbers = self.schedule.tape, self.schedule.tape.numbers()
        kernels = 0
        for number, each in enumerate(self.instructions):
            if isinstance(each, RunKernel):
                once = ", in the first iteration only" if number < self.invariant else ""
                yield each.kernel.text(f"kernel {kernels}{once}", name)
                kernels += 1
            elif each.steps[0] in numbers:
                yield f"{each.kind} {tape.line(each.steps[0], numbers)}"
                yield from program_lines(each.steps[0].op, lambda made: made.form("lower").text())

    def verify(self) -> None:
        """AssertionError or NestError unless nests are valid, values are inside their blocks, and
        everything is written before it is read. That parallel iterations are disjoint is not proven
        here, because blocks found by splitting a number are beyond the prover.
        """
        self.verify_kernels()
        written = {*self.inputs, *self.constants}
        for each in self.instructions:
            if isinstance(each, RunKernel):
                assert len(each.operands) == len(each.kernel.operands)
                _verify_buffers(each)
            for block in each.reads:
                is_there = block in written or block.kind == "scratch" or not block.nbytes
                assert is_there, f"{each.kind} reads what {_op_name(block)} has not written yet"
            written.update(each.writes)
        for step, location in self.locations.items():
            _verify_inside(step, location)
        for location in self.outputs:
            block = location.block
            assert block in written or not block.nbytes, f"{_op_name(block)} is never written"

    def verify_kernels(self) -> None:
        """NestError unless every nest is valid, for all sizes if they are symbolic."""
        for nest in {id(kernel.nest): kernel.nest for kernel in self.kernels}.values():
            verifier.verify(nest)


def _verify_inside(step: Step, location: Location) -> None:
    """AssertionError unless every element of a value is inside its block. The memory of an input,
    which may itself be a view, has unknown size.
    """
    if step.nbytes == 0 or location.block.kind == "input":
        return
    first, end = _reach(location.offset, step.shape, location.strides, step.dtype.size)
    assert first >= 0, f"{step.op} begins {-first} bytes before its memory"
    assert end <= location.block.nbytes, (
        f"{step.op} ends {end - location.block.nbytes} bytes behind its memory"
    )


def _verify_buffers(each: RunKernel) -> None:
    """AssertionError unless every buffer of a nest, within which its indices are proven to be, is
    inside the value or the scratch memory that the kernel gets for it.
    """
    for buffer in each.kernel.nest.buffers:
        if buffer.argument is None or 0 in buffer.shape:
            continue
        step, location = each.kernel.operands[buffer.argument], each.operands[buffer.argument]
        begin, end = 0, location.block.nbytes
        if isinstance(step, Step):
            begin, end = _reach(0, step.shape, location.strides, step.dtype.size)
        first, last = reach_of(buffer)
        assert begin <= first, f"{buffer.name} begins before {_op_name(location.block)}"
        assert last <= end, f"{buffer.name} ends behind {_op_name(location.block)}"


def reach_of(buffer: Buffer) -> tuple[int, int]:
    """The range of bytes of its argument that a buffer occupies."""
    offset, *extents = map(size_of_extent, (buffer.offset, *buffer.shape, *buffer.strides))
    rank = len(buffer.shape)
    return _reach(offset, extents[:rank], extents[rank:], buffer.dtype.size)


def _reach(offset: Any, shape: Any, strides: Any, size: int) -> tuple[int, int]:
    """The range of bytes that elements with these strides occupy."""
    first = last = offset
    for length, stride in zip(shape, strides, strict=True):
        distance = (length - 1) * stride
        first, last = first + min(distance, 0), last + max(distance, 0)
    return first, last + size


def _op_name(block: Block) -> str:
    step = block.step
    return "a kernel" if step is None else type(step.op).__name__


def step_namer(schedule: Schedule) -> Callable[[Step | None], str | None]:
    """The names of values in texts: their numbers in the tape of a schedule, or "copy"."""
    numbers = schedule.tape.numbers()

    def name(step: Step | None) -> str | None:
        if step is None:
            return None
        return value_name(step, numbers, "copy")

    return name


def value_name(step: Step, numbers: dict[Step, int], otherwise: str) -> str:
    """The name of a value in texts: its number in a tape, or that of the value it is a part of."""
    if step in numbers:
        return f"%{numbers[step]}"
    whole = step.expanded_from
    return f"part of %{numbers[whole]}" if whole in numbers else otherwise
