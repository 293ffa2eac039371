"""The windows of a block: its receptive field in the input, and how it is read.

The field is read in place if it is entirely inside the input, channels are contiguous, and the
dtype is that of the sums. Otherwise it is first copied to the stack, where it stays in L2:
zero-padded, converted, for a single group of channels, with `pitch` elements per pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point
from ingot.compiler.lower.products.convolution.plain import Axis, Plain, given_lanes
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.tuning import MAX_WINDOW_BYTES

__all__ = [
    "Copy",
    "Field",
    "TapLoops",
    "box_of",
    "fits_stack",
    "input_buffer",
    "reads_in_place",
    "results_inside",
    "taps_inside",
]


class Field(NamedTuple):
    """Where windows are read: pixels are along the last axis, with their channels adjacent.
    `origin` is the start of the window of the block's first result.
    """

    buffer: Buffer
    origin: Point
    axes: tuple[Axis, ...]
    pitch: int  # elements per pixel
    first: Affine  # channel

    def at(self, pixel: Point, taps: Sequence[Affine], channel: Affine) -> Point:
        """The index of the element that a tap reads."""
        *outer, last = [
            begin + position * axis.stride + tap * axis.step
            for begin, position, tap, axis in zip(self.origin, pixel, taps, self.axes, strict=True)
        ]
        return (*outer, last * self.pitch + self.first + channel)


class TapLoops:
    """Loops over the taps of a window, one for each axis that has several; `always` makes one even
    if no axis has.
    """

    def __init__(self, axes: Sequence[Axis], always: bool = False) -> None:
        looped = [number for number, axis in enumerate(axes) if axis.taps > 1]
        self._looped = looped or [len(axes) - 1][:always]
        self._rank = len(axes)
        self.ranges = [(0, axes[number].taps) for number in self._looped]

    def taps(self, indices: Sequence[Index]) -> list[Affine]:
        """The tap along each axis, given the indices of the loops, followed by any others."""
        found = [affine(0)] * self._rank
        for number, index in zip(self._looped, indices, strict=False):
            found[number] = affine(index)
        return found


def taps_inside(
    builder: NestBuilder, axis: Axis, position: Affine, last: Affine
) -> tuple[Affine, ...]:
    """The range of the taps along an axis that read inside the input, for the windows of results
    from a position to the last one: the first tap, and ends of which the least counts.
    """
    begin, end = (at * axis.stride + axis.first for at in (position, last))
    latest = axis.first + (axis.length - 1) * axis.stride
    head, *ends = _inside(builder, axis, begin, end, latest, axis.step)
    return (head, affine(axis.taps), *ends)


def results_inside(
    builder: NestBuilder, axis: Axis, start: Affine, tap: Affine, length: Affine
) -> tuple[Affine, ...]:
    """The range of `length` results along an axis, from `start` on, for which a tap reads inside
    the input, relative to `start`: the first one, and ends of which the least counts.
    """
    begin = start * axis.stride + tap * axis.step + axis.first
    latest = axis.first + axis.extent(axis.length) - 1
    head, *ends = _inside(builder, axis, begin, begin, latest, axis.stride)
    return (head, length, *ends)


def _inside(
    builder: NestBuilder, axis: Axis, begin: Affine, end: Affine, latest: int, step: int
) -> list[Affine]:
    """The least number of steps from `end` into the input, and the number of steps from `begin` out
    of it, if they may leave it; `begin` is at axis.first at least, `end` at `latest` at most.
    """
    found = [affine(0)]
    if axis.first < 0:
        outside = affine(builder.multiple(axis.first, 0, end, by=1)) * -1  # max(0, -end)
        found = [_steps(builder, outside, -axis.first, step)]
    if axis.first + axis.extent(axis.length) > axis.available:
        there = affine(axis.available) - begin
        least = min(0, axis.available - latest)
        there = there - builder.multiple(least, 0, there, by=1)  # max(0, there)
        # the verifier adds the longest distance outside
        found.append(_steps(builder, there, axis.available - axis.first - least, step))
    return found


def _steps(builder: NestBuilder, distance: Affine, longest: int, step: int) -> Affine:
    """The number of steps of a length within a distance, rounded up."""
    if step == 1:
        return distance
    lengths = ((longest + step - 1) // step + 1, step)
    return affine(builder.split(distance + (step - 1), lengths)[0])


def reads_in_place(plain: Plain) -> bool:
    """Whether windows are read in place from the input."""
    layout = plain.input.layout
    size = plain.input.dtype.size
    last = len(plain.axes) - 1
    return (
        plain.input.dtype is plain.dtype
        and all(axis.is_inside for axis in plain.axes)
        and layout.strides[-1] == size
        and layout.strides[last] == plain.groups * plain.channels * size
        and layout.strides[last + 1] == plain.channels * size
    )


def fits_stack(blocks: Blocks, channels: int, size: int) -> bool:
    """Whether the receptive field of a block fits on the stack."""
    return prod(blocks.extents) * channels * size <= MAX_WINDOW_BYTES


def input_buffer(builder: NestBuilder, plain: Plain, argument: int) -> Buffer:
    """The input: (*axes, groups, channels), or with pixels and channels as one axis where it is
    read in place.
    """
    layout = plain.input.layout
    last = len(plain.axes) - 1
    if layout.joins(last + 1) and layout.joined(last + 1).joins(last):
        layout = layout.joined(last + 1).joined(last)
    return plain.input._replace(layout=layout).buffer(builder, argument)


def box_of(
    builder: NestBuilder,
    plain: Plain,
    source: Buffer,
    block: Block,
    group: Affine,
    pitch: int | None = None,
    slack: int = 0,
) -> Field:
    """The windows of a block and a group, inside the parallel loop. `slack` elements after the
    last one may be read. `pitch` overrides the number of elements per pixel.
    """
    axes = plain.axes
    whole = plain.groups * plain.channels
    if reads_in_place(plain) and (pitch or whole) == whole and not slack:
        starts = zip(axes, block.starts, strict=True)
        origin = tuple(start * axis.stride + axis.first for axis, start in starts)
        return Field(source, origin, axes, whole, group * plain.channels)
    pitch = pitch or plain.channels
    *outer, last = block.blocks.extents
    window = builder.stack("window", plain.dtype, (*outer, last * pitch + slack))
    Copy(builder, plain, source, window, block, group, pitch).copy()
    return Field(window, (affine(0),) * len(axes), axes, pitch, affine(0))


class Copy:
    """Copies a box of the input, zero-padded."""

    def __init__(
        self,
        builder: NestBuilder,
        plain: Plain,
        source: Buffer,
        window: Buffer,
        block: Block,
        group: Affine,
        pitch: int,
    ) -> None:
        self.builder = builder
        self.pitch = pitch
        self.plain = plain
        self.source = source
        self.window = window
        self.block = block
        self.group = group
        # pixels and channels are one axis of the source
        self.is_flat = len(source.shape) == len(plain.axes)

    def copy(self) -> None:
        self._axis(0, (), ())

    def _axis(self, number: int, at: Point, from_: Point) -> None:
        """Copies the existing elements along an axis, and zero-fills the others."""
        builder, plain, blocks = self.builder, self.plain, self.block.blocks
        axis, extent = plain.axes[number], blocks.extents[number]
        begin = self.block.starts[number] * axis.stride + axis.first
        latest = axis.first + (blocks.counts[number] - 1) * blocks.lengths[number] * axis.stride
        head = affine(0)
        if axis.first < 0:
            # max(0, -begin)
            head = affine(builder.multiple(axis.first, 0, begin, by=1)) * -1
            self._zeros(number, at, affine(0), (head, affine(extent)))
        ends = [affine(extent)]
        if latest + extent > axis.available:
            ends.append(affine(axis.available) - begin)
        self._elements(number, at, from_, begin, head, ends)
        if latest + extent > axis.available:
            there = affine(axis.available) - begin
            least = min(0, axis.available - latest)
            tail = there - builder.multiple(least, 0, there, by=1)  # max(0, there)
            self._zeros(number, at, tail, (affine(extent),))

    def _elements(
        self, number: int, at: Point, from_: Point, begin: Affine, head: Affine, ends: list[Affine]
    ) -> None:
        """Copies elements head..ends of the window, which starts at `begin` in the input."""
        builder = self.builder
        if number + 1 < len(self.plain.axes):
            with builder.loop(head, *ends) as index:
                self._axis(number + 1, (*at, affine(index)), (*from_, begin + index))
            return
        self.copy_pixels(at, from_, begin, head, ends)

    def copy_pixels(
        self, at: Point, from_: Point, begin: Affine, head: Affine, ends: list[Affine]
    ) -> None:
        """Copies pixels head..ends along the last axis of the window, which starts at `begin` in
        the input.
        """
        builder, channels = self.builder, self.plain.channels
        lanes = given_lanes(self.source, -1)
        if self.is_flat and self.plain.groups == 1 and self.pitch == channels:
            flat_ends = [end * channels for end in ends]
            with builder.loop(head * channels, *flat_ends, kind="vector", lanes=lanes) as index:
                found = builder.load(self.source, (*from_, begin * channels + index))
                self.store(found, (*at, affine(index)))
            return
        if self._is_one_bundle():
            with builder.loop(head, *ends) as index:
                at_pixel = self.from_index(from_, begin + index, self.group, affine(0))
                bundle = builder.load_lanes(self.source, at_pixel, channels)
                self.store(bundle, (*at, affine(index) * self.pitch))
            return
        with (
            builder.loop(head, *ends) as index,
            builder.loop(0, channels, kind="vector", lanes=lanes) as channel,
        ):
            found = builder.load(
                self.source, self.from_index(from_, begin + index, self.group, affine(channel))
            )
            self.store(found, (*at, affine(index) * self.pitch + channel))

    def _is_one_bundle(self) -> bool:
        """Whether the channels of a pixel are contiguous and fill a vector, or divide one
        evenly.
        """
        channels, source = self.plain.channels, self.source
        return (
            source.strides[-1] == source.dtype.size
            and lanes_of(self.plain.dtype) % channels == 0
            and channels > 1
        )

    def from_index(self, outer: Point, pixel: Affine, group: Affine, channel: Affine) -> Point:
        """The index of a channel of the input."""
        channels = self.plain.channels
        if self.is_flat:
            row = pixel * (channels * self.plain.groups)
            return (*outer, row + group * channels + channel)
        return (*outer, pixel, group, channel)

    def store(self, value: Value, index: Point) -> None:
        """Stores an element or a bundle of the input into the window."""
        words = self.builder.words
        self.builder.store(words.cast(value, self.plain.dtype), self.window, index)

    def _zeros(self, number: int, at: Point, begin: Affine, ends: tuple[Affine, ...]) -> None:
        """Zero-fills elements begin..ends along an axis, and everything along the inner ones."""
        builder, pitch = self.builder, self.pitch
        zero = Constant(self.plain.dtype, 0)
        last = len(self.plain.axes) - 1
        if number == last:
            flat_ends = [end * pitch for end in ends]
            with builder.loop(begin * pitch, *flat_ends, kind="vector") as index:
                builder.store(zero, self.window, (*at, affine(index)))
            return
        with builder.loop(begin, *ends) as index:
            inner = affine(self.block.blocks.extents[number + 1])
            self._zeros(number + 1, (*at, affine(index)), affine(0), (inner,))
