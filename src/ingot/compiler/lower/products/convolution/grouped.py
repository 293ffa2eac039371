"""Grouped convolutions with few outputs per group: several groups share a vector.

The lanes are the outputs of several groups, a chunk. Each lane multiplies elements of its own
group, so a block makes a second copy of its windows in which each element is repeated for every
output of its group. All taps read that copy; a tile is some adjacent pixels times one vector, as
for depthwise convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point, choose_blocks
from ingot.compiler.lower.products.convolution.depthwise import row_tiles
from ingot.compiler.lower.products.convolution.plain import Layout, Plain
from ingot.compiler.lower.products.convolution.windows import Field, TapLoops, box_of, input_buffer
from ingot.compiler.lower.products.register_tile import Tile, TileShape, accumulate, lanes_of
from ingot.tuning import (
    MAX_CONVOLUTION_PIXELS,
    MAX_GROUPED_WINDOW_BYTES,
    MIN_CONVOLUTION_TASKS,
)

__all__ = ["convolve_grouped", "is_grouped"]

MIN_TAPS = 4  # that amortise the copy of a window


def is_grouped(plain: Plain) -> bool:
    """Whether at least three groups fit into a vector; two use vectors of half the length."""
    return (
        groups_per_chunk(plain) > 2
        and prod(axis.taps for axis in plain.axes) >= MIN_TAPS
        and plain.input.layout.joins(len(plain.axes))
        and plain.results.layout.joins(len(plain.axes))
    )


def groups_per_chunk(plain: Plain) -> int:
    """The number of groups per vector: as many as fit and divide the number of groups."""
    most = lanes_of(plain.dtype) // plain.outputs
    return max((n for n in range(1, most + 1) if plain.groups % n == 0), default=1)


def convolve_grouped(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    """The kernels of a correlation, of which the first packs the filters; `steps` are the input,
    the filters and the results. None if the windows of one result do not fit.
    """
    chunks = _in_chunks(plain)
    blocks = _blocks(plain, chunks)
    if blocks is None:
        return None
    lanes = lanes_of(plain.dtype)
    builder = NestBuilder()
    source = input_buffer(builder, chunks, 0)
    weights = _weights(builder, plain, 1, offset)
    results = chunks.results.buffer(builder, 2)
    work = blocks.pixels * plain.depth * lanes
    with builder.parallel((*blocks.counts, chunks.groups), work) as (*points, chunk):
        block = Block(builder, blocks, points)
        box = box_of(builder, chunks, source, block, affine(chunk))
        field = _spread(builder, plain, box, block)
        with row_tiles(builder, block) as pixels:
            tile = _sums(builder, plain, field, weights, pixels, affine(chunk))
            _write(builder, chunks, tile, block, results, pixels, affine(chunk))
    scratch = chunks.groups * plain.depth * lanes * plain.dtype.size
    kernel = kernel_of(builder.nest, (steps[0], None, steps[2]))
    return Lowered([_pack(plain, steps[1], offset), kernel], scratch)


def _in_chunks(plain: Plain) -> Plain:
    """The correlation with chunks of groups as its groups."""
    grouped = groups_per_chunk(plain)
    last = len(plain.axes)

    def joined(layout: Layout) -> Layout:
        return layout.joined(last).in_groups(last, plain.groups // grouped)

    return plain._replace(
        groups=plain.groups // grouped,
        channels=plain.channels * grouped,
        outputs=plain.outputs * grouped,
        input=plain.input._replace(layout=joined(plain.input.layout)),
        results=plain.results._replace(layout=joined(plain.results.layout)),
    )


def _pixel_elements(plain: Plain) -> int:
    """Elements of a pixel in the copy: a vector for each channel of a group."""
    return plain.channels * lanes_of(plain.dtype)


def _blocks(plain: Plain, chunks: Plain) -> Blocks | None:
    pixels = prod(axis.length for axis in plain.axes)
    wanted = min(MAX_CONVOLUTION_PIXELS, -(-pixels * chunks.groups // MIN_CONVOLUTION_TASKS))

    def fits(blocks: Blocks) -> bool:
        size = prod(blocks.extents) * _pixel_elements(plain) * plain.dtype.size
        return size <= MAX_GROUPED_WINDOW_BYTES

    return choose_blocks(plain.axes, max(wanted, 16), fits)


def _spread(builder: NestBuilder, plain: Plain, box: Field, block: Block) -> Field:
    """The windows of a block, with each element repeated in all lanes that multiply it."""
    lanes, pitch = lanes_of(plain.dtype), _pixel_elements(plain)
    *outer, last = block.blocks.extents
    copy = builder.stack("lanes", plain.dtype, (*outer, last * pitch))
    elements = box._replace(axes=tuple(axis._replace(stride=1) for axis in plain.axes))
    grouped, outputs = groups_per_chunk(plain), plain.outputs
    zeros = (affine(0),) * len(plain.axes)

    def element(point: Point, channel: Affine) -> None:
        first = point[-1] * pitch + channel * lanes
        for group in range(grouped):
            index = elements.at(point, zeros, channel + group * plain.channels)
            value = builder.splat(builder.load(box.buffer, index), outputs)
            builder.store(value, copy, (*point[:-1], first + group * outputs))
        for lane in range(grouped * outputs, lanes):
            builder.store(Constant(plain.dtype, 0), copy, (*point[:-1], first + lane))

    def level(point: Point) -> None:
        if len(point) == len(plain.axes):
            with builder.loop(0, plain.channels) as channel:
                element(point, affine(channel))
            return
        number = len(point)
        ends = [affine(block.blocks.extents[number])]
        if box.buffer.argument is not None and number == block.blocks.partial:
            # the last block may be smaller: what follows it does not exist
            ends.append(affine(plain.axes[number].available) - box.origin[number])
        with builder.loop(0, *ends) as index:
            level((*point, affine(index)))

    level(())
    return Field(copy, zeros, plain.axes, pitch, affine(0))


def _sums(
    builder: NestBuilder,
    plain: Plain,
    field: Field,
    weights: Buffer,
    pixels: Sequence[Point],
    chunk: Affine,
) -> Tile:
    loops = TapLoops(plain.axes)
    shape = TileShape(len(pixels), 1, lanes_of(plain.dtype))

    def left(number: int, indices: tuple[Index, ...]) -> Value:
        index = field.at(pixels[number], loops.taps(indices), affine(indices[-1]) * shape.lanes)
        return builder.load_lanes(field.buffer, index, shape.lanes)

    def right(_: int, indices: tuple[Index, ...]) -> Value:
        index = (chunk, *loops.taps(indices), affine(indices[-1]), affine(0))
        return builder.load_lanes(weights, index, shape.lanes)

    ranges = [*loops.ranges, (0, plain.channels)]
    return accumulate(builder, plain.dtype, shape, ranges, left, right)


def _write(
    builder: NestBuilder,
    chunks: Plain,
    tile: Tile,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    chunk: Affine,
) -> None:
    """Stores the sums of a tile."""
    limit = chunks.outputs if chunks.outputs < tile.shape.lanes else None
    for (total,), pixel in zip(tile.sums, pixels, strict=True):
        point = block.result(pixel)
        value = builder.words.cast(total, chunks.results.dtype)
        builder.store(value, results, (*point, chunk, affine(0)), limit)


def _weights(builder: NestBuilder, plain: Plain, argument: int, offset: int) -> Buffer:
    """The packed filters in scratch memory: (chunks, *taps, channels, lanes)."""
    taps = [axis.taps for axis in plain.axes]
    count = plain.groups // groups_per_chunk(plain)
    shape = (count, *taps, plain.channels, lanes_of(plain.dtype))
    return builder.row_major("weights", plain.dtype, shape, argument, offset)


def _pack(plain: Plain, step: Step, offset: int) -> Kernel:
    """The kernel that packs the filters."""
    builder = NestBuilder()
    source = plain.filters.buffer(builder, 0)
    target = _weights(builder, plain, 1, offset)
    grouped, outputs = groups_per_chunk(plain), plain.outputs
    with builder.parallel(target.shape[:-1], target.shape[-1]) as (chunk, *taps, channel):
        at = tuple(map(affine, taps))
        for lane in range(lanes_of(plain.dtype)):
            value: Value = Constant(plain.dtype, 0)
            if lane < grouped * outputs:
                group, output = divmod(lane, outputs)
                index = (affine(chunk) * grouped + group, affine(output), *at, affine(channel))
                value = builder.words.cast(builder.load(source, index), plain.dtype)
            builder.store(value, target, (affine(chunk), *at, affine(channel), affine(lane)))
    return kernel_of(builder.nest, (step, None))
