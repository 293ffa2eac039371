"""Plain correlations: what the nests of convolutions compute, and the layout of their operands.

Along each axis, including the batch, tap k of result y reads element `first + y * stride + k *
step` of the input, or 0 if there is none. Phases of results and of taps are views of their arrays,
and so are groups of channels.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.graph.dtype import bfloat16, float32, uint16, uint32
from ingot.graph.numerics.phases import Geometry, Phase, phases_of
from ingot.graph.shape import Shape

__all__ = [
    "Axis",
    "Layout",
    "Operand",
    "Plain",
    "computed_dtype",
    "given_lanes",
    "plain_correlations",
]


def computed_dtype(dtype: Dtype) -> Dtype:
    """The dtype of sums: float32 for the half types."""
    return float32 if dtype.size == 2 else dtype


class Axis(NamedTuple):
    """An axis of the results: the batch has one tap."""

    length: int  # of the results
    taps: int
    first: int
    stride: int
    step: int
    available: int  # elements of the input

    def extent(self, length: int) -> int:
        """The extent of the windows of `length` results."""
        return (length - 1) * self.stride + (self.taps - 1) * self.step + 1

    @property
    def is_inside(self) -> bool:
        """Whether all windows are inside the input."""
        return self.first >= 0 and self.first + self.extent(self.length) <= self.available

    @property
    def share_inside(self) -> float:
        """The share of the taps of all windows that are inside the input."""
        inside = 0
        for tap in range(self.taps):
            at = self.first + tap * self.step
            begin, end = -(at // self.stride), -((at - self.available) // self.stride)
            inside += max(0, min(end, self.length) - max(begin, 0))
        return inside / (self.length * self.taps)


class Layout(NamedTuple):
    """The layout of an array: its offset and strides, in bytes."""

    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0

    def every(self, axis: int, part: slice) -> Layout:
        """A slice along an axis."""
        start, stop, step = part.indices(self.shape[axis])
        length = len(range(start, stop, step))
        shape, strides = list(self.shape), list(self.strides)
        offset = self.offset + start * strides[axis] if length else self.offset
        shape[axis], strides[axis] = length, strides[axis] * step
        return Layout(tuple(shape), tuple(strides), offset)

    def collapsed(self) -> Layout:
        """The same elements in the same order, with adjacent axes joined where strides allow it."""
        shape, strides = [1], [0]
        for length, stride in zip(self.shape, self.strides, strict=True):
            if length == 1:
                continue
            if shape[-1] == 1 or strides[-1] == length * stride:
                shape[-1] *= length
                strides[-1] = stride
            else:
                shape.append(length)
                strides.append(stride)
        return Layout(tuple(shape), tuple(strides), self.offset)

    def in_groups(self, axis: int, groups: int) -> Layout:
        """An axis split into two: groups, and the elements of each."""
        inner = self.shape[axis] // groups
        shape = (*self.shape[:axis], groups, inner, *self.shape[axis + 1 :])
        stride = self.strides[axis]
        strides = (*self.strides[:axis], stride * inner, stride, *self.strides[axis + 1 :])
        return Layout(shape, strides, self.offset)

    def joins(self, axis: int) -> bool:
        """Whether an axis and the next one can be joined."""
        return self.shape[axis] == 1 or (
            self.strides[axis] == self.shape[axis + 1] * self.strides[axis + 1]
        )

    def joined(self, axis: int) -> Layout:
        """An axis and the next one joined."""
        length = self.shape[axis] * self.shape[axis + 1]
        shape = (*self.shape[:axis], length, *self.shape[axis + 2 :])
        return Layout(shape, (*self.strides[:axis], *self.strides[axis + 1 :]), self.offset)


def given_lanes(buffer: Buffer, axis: int) -> int:
    """The vector width of a loop along an axis: 0 leaves it to LLVM, unless the loop runs backwards
    (see `GroupBuilder.lanes`).
    """
    stride = buffer.strides[axis]
    assert isinstance(stride, int)
    return lanes_of(computed_dtype(buffer.dtype)) if stride < 0 else 0


class Operand(NamedTuple):
    """An array of a nest."""

    name: str
    dtype: Dtype
    layout: Layout

    def buffer(self, builder: NestBuilder, argument: int) -> Buffer:
        """The array as a buffer of an argument."""
        shape, strides, offset = self.layout
        return builder.buffer(self.name, self.dtype, shape, strides, argument, offset)


class Plain(NamedTuple):
    """A plain correlation of groups of channels.

    The input is (*axes, groups, channels), the results are (*axes, groups, outputs), filters are
    (groups, outputs, *taps, channels), with one tap along the batch.
    """

    axes: tuple[Axis, ...]
    groups: int
    channels: int  # of a group
    outputs: int  # of a group
    input: Operand
    filters: Operand
    results: Operand

    @property
    def dtype(self) -> Dtype:
        """Of the sums."""
        return computed_dtype(self.input.dtype)

    @property
    def depth(self) -> int:
        """Products of one sum."""
        found = self.channels
        for axis in self.axes:
            found *= axis.taps
        return found

    def in_pairs(self) -> Plain | None:
        """The same with pairs of adjacent bfloat16 channels as words, whose products dot-product
        instructions add to float32 sums; None if there are none. Filters remain single elements,
        which become words as they are packed.
        """
        dtype, (shape, strides, offset) = self.input.dtype, self.input.layout
        if dtype is not bfloat16 or self.channels % 2 or strides[-1] != dtype.size:
            return None
        if any(number % uint32.size for number in (*strides[:-1], offset)):
            return None
        channels = self.channels // 2
        layout = Layout((*shape[:-1], channels), (*strides[:-1], uint32.size), offset)
        return self._replace(
            channels=channels,
            input=Operand(self.input.name, uint32, layout),
            filters=self.filters._replace(dtype=uint16),
        )

    @property
    def has_pairs(self) -> bool:
        """Whether channels are pairs."""
        return self.dtype is uint32

    def joined(self) -> Plain:
        """The same with fewer axes: adjacent axes without windows are joined."""
        found = self
        axis = 0
        while axis + 1 < len(found.axes):
            pair = found.axes[axis], found.axes[axis + 1]
            if (
                all(_has_no_windows(each) for each in pair)
                and found.input.layout.joins(axis)
                and found.results.layout.joins(axis)
            ):
                found = found._joined_at(axis)
            else:
                axis += 1
        return found

    def _joined_at(self, axis: int) -> Plain:
        length = self.axes[axis].length * self.axes[axis + 1].length
        one = Axis(length, 1, 0, 1, 1, length)
        return self._replace(
            axes=(*self.axes[:axis], one, *self.axes[axis + 2 :]),
            input=self.input._replace(layout=self.input.layout.joined(axis)),
            results=self.results._replace(layout=self.results.layout.joined(axis)),
            # the strides of a single tap are irrelevant
            filters=self.filters._replace(layout=self.filters.layout.joined(axis + 2)),
        )


def _has_no_windows(axis: Axis) -> bool:
    return (axis.taps, axis.first, axis.stride) == (1, 0, 1) and axis.length == axis.available


def plain_correlations(
    geometry: Geometry, groups: int, input: Operand, filters: Operand, results: Operand
) -> list[Plain]:
    """The plain correlations of which a correlation of (N, ..., C), (O, ..., C / groups) and (N,
    ..., O) consists.
    """
    lengths, taps = results.layout.shape[1:-1], filters.layout.shape[1:-1]
    return [
        _plain(phases, groups, input, filters, results)
        for phases in phases_of(lengths, taps, geometry)
    ]


def _plain(
    phases: tuple[Phase, ...], groups: int, input: Operand, filters: Operand, results: Operand
) -> Plain:
    used, written = filters.layout, results.layout
    for number, phase in enumerate(phases, 1):
        used, written = used.every(number, phase.taps), written.every(number, phase.results)
    batch = input.layout.shape[0]
    axes = [Axis(batch, 1, 0, 1, 1, batch)]
    for number, phase in enumerate(phases, 1):
        lengths = written.shape[number], used.shape[number]
        available = input.layout.shape[number]
        axes.append(Axis(*lengths, phase.first, phase.stride, phase.step, available))
    last = len(axes)
    batched = used.in_groups(0, groups)
    batched = Layout(
        (*batched.shape[:2], 1, *batched.shape[2:]),
        (*batched.strides[:2], 0, *batched.strides[2:]),
        batched.offset,
    )
    return Plain(
        tuple(axes),
        groups,
        used.shape[-1],
        used.shape[0] // groups,
        input._replace(layout=input.layout.in_groups(last, groups)),
        filters._replace(layout=batched),
        results._replace(layout=written.in_groups(last, groups)),
    )
