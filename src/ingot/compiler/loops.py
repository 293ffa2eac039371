"""Loops: what the walks of `walks.py` are made of: operands, elements and nested loops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ingot.compiler.code import Code, Register, literal
from ingot.compiler.emit import Element, LLVMKernel, register_type
from ingot.compiler.lower import Operand, immediate_value, operands_of
from ingot.compiler.schedule import Group, inputs_at_place
from ingot.compiler.tape import Step

__all__ = [
    "Kernel",
    "Lowered",
    "Pointers",
    "Writer",
    "flat",
    "module_text",
    "unflat",
    "work_grain",
]

VECTOR_BYTES = 64
# instructions times elements below which a thread costs more than it brings
PARALLEL_WORK = 1 << 14

Pointers = dict[Operand, Register]


@dataclass(frozen=True)
class Kernel:
    """The code of one kernel: `parts` is how far its loop goes, `grain` how many parts are worth a
    thread.
    """

    text: str
    parts: int
    grain: int
    # what its arguments are; None stands for the group's scratch memory
    operands: tuple[Step | None, ...]
    notes: tuple[tuple[Any, ...], ...] = ()  # what the code does, for `loop_text.py`


@dataclass
class Lowered:
    """A group as kernels to run one after the other, with the scratch memory that they share."""

    kernels: list[Kernel]
    scratch: int = 0

    def reading(self, copies: dict[Step | None, Step]) -> Lowered:
        """The same with copies of some inputs in their stead."""
        if not copies:
            return self
        kernels = [
            replace(each, operands=tuple(copies.get(step, step) for step in each.operands))
            for each in self.kernels
        ]
        return Lowered(kernels, self.scratch)


def flat(elements: Sequence[Element]) -> list[Register]:
    """All registers of some elements, for loops to carry."""
    registers = []
    for element in elements:
        registers.append(element.register)
        if element.imaginary is not None:
            registers.append(element.imaginary)
    return registers


def unflat(registers: Sequence[Register], like: Sequence[Element]) -> list[Element]:
    """The opposite of `flat`."""
    remaining = iter(registers)
    return [
        Element(next(remaining), x.dtype, None if x.imaginary is None else next(remaining))
        for x in like
    ]


class Writer:
    """What all walks share: reading operands, computing steps, writing outputs."""

    is_at_one_place = True  # or each turn of a loop reads its operands at several

    def __init__(
        self,
        group: Group,
        strides_of: dict[Step, tuple[int, ...]],
        shared: Collection[Step] = (),
    ) -> None:
        self.group = group
        self.shared = shared  # inputs and outputs that may be at the same place, element by element
        self.domain, operands = operands_of(group, strides_of)
        self.reads, self.gathers, self.writes, self.counts = operands
        self.strides_of = strides_of
        self.members = set(group.steps)
        self.read_of = {operand.step: operand for operand in (*self.reads, *self.counts)}
        self.write_of = {operand.step: operand for operand in self.writes}
        self.reductions = [
            step for step in group.steps if step.op is not None and step.op.role == "reduce"
        ]
        # Of loops that run backwards through an operand. LLVM has two models of their cost, and
        # builds of it that check themselves end the process where the two choose differently.
        sizes = [operand.dtype.size for operand in (*self.reads, *self.writes)]
        self._lanes = VECTOR_BYTES // max(sizes, default=VECTOR_BYTES)
        self.code = Code()
        self.code.parallel = bool(shared)
        self.k = LLVMKernel(self.code)

    @property
    def scratch(self) -> Register:
        """The address of the scratch memory, which comes last."""
        return Register(f"%a{len(self.reads) + len(self.gathers) + len(self.writes)}", "ptr")

    def i64(self, value: int) -> Register:
        return literal("i64", value)

    def begin(self) -> tuple[Pointers, Register, Register]:
        """The addresses of all operands and the range of parts."""
        pointers = {
            operand: self._first(operand)
            for operand in (*self.reads, *self.gathers.values(), *self.writes)
        }
        pointers.update((operand, self.i64(operand.offset)) for operand in self.counts)
        return pointers, Register("%begin", "i64"), Register("%end", "i64")

    def _first(self, operand: Operand) -> Register:
        """The address of the element at which walks begin."""
        memory = Register(f"%a{operand.argument}", "ptr")
        return self.code.offset(memory, self.i64(operand.offset)) if operand.offset else memory

    def finish(self, parts: int, grain: int, scratch: bool = False) -> Kernel:
        """The kernel: a body whose operands do not overlap, but for those that are shared, and the
        function that unpacks the arguments.
        """
        operands: list[Step | None] = [
            operand.step for operand in (*self.reads, *self.gathers.values(), *self.writes)
        ]
        if scratch:
            operands.append(None)
        return Kernel(
            module_text(self.code, [step not in self.shared for step in operands]),
            parts,
            max(1, grain),
            tuple(operands),
            tuple(self.code.notes),
        )

    def grain(self, elements_per_part: int) -> int:
        """How many parts make enough work for a thread."""
        return work_grain(self.code, elements_per_part)

    # Places

    def moved(self, pointers: Pointers, index: Register, axis: int) -> Pointers:
        """The addresses `index` steps along an axis."""
        found: Pointers = {}
        by_stride: dict[int, Register] = {}
        for operand, pointer in pointers.items():
            stride = operand.strides[axis]
            if stride == 0:
                found[operand] = pointer
                continue
            if stride < 0 and axis == len(operand.strides) - 1 and operand.argument is not None:
                self.code.lanes = self._lanes
            if stride not in by_stride:
                by_stride[stride] = self.code.binary("mul nsw", index, self.i64(stride))
            if operand.argument is None:
                found[operand] = self.code.binary("add nsw", pointer, by_stride[stride])
            else:
                found[operand] = self.code.offset(pointer, by_stride[stride])
        return found

    def placed(self, pointers: Pointers, index: Register, axes: Sequence[int]) -> Pointers:
        """The addresses at a position among all elements of some axes, the last of which moves
        first.
        """
        for number, axis in enumerate(reversed(axes)):
            if number == len(axes) - 1:
                return self.moved(pointers, index, axis)
            length = self.i64(self.domain.lengths[axis])
            pointers = self.moved(pointers, self.code.binary("urem", index, length), axis)
            index = self.code.binary("udiv", index, length)
        return pointers

    # Values

    def value(self, step: Step, known: dict[Step, Element], pointers: Pointers) -> Element:
        """An input of a step at the current place."""
        found = known.get(step)
        if found is not None:
            return found
        if step in self.read_of:
            found = self._read(self.read_of[step], pointers)
        else:
            constant = immediate_value(step)
            assert constant is not None
            found = self.k.constant_of(constant[0].item(), step.dtype)
        known[step] = found
        return found

    def _read(self, operand: Operand, pointers: Pointers) -> Element:
        if operand.argument is not None:
            return self.k.load(operand.dtype, pointers[operand])
        position = pointers[operand]
        return Element(
            self.code.convert("trunc", position, register_type(operand.dtype)), operand.dtype
        )

    def compute(
        self, steps: Sequence[Step], known: dict[Step, Element], pointers: Pointers
    ) -> None:
        """Adds the elements of `steps`, which are in order, to `known`."""
        for step in steps:
            if step in known:
                continue
            inputs = [self.value(source, known, pointers) for source in inputs_at_place(step)]
            assert step.op is not None
            if step.op.role == "gather":
                known[step] = self._gathered(step, inputs, pointers)
            elif step.op.role == "view":
                known[step] = inputs[0]
            else:
                known[step] = self.rounded(step.op.emit(self.k, *inputs))
            self.code.notes.append(("compute", step, known[step].register.name))

    def rounded(self, result: Element) -> Element:
        """The result of an op as its dtype holds it, unless more precision is wanted."""
        return result if self.group.excess_precision else self.k.rounded(result)

    def _gathered(self, step: Step, indices: list[Element], pointers: Pointers) -> Element:
        """An element of the first input of a step, at indices."""
        op: Any = step.op
        source = step.inputs[0]
        operand = self.gathers[step]
        distance = op.emit_offset(self.k, source.shape, self.strides_of[source], *indices)
        address = self.code.offset(pointers[operand], distance.register)
        return self.k.load(operand.dtype, address)

    def closure(self, targets: Sequence[Step], stop: Callable[[Step], bool]) -> list[Step]:
        """The maps of the group that `targets` need, in order, without going past where `stop` says
        so.
        """
        needed: set[Step] = set()
        stack = list(targets)
        while stack:
            step = stack.pop()
            if step in needed or step not in self.members or stop(step):
                continue
            needed.add(step)
            stack.extend(step.inputs)
        return [step for step in self.group.steps if step in needed]

    def reduced_input(
        self, reduction: Step, known: dict[Step, Element], pointers: Pointers
    ) -> Element:
        """What a reduction combines at the current place."""
        return self.k.cast(self.value(reduction.inputs[0], known, pointers), reduction.dtype)

    def store_outputs(
        self, steps: Sequence[Step], known: dict[Step, Element], pointers: Pointers
    ) -> None:
        """Writes those of `steps` that are outputs."""
        for step in steps:
            if step in self.write_of:
                self.k.store(known[step], pointers[self.write_of[step]])

    # Maps

    def map_line(self, pointers: Pointers, begin: Register, end: Register) -> None:
        """A range of a map that has one axis."""
        with self.code.loop(begin, end) as loop:
            self.map_element(self.moved(pointers, loop.index, 0))

    def map_element(self, here: Pointers) -> None:
        """Everything that a map computes at one place."""
        self.map_remaining({}, here)

    def map_remaining(self, known: dict[Step, Element], here: Pointers) -> None:
        """What a map computes at one place beside what is known of it."""
        self.compute(self.group.steps, known, here)
        self.store_outputs(self.group.steps, known, here)

    # Loops over several axes

    def walk(
        self, axes: Sequence[int], pointers: Pointers, body: Callable[[Pointers, Register], Any]
    ) -> None:
        """Walks the axes without carrying anything."""
        axis, rest = axes[0], axes[1:]
        length = self.i64(self.domain.lengths[axis])
        with self.code.loop(self.i64(0), length) as loop:
            inner = self.moved(pointers, loop.index, axis)
            if rest:
                self.walk(rest, inner, body)
            else:
                body(inner, loop.index)


def work_grain(code: Code, elements_per_part: int) -> int:
    """How many parts of a kernel make enough work for a thread."""
    work = max(1, len(code.lines)) * max(1, elements_per_part)
    return max(1, PARALLEL_WORK // work)


def module_text(code: Code, alone: list[bool]) -> str:
    """The text of a module. `KERNEL` stands for the kernel's name, which depends on the rest of the
    text; `alone` says of each operand whether it overlaps no other.
    """
    operands = len(alone)
    parameters = ", ".join(f"ptr{' noalias' * alone[i]} %a{i}" for i in range(operands))
    unpack = []
    for i in range(operands):
        unpack.append(f"  %p{i} = getelementptr inbounds ptr, ptr %arguments, i64 {i}")
        unpack.append(f"  %a{i} = load ptr, ptr %p{i}")
    passed = ", ".join(f"ptr %a{i}" for i in range(operands))
    comma = ", " if operands else ""
    return "\n".join(
        [
            *sorted(code.declarations.values()),
            f"define internal void @KERNEL_body({parameters}{comma}i64 %begin, i64 %end) #0 {{",
            "entry:",
            *code.memory,
            *code.lines,
            "  ret void",
            "}",
            "define void @KERNEL(ptr %arguments, i64 %begin, i64 %end, i32 %thread) #0 {",
            *unpack,
            f"  call void @KERNEL_body({passed}{comma}i64 %begin, i64 %end)",
            "  ret void",
            "}",
            'attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }',
            *code.metadata,
        ]
    )
