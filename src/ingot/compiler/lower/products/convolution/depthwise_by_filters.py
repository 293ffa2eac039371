"""Gradients of the filters of depthwise convolutions: vectors of channels.

A tile is some taps times one vector of channels; its loops run over the pixels of a block. As for
other gradients of filters, a second kernel adds up the partial sums of blocks, in an order that
depends on lengths alone.
"""

from __future__ import annotations

from itertools import product
from math import prod

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point
from ingot.compiler.lower.products.convolution.by_filters import PartialSums, clear_sums
from ingot.compiler.lower.products.convolution.depthwise import (
    depthwise_blocks,
    in_chunks,
    pitch_of,
)
from ingot.compiler.lower.products.convolution.plain import Plain
from ingot.compiler.lower.products.convolution.windows import Field, box_of, input_buffer
from ingot.compiler.lower.products.register_tile import TileShape, accumulate, lanes_of
from ingot.tuning import MAX_TILE_ROWS, MIN_CONVOLUTION_TASKS

__all__ = ["correlate_depthwise_by_filters"]


def correlate_depthwise_by_filters(
    plain: Plain, steps: tuple[Step, Step, Step], offset: int
) -> Lowered | None:
    """The kernels of the gradient of a depthwise correlation with respect to its filters: `steps`
    are its input, the cotangent of its results, and the gradient. None if the windows of one result
    do not fit, if there are too many taps along the last axis, or if the channels of the cotangent
    are not adjacent.
    """
    plain = in_chunks(plain)
    blocks = depthwise_blocks(plain)
    is_adjacent = plain.results.layout.strides[-1] == plain.results.dtype.size
    if blocks is None or plain.axes[-1].taps > MAX_TILE_ROWS or not is_adjacent:
        return None
    total = prod(blocks.counts)
    parts = min(total, -(-MIN_CONVOLUTION_TASKS // plain.groups))
    each = -(-total // parts)
    taps = tuple(axis.taps for axis in plain.axes)
    shape = (plain.groups, *taps, pitch_of(plain))
    sums = PartialSums(plain.dtype, -(-total // each), shape, offset)
    kernel = _sums_kernel(plain, blocks, sums, each, steps)
    return Lowered([kernel, _added(plain, sums, steps[2])], sums.nbytes)


def _looped_axes(plain: Plain) -> int:
    """How many axes, from the first on, have loops over their taps; the taps along the others are
    the rows of a tile.
    """
    looped, rows = len(plain.axes), 1
    while looped and rows * plain.axes[looped - 1].taps <= MAX_TILE_ROWS:
        looped -= 1
        rows *= plain.axes[looped].taps
    return looped


def _sums_kernel(
    plain: Plain, blocks: Blocks, sums: PartialSums, each: int, steps: tuple[Step, Step, Step]
) -> Kernel:
    """The kernel of partial sums, each over `each` blocks."""
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    outputs = plain.results.buffer(builder, 1)
    target = sums.buffer(builder, 2)
    total = prod(blocks.counts)
    pitch = None if pitch_of(plain) == plain.channels else pitch_of(plain)
    work = each * blocks.pixels * plain.channels * prod(axis.taps for axis in plain.axes)
    with builder.parallel((sums.parts, plain.groups), work) as (part, chunk):
        at = (affine(part), affine(chunk))
        clear_sums(builder, target, at)
        first = affine(part) * each
        with builder.loop(first, first + each, affine(total)) as number:
            block = Block(builder, blocks, builder.split(number, blocks.counts))
            field = box_of(builder, plain, source, block, affine(chunk), pitch)
            task = _Task(builder, plain, block, field, outputs, target, at)
            with builder.loop(0, pitch_of(plain), step=lanes_of(plain.dtype)) as channel:
                task.taps((), affine(channel))
    return kernel_of(builder.nest, (steps[0], steps[1], None))


class _Task:
    """Accumulates the products of one block for all taps."""

    def __init__(
        self,
        builder: NestBuilder,
        plain: Plain,
        block: Block,
        field: Field,
        outputs: Buffer,
        target: Buffer,
        at: Point,
    ) -> None:
        self.builder = builder
        self.plain = plain
        self.block = block
        self.field = field
        self.outputs = outputs
        self.target = target
        self.at = at

    def taps(self, outer: Point, channel: Affine) -> None:
        """Adds to the sums of all taps that begin with `outer`."""
        axes, builder = self.plain.axes, self.builder
        if len(outer) < _looped_axes(self.plain):
            with builder.loop(0, axes[len(outer)].taps) as tap:
                self.taps((*outer, affine(tap)), channel)
            return
        inner = product(*(range(axis.taps) for axis in axes[len(outer) :]))
        self._tile([(*outer, *map(affine, taps)) for taps in inner], channel)

    def _tile(self, rows: list[Point], channel: Affine) -> None:
        builder, plain, block = self.builder, self.plain, self.block
        shape = TileShape(len(rows), 1, lanes_of(plain.dtype))
        lengths = block.blocks.lengths
        limit = plain.channels if pitch_of(plain) != plain.channels else None
        looped = [n for n, length in enumerate(lengths) if length > 1] or [len(lengths) - 1]

        def pixel(indices: tuple[Index, ...]) -> Point:
            found = [affine(0)] * len(lengths)
            for number, index in zip(looped, indices, strict=True):
                found[number] = affine(index)
            return tuple(found)

        def left(number: int, indices: tuple[Index, ...]) -> Value:
            index = self.field.at(pixel(indices), rows[number], channel)
            return builder.load_lanes(self.field.buffer, index, shape.lanes)

        def right(_: int, indices: tuple[Index, ...]) -> Value:
            point = [a + b for a, b in zip(block.starts, pixel(indices), strict=True)]
            index = (*point, self.at[1], channel)
            found = builder.load_lanes(self.outputs, index, shape.lanes, limit)
            return builder.words.cast(found, plain.dtype)

        loops: list[tuple[Extent, Extent]] = [
            (0, block.here if number == block.blocks.partial else lengths[number])
            for number in looped
        ]
        indices = [(*self.at, *taps, channel) for taps in rows]
        start = [[builder.load_lanes(self.target, index, shape.lanes)] for index in indices]
        tile = accumulate(builder, plain.dtype, shape, loops, left, right, start=start)
        for index, (total,) in zip(indices, tile.sums, strict=True):
            builder.store(total, self.target, index)


def _added(plain: Plain, sums: PartialSums, step: Step) -> Kernel:
    """The kernel that adds up partial sums in order."""
    builder = NestBuilder()
    source = sums.buffer(builder, 0)
    target = plain.filters.buffer(builder, 1)
    taps = sums.shape[1:-1]
    with (
        builder.parallel((plain.groups, *taps), plain.channels * sums.parts) as (chunk, *tap),
        builder.loop(0, plain.channels, kind="vector") as channel,
    ):
        at = tuple(map(affine, tap))
        index = (affine(chunk), *at, affine(channel))
        total: Value = builder.load(source, (affine(0), *index))
        for part in range(1, sums.parts):
            total = builder.words.add(total, builder.load(source, (affine(part), *index)))
        value = builder.words.cast(total, target.dtype)
        builder.store(value, target, (affine(chunk), affine(channel), *at, affine(0)))
    return kernel_of(builder.nest, (None, step))
