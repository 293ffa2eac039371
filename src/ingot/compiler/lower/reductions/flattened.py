"""Rows of several axes, reduced as if they had one: `x - m`, say, with one number in `m` for each
column, summed over all elements.

Input: the inner axes of `Rows` and what the group reads and writes. Output: memory that is indexed
by the position along these axes, so that lanes are adjacent, which they are not if the last axis
does not consist of whole bundles of lanes. Operands that are contiguous are read and written in
place. Those that repeat are copied to the stack as often as a bundle may reach beyond their end.
All others are copied for each block, in whole rows of the last axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Memory, Point
from ingot.graph.shape import size_of
from ingot.tuning import MAX_PACKED_BYTES

__all__ = ["Flattened"]


class Flattened:
    """What a group reads and writes, by the position along the inner axes."""

    def __init__(
        self,
        builder: GroupBuilder,
        inner: tuple[int, ...],
        outer: tuple[int, ...],
        block: int,
        lanes: int,
    ) -> None:
        self.builder = builder
        self.inner = inner
        self.last = inner[-1]
        self.lengths = [builder.domain.lengths[axis] for axis in inner]
        self.length = size_of(self.lengths)
        self.block = block
        self.lanes = lanes
        self.repeating: dict[Operand, int] = {}  # and after how many elements they repeat
        self.others: list[Operand] = []
        self.contiguous: list[Operand] = []
        for operand in builder.reads:
            period = self._period(operand)
            if period == self.length:
                self.contiguous.append(operand)
            elif period is None or any(operand.strides[axis] for axis in outer):
                self.others.append(operand)
            elif period > 1:
                self.repeating[operand] = period
        self._packed: dict[Operand, Buffer] = {}

    @classmethod
    def of(
        cls,
        builder: GroupBuilder,
        inner: tuple[int, ...],
        outer: tuple[int, ...],
        block: int,
        lanes: int,
    ) -> Flattened | None:
        """None if lanes are adjacent anyway, or if what is read or written cannot be flattened."""
        if any(map(is_symbolic, builder.domain.lengths)) or builder.gathers:
            return None
        if len(inner) == 1 or builder.domain.lengths[inner[-1]] % lanes == 0:
            return None
        found = cls(builder, inner, outer, block, lanes)
        writes = (found._period(operand) in (found.length, 1) for operand in builder.writes)
        in_place = (builder.read_of[x.step].buffer.argument is not None for x in builder.reads)
        counts = any(x.strides[axis] for x in builder.iotas for axis in inner)
        size = max((x.dtype.size for x in found.others), default=0)
        is_small = size * (block + 2 * found.lengths[-1]) <= MAX_PACKED_BYTES
        return found if all(writes) and all(in_place) and is_small and not counts else None

    def _period(self, operand: Operand) -> int | None:
        """After how many elements an operand repeats, at the latest; None if the elements until
        then are not equally far apart.
        """
        period, step = 1, operand.strides[self.last]
        for axis, length in zip(reversed(self.inner), reversed(self.lengths), strict=True):
            stride = operand.strides[axis]
            if stride and stride != step:
                return None
            if not stride:
                break
            period *= length
            step *= length
        beyond = self.inner[: len(self.inner) - self._axes_within(period)]
        return None if any(operand.strides[axis] for axis in beyond) else period

    def _axes_within(self, period: int) -> int:
        """How many of the last axes have so many elements together."""
        count, together = 0, 1
        while together < period:
            count += 1
            together *= self.lengths[-count]
        return count

    def point(self, point: Point, at: Affine) -> Point:
        """The point that memory is indexed by at a position along the inner axes."""
        found = list(point)
        for axis in self.inner:
            found[axis] = affine(0)
        found[self.last] = at
        return tuple(found)

    @contextmanager
    def rows(self, point: Point) -> Iterator[None]:
        """Has contiguous operands indexed by position, and copies those that repeat to the
        stack.
        """
        builder = self.builder
        read_of, write_of = builder.read_of, builder.write_of
        for operand, period in self.repeating.items():
            self._packed[operand] = self._repeated(operand, period, point)
        joined = {x.step: self._joined(read_of[x.step], x) for x in self.contiguous}
        builder.read_of = {**read_of, **joined}
        builder.write_of = {
            x.step: self._joined(write_of[x.step], x)
            if self._period(x) == self.length
            else write_of[x.step]
            for x in builder.writes
        }
        yield
        builder.read_of, builder.write_of = read_of, write_of

    def _joined(self, memory: Memory, operand: Operand) -> Memory:
        """Contiguous memory with one axis for all inner ones."""
        source = memory.buffer
        slots = [slot for slot, axis in enumerate(memory.axes) if axis not in self.inner[:-1]]
        axes = tuple(memory.axes[slot] for slot in slots)
        shape = [source.shape[slot] for slot in slots]
        shape[axes.index(self.last)] = self.length
        buffer = self.builder.buffer(
            source.name,
            source.dtype,
            shape,
            [source.strides[slot] for slot in slots],
            source.argument,
            source.offset,
            source.origin,
        )
        return Memory(buffer, axes)

    def _repeated(self, operand: Operand, period: int, point: Point) -> Buffer:
        """Copies of an operand that repeats, side by side: a bundle begins in the first."""
        builder = self.builder
        memory = builder.read_of[operand.step]
        copies = 1 - -(self.lanes - 1) // period
        axes = self.inner[len(self.inner) - self._axes_within(period) :]
        name = f"repeated{len(builder.nest.buffers)}"
        buffer = builder.stack(name, operand.dtype, (copies * period,))
        with (
            builder.loop(0, copies) as copy,
            builder.loop(0, period, kind="vector", lanes=builder.lanes(self.last)) as index,
        ):
            here = builder.at(point, axes, affine(index))
            value = builder.load(memory.buffer, memory.index(here))
            builder.store(value, buffer, (affine(copy) * period + index,))
        return buffer

    @contextmanager
    def in_block(self, point: Point, number: Affine) -> Iterator[None]:
        """Copies the rows of a block of operands that are neither contiguous nor repeat."""
        builder, read_of = self.builder, self.builder.read_of
        if self.others:
            last = self.lengths[-1]
            begin = number * self.block
            row, phase = builder.split(begin, [self.length // last, last])
            builder.read_of = {
                **read_of,
                **{
                    x.step: self._unrolled(x, point, affine(row), begin - phase)
                    for x in self.others
                },
            }
        yield
        builder.read_of = read_of

    def _unrolled(self, operand: Operand, point: Point, first: Affine, origin: Affine) -> Memory:
        """A copy of whole rows of the last axis, which begins at that position."""
        builder, last = self.builder, self.lengths[-1]
        memory = builder.read_of[operand.step]
        count = 1 - -(self.block - 1) // last
        name = f"unrolled{len(builder.nest.buffers)}"
        buffer = builder.stack(name, operand.dtype, (count * last,))
        ends = first + count, affine(self.length // last)
        with (
            builder.loop(first, *ends) as row,
            builder.loop(0, last, kind="vector", lanes=builder.lanes(self.last)) as index,
        ):
            here = list(builder.at(point, self.inner[:-1], affine(row)))
            here[self.last] = affine(index)
            value = builder.load(memory.buffer, memory.index(tuple(here)))
            builder.store(value, buffer, ((affine(row) - first) * last + index,))
        return Memory(buffer, (self.last,), self.point(point, origin))

    @contextmanager
    def in_bundle(self, point: Point, begin: Affine) -> Iterator[None]:
        """Has operands that repeat indexed by the positions of a bundle that begins there."""
        builder, read_of = self.builder, self.builder.read_of
        found = {}
        for period in dict.fromkeys(self.repeating.values()):
            _, phase = builder.split(begin, [self.length // period, period])
            origin = self.point(point, begin - phase)
            for operand, each in self.repeating.items():
                if each == period:
                    found[operand.step] = Memory(self._packed[operand], (self.last,), origin)
        builder.read_of = {**read_of, **found}
        yield
        builder.read_of = read_of
