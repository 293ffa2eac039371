"""A fused group as a loop nest under construction: its operands as buffers, its steps as values.

A `Spot` is where an iteration is: one affine expression for each axis of the group's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, affine, extent
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Indices, Value
from ingot.compiler.forms.schedule import Group, inputs_at_place
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Operand, immediate_value, operands_of
from ingot.compiler.lower.kernel import Kernel, kernel_of
from ingot.graph.roles import Gather, Reduce, View

__all__ = ["GroupBuilder", "Known", "Memory", "Spot"]

VECTOR_BYTES = 64

Spot = tuple[Affine, ...]
Known = dict[Step, Value]


class Memory:
    """A buffer with the axes of the domain along which it has elements, and where on each of these
    it begins.
    """

    __slots__ = ("axes", "buffer", "origin")

    def __init__(self, buffer: Buffer, axes: tuple[int, ...], origin: Spot | None = None) -> None:
        self.buffer = buffer
        self.axes = axes
        self.origin = origin

    def index(self, spot: Spot) -> Indices:
        """The index of the element at a spot."""
        if self.origin is None:
            return tuple([spot[axis] for axis in self.axes])
        return tuple([spot[axis] - self.origin[axis] for axis in self.axes])


class GroupBuilder(NestBuilder):
    """What all nests of groups share: reading operands, computing steps, writing outputs."""

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
        self.reads, self.gathers, self.writes, self.counts = operands
        self.members = set(group.steps)
        self.reductions = [step for step in group.steps if isinstance(step.op, Reduce)]
        self.positions = {operand.step: operand for operand in self.counts}
        self.read_of: dict[Step, Memory] = {}
        self.write_of: dict[Step, Memory] = {}
        self.gather_of: dict[Step, tuple[Memory, list[int]]] = {}
        self.operands: list[Step | None] = []
        for operand in self.reads:
            self.read_of[operand.step] = self._memory(operand)
        for step, operand in self.gathers.items():
            self.gather_of[step] = self._gathered_memory(step, operand)
        for operand in self.writes:
            self.write_of[operand.step] = self._memory(operand)

    # Memory

    def _memory(self, operand: Operand) -> Memory:
        """The buffer of an operand, which has no axes along which it does not move."""
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
        """The buffer of what a step reads by index, and the order of its axes, longest strides
        first, among those of the domain and those that are found by index.
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
        """How many elements a loop along an axis takes at once: the number is given where it runs
        backwards through an operand. LLVM has two models of the cost of such loops, and builds of
        it that check themselves end the process where the two choose differently.
        """
        in_memory = (*self.reads, *self.gathers.values(), *self.writes)
        if not any(x.strides[axis] < 0 and x.step not in without for x in in_memory):
            return 0
        return VECTOR_BYTES // max(x.dtype.size for x in (*self.reads, *self.writes))

    # Values

    def value(self, step: Step, known: Known, spot: Spot) -> Value:
        """An input of a step at a spot."""
        found = known.get(step)
        if found is None:
            found = known[step] = self._outside_value(step, spot)
        return found

    def _outside_value(self, step: Step, spot: Spot) -> Value:
        memory = self.read_of.get(step)
        if memory is not None:
            found: Value = self.load(memory.buffer, memory.index(spot))
            found.origin = step
            return found
        counted = self.positions.get(step)
        if counted is not None:
            return self._position(counted, spot)
        constant = immediate_value(step)
        assert constant is not None
        return self.words.constant_of(constant[0].item(), step.dtype)

    def _position(self, counted: Operand, spot: Spot) -> Value:
        """How far a spot is into what was counted."""
        position = affine(counted.offset)
        symbolic: list[tuple[Affine, Number]] = []
        for at, stride in zip(spot, counted.strides, strict=True):
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

    def compute(self, steps: Sequence[Step], known: Known, spot: Spot) -> None:
        """Adds the elements of `steps`, which are in order, to `known`."""
        for step in steps:
            if step in known:
                continue
            inputs = [self.value(source, known, spot) for source in inputs_at_place(step)]
            assert step.op is not None
            if isinstance(step.op, Gather):
                found = self._gathered(step, inputs, spot)
            elif isinstance(step.op, View):
                found = inputs[0]
            else:
                found = self.rounded(step.op.emit(self.words, *inputs))
            if found.origin is None:
                found.origin = step
            known[step] = found

    def rounded(self, result: Value) -> Value:
        """The result of an op as its dtype holds it, unless more precision is wanted."""
        return result if self.group.excess_precision else self.words.rounded(result)

    def _gathered(self, step: Step, indices: list[Value], spot: Spot) -> Value:
        """An element of the first input of a step, at indices."""
        op = step.op
        assert isinstance(op, Gather)
        memory, order = self.gather_of[step]
        shape = step.inputs[0].shape
        found = op.emit_indices(self.words, shape, *indices)
        checked = [self.checked(one, shape[axis]) for one, axis in zip(found, op.axes, strict=True)]
        at = (*memory.index(spot), *checked)
        return self.load(memory.buffer, [at[slot] for slot in order])

    def reduced_input(self, reduction: Step, known: Known, spot: Spot) -> Value:
        """What a reduction combines at a spot."""
        return self.words.cast(self.value(reduction.inputs[0], known, spot), reduction.dtype)

    def at(self, spot: Spot, axes: Sequence[int], number: Affine) -> Spot:
        """The spot at a position among all elements of some axes, the last of which moves first."""
        if not axes:
            return spot
        indices: Sequence[Affine] = (number,)
        if len(axes) > 1:
            lengths = [self.domain.lengths[axis] for axis in axes]
            indices = [affine(index) for index in self.split(number, lengths)]
        found = list(spot)
        for axis, index in zip(axes, indices, strict=True):
            found[axis] = index
        return tuple(found)

    @contextmanager
    def rows(self, work: int) -> Iterator[Spot]:
        """The parallel loop over the axes that are not reduced."""
        kept = self.domain.kept
        spot = [affine(0)] * len(self.domain.lengths)
        with self.parallel([self.domain.lengths[axis] for axis in kept], work) as indices:
            for axis, index in zip(kept, indices, strict=True):
                spot[axis] = affine(index)
            yield tuple(spot)

    def store_outputs(self, steps: Sequence[Step], known: Known, spot: Spot) -> None:
        """Writes those of `steps` that are outputs."""
        for step in steps:
            memory = self.write_of.get(step)
            if memory is not None:
                self.store(known[step], memory.buffer, memory.index(spot))

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

    # The kernel

    def finish(self) -> Kernel:
        """The kernel of the nest."""
        return kernel_of(self.nest, self.operands)
