"""A fused group as a loop nest under construction: its operands as buffers, its steps as values.

A `Point` is a point of the iteration domain: one affine expression per axis.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, affine, extent
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Indices, Value
from ingot.compiler.forms.nests import Area
from ingot.compiler.forms.schedule import Group, elementwise_inputs
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Operand, immediate_value, operands_of
from ingot.compiler.lower.kernel import Kernel, kernel_of
from ingot.graph.roles import Gather, Reduce, View

__all__ = ["GroupBuilder", "Known", "Memory", "Point"]

VECTOR_BYTES = 64

Point = tuple[Affine, ...]
Known = dict[Step, Value]


class Memory:
    """A buffer with the axes of the domain along which it has elements, and its origin along each
    of them.
    """

    __slots__ = ("axes", "buffer", "origin")

    def __init__(self, buffer: Buffer, axes: tuple[int, ...], origin: Point | None = None) -> None:
        self.buffer = buffer
        self.axes = axes
        self.origin = origin

    def index(self, point: Point) -> Indices:
        """The index of the element at a point."""
        if self.origin is None:
            return tuple([point[axis] for axis in self.axes])
        return tuple([point[axis] - self.origin[axis] for axis in self.axes])


class GroupBuilder(NestBuilder):
    """The base of all nests of groups: loads operands, computes steps, stores outputs."""

    def __init__(
        self,
        group: Group,
        strides_of: dict[Step, tuple[int, ...]],
        boundaries: Collection[int] = (),
        apart: Collection[int] = (),
    ) -> None:
        super().__init__()
        self.group = group
        self.strides_of = strides_of
        self.domain, operands = operands_of(group, strides_of, boundaries, apart)
        self.reads, self.gathers, self.writes, self.iotas = operands
        self.members = set(group.steps)
        self.reductions = [step for step in group.steps if isinstance(step.op, Reduce)]
        self.positions = {operand.step: operand for operand in self.iotas}
        self.read_of: dict[Step, Memory] = {}
        self.write_of: dict[Step, Memory] = {}
        self.gather_of: dict[Step, tuple[Memory, list[int]]] = {}
        self.operands: list[Step | Area | None] = []
        for operand in self.reads:
            self.read_of[operand.step] = self._memory(operand)
        for step, operand in self.gathers.items():
            self.gather_of[step] = self._gathered_memory(step, operand)
        for operand in self.writes:
            self.write_of[operand.step] = self._memory(operand)

    # Memory

    def _memory(self, operand: Operand) -> Memory:
        """The buffer of an operand; it has no axes along which the operand's stride is 0."""
        axes = tuple(axis for axis, stride in enumerate(operand.strides) if stride)
        lengths = self.domain.lengths
        buffer = self.buffer(
            f"a{len(self.operands)}",
            operand.dtype,
            [lengths[axis] for axis in axes],
            [operand.strides[axis] for axis in axes],
            len(self.operands),
            operand.offset,
            operand.step,
        )
        self.operands.append(operand.step)
        return Memory(buffer, axes)

    def _gathered_memory(self, step: Step, operand: Operand) -> tuple[Memory, list[int]]:
        """The buffer of what a step gathers from, and the order of its axes by decreasing stride,
        among the axes of the domain and those that are indexed by values.
        """
        found = self._memory(operand)
        op = step.op
        assert isinstance(op, Gather)
        source = step.inputs[0]
        strides = self.strides_of[source]
        buffer = found.buffer
        lengths = [*buffer.shape, *(source.shape[axis] for axis in op.axes)]
        distances = [
            *(operand.strides[axis] for axis in found.axes),
            *(strides[a] for a in op.axes),
        ]
        order = sorted(range(len(lengths)), key=lambda slot: -abs(distances[slot]))
        buffer.shape = tuple(extent(lengths[slot]) for slot in order)
        buffer.strides = tuple(extent(distances[slot]) for slot in order)
        return found, order

    def lanes(self, axis: int, without: Collection[Step] = ()) -> int:
        """The vector width of a loop along an axis, which is fixed where the loop runs backwards
        through an operand: LLVM has two cost models for such loops, and builds with assertions
        abort where the two disagree.
        """
        in_memory = (*self.reads, *self.gathers.values(), *self.writes)
        if not any(x.strides[axis] < 0 and x.step not in without for x in in_memory):
            return 0
        return VECTOR_BYTES // max(x.dtype.size for x in (*self.reads, *self.writes))

    # Values

    def value(self, step: Step, known: Known, point: Point) -> Value:
        """The value of a step's input at a point."""
        found = known.get(step)
        if found is None:
            found = known[step] = self._outside_value(step, point)
        return found

    def _outside_value(self, step: Step, point: Point) -> Value:
        memory = self.read_of.get(step)
        if memory is not None:
            found: Value = self.load(memory.buffer, memory.index(point))
            found.origin = step
            return found
        counted = self.positions.get(step)
        if counted is not None:
            return self._position(counted, point)
        constant = immediate_value(step)
        assert constant is not None
        return self.words.constant_of(constant[0].item(), step.dtype)

    def _position(self, counted: Operand, point: Point) -> Value:
        """The value of an iota at a point."""
        position = affine(counted.offset)
        symbolic: list[tuple[Affine, Number]] = []
        for at, stride in zip(point, counted.strides, strict=True):
            if is_symbolic(stride):
                symbolic.append((at, stride))
            elif stride:
                position = position + at * stride
        found: Value = self.position(position, counted.dtype)
        for at, stride in symbolic:  # a product of two variables, which is not affine
            here = self.position(at, counted.dtype)
            distance = self.position(affine(stride), counted.dtype)
            found = self.words.add(found, self.words.multiply(here, distance))
        return found

    def compute(self, steps: Sequence[Step], known: Known, point: Point) -> None:
        """Computes `steps`, which are in topological order, and adds their values to `known`."""
        for step in steps:
            if step in known:
                continue
            inputs = [self.value(source, known, point) for source in elementwise_inputs(step)]
            assert step.op is not None
            if isinstance(step.op, Gather):
                found = self._gathered(step, inputs, point)
            elif isinstance(step.op, View):
                found = inputs[0]
            else:
                found = self.rounded(step.op.emit(self.words, *inputs))
            if found.origin is None:
                found.origin = step
            known[step] = found

    def rounded(self, result: Value) -> Value:
        """The result of an op rounded to its dtype, unless excess precision is wanted."""
        return result if self.group.excess_precision else self.words.rounded(result)

    def _gathered(self, step: Step, indices: list[Value], point: Point) -> Value:
        """An element of the first input of a step, at computed indices."""
        op = step.op
        assert isinstance(op, Gather)
        memory, order = self.gather_of[step]
        shape = step.inputs[0].shape
        found = op.emit_indices(self.words, shape, *indices)
        checked = [self.checked(one, shape[axis]) for one, axis in zip(found, op.axes, strict=True)]
        at = (*memory.index(point), *checked)
        return self.load(memory.buffer, [at[slot] for slot in order])

    def reduced_input(self, reduction: Step, known: Known, point: Point) -> Value:
        """The element that a reduction combines at a point."""
        return self.words.cast(self.value(reduction.inputs[0], known, point), reduction.dtype)

    def at(self, point: Point, axes: Sequence[int], number: Affine) -> Point:
        """The point at a linear position among the elements of some axes, in row-major order."""
        if not axes:
            return point
        indices: Sequence[Affine] = (number,)
        if len(axes) > 1:
            lengths = [self.domain.lengths[axis] for axis in axes]
            indices = [affine(index) for index in self.split(number, lengths)]
        found = list(point)
        for axis, index in zip(axes, indices, strict=True):
            found[axis] = index
        return tuple(found)

    @contextmanager
    def rows(self, work: int) -> Iterator[Point]:
        """The parallel loop over the kept axes."""
        kept = self.domain.kept
        point = [affine(0)] * len(self.domain.lengths)
        with self.parallel([self.domain.lengths[axis] for axis in kept], work) as indices:
            for axis, index in zip(kept, indices, strict=True):
                point[axis] = affine(index)
            yield tuple(point)

    def store_outputs(self, steps: Sequence[Step], known: Known, point: Point) -> None:
        """Stores those of `steps` that are outputs."""
        for step in steps:
            memory = self.write_of.get(step)
            if memory is not None:
                self.store(known[step], memory.buffer, memory.index(point))

    def closure(self, targets: Sequence[Step], stop: Callable[[Step], bool]) -> list[Step]:
        """The maps of the group that `targets` depend on, in topological order, not looking past
        steps for which `stop` is true.
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

    def finish(self) -> Kernel:
        """The kernel of the finished nest."""
        return kernel_of(self.nest, self.operands)
