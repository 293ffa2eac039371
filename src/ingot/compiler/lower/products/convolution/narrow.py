"""Convolutions with few outputs, such as the gradient of images with three channels.

A vector of outputs would be mostly empty, so vectors run along channels: a tile is some pixels
times the outputs, each accumulator holds partial sums, and its lanes are added at the end, halves
to halves.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import (
    Block,
    Blocks,
    Point,
    Tiling,
    choose_blocks,
)
from ingot.compiler.lower.products.convolution.plain import Plain, given_lanes
from ingot.compiler.lower.products.convolution.windows import (
    Field,
    TapLoops,
    box_of,
    fits_stack,
    input_buffer,
)
from ingot.compiler.lower.products.register_tile import Tile, TileShape, accumulate, lanes_of
from ingot.tuning import MAX_CONVOLUTION_PIXELS, MIN_CONVOLUTION_TASKS

__all__ = ["convolve_narrow", "is_narrow"]

MAX_OUTPUTS = 4
MAX_SUMS = 24  # accumulators of a tile


def is_narrow(plain: Plain) -> bool:
    """Whether vectors of channels are better filled than vectors of outputs."""
    return plain.outputs <= MAX_OUTPUTS and plain.channels % lanes_of(plain.dtype) == 0


def convolve_narrow(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    """The kernels of a correlation with few outputs, of which the first packs the filters; `steps`
    are the input, the filters and the results. None if the windows of one result do not fit.
    """
    blocks = _blocks(plain)
    if blocks is None:
        return None
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    weights = _weights(builder, plain, 1, offset)
    results = plain.results.buffer(builder, 2)
    work = blocks.pixels * plain.depth * plain.outputs
    rows = min(blocks.pixels, 8, MAX_SUMS // plain.outputs)
    shape = TileShape(rows, plain.outputs, lanes_of(plain.dtype))
    with builder.parallel((*blocks.counts, plain.groups), work) as (*points, group):
        block = Block(builder, blocks, points)
        field = box_of(builder, plain, source, block, affine(group))
        with block.tiles(Tiling(rows, False)) as pixels:
            tile = _sums(builder, plain, shape, field, weights, pixels, affine(group))
            _write(builder, plain, tile, block, results, pixels, affine(group))
    packing = _pack(plain, steps[1], offset)
    kernel = kernel_of(builder.nest, (steps[0], None, steps[2]))
    scratch = plain.groups * plain.outputs * plain.depth * plain.dtype.size
    return Lowered([packing, kernel], scratch)


def _blocks(plain: Plain) -> Blocks | None:
    pixels = prod(axis.length for axis in plain.axes)
    wanted = min(MAX_CONVOLUTION_PIXELS, -(-pixels * plain.groups // MIN_CONVOLUTION_TASKS))

    def fits(blocks: Blocks) -> bool:
        return fits_stack(blocks, plain.channels, plain.dtype.size)

    return choose_blocks(plain.axes, max(wanted, 16), fits)


def _sums(
    builder: NestBuilder,
    plain: Plain,
    shape: TileShape,
    field: Field,
    weights: Buffer,
    pixels: Sequence[Point],
    group: Affine,
) -> Tile:
    loops = TapLoops(plain.axes)

    def left(number: int, indices: tuple[Index, ...]) -> Value:
        channel = affine(indices[-1]) * shape.lanes
        index = field.at(pixels[number], loops.taps(indices), channel)
        return builder.load_lanes(field.buffer, index, shape.lanes)

    def right(number: int, indices: tuple[Index, ...]) -> Value:
        channel = affine(indices[-1]) * shape.lanes
        index = (group, affine(number), *loops.taps(indices), channel)
        return builder.load_lanes(weights, index, shape.lanes)

    ranges = [*loops.ranges, (0, plain.channels // shape.lanes)]
    return accumulate(builder, plain.dtype, shape, ranges, left, right)


def _write(
    builder: NestBuilder,
    plain: Plain,
    tile: Tile,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    group: Affine,
) -> None:
    """Adds up the lanes of all accumulators, and stores the sums."""
    for sums, pixel in zip(tile.sums, pixels, strict=True):
        point = block.result(pixel)
        for number, total in enumerate(sums):
            found = builder.fold_lanes(total, builder.words.add)
            value = builder.words.cast(found, plain.results.dtype)
            builder.store(value, results, (*point, group, affine(number)))


def _weights(builder: NestBuilder, plain: Plain, argument: int, offset: int) -> Buffer:
    """The packed filters in scratch memory: (groups, outputs, *taps, channels)."""
    shape = plain.filters.layout.shape
    return builder.row_major("weights", plain.dtype, shape, argument, offset)


def _pack(plain: Plain, step: Step, offset: int) -> Kernel:
    """The kernel that packs the filters."""
    builder = NestBuilder()
    source = plain.filters.buffer(builder, 0)
    target = _weights(builder, plain, 1, offset)
    *outer, channels = plain.filters.layout.shape
    lanes = given_lanes(source, -1)
    with (
        builder.parallel(outer, channels) as indices,
        builder.loop(0, channels, kind="vector", lanes=lanes) as channel,
    ):
        index = (*map(affine, indices), affine(channel))
        value = builder.words.cast(builder.load(source, index), plain.dtype)
        builder.store(value, target, index)
    return kernel_of(builder.nest, (step, None))
