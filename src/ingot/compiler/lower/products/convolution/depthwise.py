"""Depthwise convolutions, with one filter per channel: vectors of channels.

A tile is some adjacent pixels along the last axis times one vector of channels; its loops run over
the taps. Channels are divided into chunks, which play the role of groups in the windows that a
block copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point, choose_blocks
from ingot.compiler.lower.products.convolution.plain import Layout, Plain, given_lanes
from ingot.compiler.lower.products.convolution.windows import (
    Field,
    TapLoops,
    box_of,
    fits_stack,
    input_buffer,
)
from ingot.compiler.lower.products.register_tile import Tile, TileShape, accumulate, lanes_of
from ingot.runtime.processor import vector_registers
from ingot.tuning import DEPTHWISE_VECTORS, MAX_CONVOLUTION_PIXELS, MIN_CONVOLUTION_TASKS

__all__ = ["convolve_depthwise", "depthwise_blocks", "in_chunks", "is_depthwise", "pitch_of"]


def is_depthwise(plain: Plain) -> bool:
    """Whether each channel has one filter of its own."""
    return plain.groups > 1 and plain.channels == 1 and plain.outputs == 1


def in_chunks(plain: Plain) -> Plain:
    """A depthwise correlation with chunks of channels as its groups: inputs and results are
    (*axes, chunks, channels), filters are (chunks, channels, *taps, 1).
    """
    lanes = lanes_of(plain.dtype)
    count = plain.groups
    widths = [width for width in range(lanes, count + 1, lanes) if count % width == 0]
    channels = max((w for w in widths if w <= DEPTHWISE_VECTORS * lanes), default=count)

    def split(layout: Layout, axis: int) -> Layout:
        """(groups, 1) as (chunks, channels)."""
        shape, strides = layout.shape, layout.strides
        whole = Layout(
            (*shape[: axis + 1], *shape[axis + 2 :]),
            (*strides[: axis + 1], *strides[axis + 2 :]),
            layout.offset,
        )
        return whole.in_groups(axis, count // channels)

    last = len(plain.axes)
    return plain._replace(
        groups=count // channels,
        channels=channels,
        outputs=channels,
        input=plain.input._replace(layout=split(plain.input.layout, last)),
        results=plain.results._replace(layout=split(plain.results.layout, last)),
        filters=plain.filters._replace(layout=split(plain.filters.layout, 0)),
    )


def pitch_of(plain: Plain) -> int:
    """The number of channels of a pixel, rounded up to whole vectors."""
    lanes = lanes_of(plain.dtype)
    return -(-plain.channels // lanes) * lanes


def convolve_depthwise(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    """The kernels of a depthwise correlation, of which the first packs the filters; `steps` are the
    input, the filters and the results. None if the windows of one result do not fit.
    """
    plain = in_chunks(plain)
    blocks = depthwise_blocks(plain)
    if blocks is None:
        return None
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    weights = _weights(builder, plain, 1, offset)
    results = plain.results.buffer(builder, 2)
    taps = prod(axis.taps for axis in plain.axes)
    work = blocks.pixels * plain.channels * taps
    lanes = lanes_of(plain.dtype)
    with builder.parallel((*blocks.counts, plain.groups), work) as (*points, chunk):
        block = Block(builder, blocks, points)
        pitch = None if pitch_of(plain) == plain.channels else pitch_of(plain)
        field = box_of(builder, plain, source, block, affine(chunk), pitch)
        with (
            builder.loop(0, pitch_of(plain), step=lanes) as channel,
            row_tiles(builder, block) as pixels,
        ):
            at = affine(chunk), affine(channel)
            tile = _sums(builder, plain, field, weights, pixels, at)
            _write(builder, plain, tile, block, results, pixels, at)
    packing = _pack(plain, steps[1], offset)
    kernel = kernel_of(builder.nest, (steps[0], None, steps[2]))
    scratch = plain.groups * taps * pitch_of(plain) * plain.dtype.size
    return Lowered([packing, kernel], scratch)


def depthwise_blocks(plain: Plain) -> Blocks | None:
    """Blocks whose windows fit the stack."""
    pixels = prod(axis.length for axis in plain.axes)
    wanted = min(MAX_CONVOLUTION_PIXELS, -(-pixels * plain.groups // MIN_CONVOLUTION_TASKS))

    def fits(blocks: Blocks) -> bool:
        return fits_stack(blocks, pitch_of(plain), plain.dtype.size)

    return choose_blocks(plain.axes, max(wanted, 16), fits)


def _tile_rows(length: int) -> int:
    """The number of pixels of a tile along an axis: few that are computed twice, and few tiles."""
    most = min(length, vector_registers() // 2)
    return min(range(1, most + 1), key=lambda rows: (-(-length // rows) * (rows + 1), rows))


@contextmanager
def row_tiles(builder: NestBuilder, block: Block) -> Iterator[list[Point]]:
    """A loop over all pixels of a block, several adjacent ones along the last axis at a time. The
    last tile of a row may overlap the one before.
    """
    blocks = block.blocks
    last = len(blocks.lengths) - 1
    length = blocks.lengths[last]
    rows = _tile_rows(length)
    if blocks.partial == last and not block.is_whole:
        outside = (affine(0),) * last
        with builder.loop(0, block.here, step=rows) as first:
            numbers = [
                builder.multiple(0, affine(first) + row, block.here - 1, by=1)
                for row in range(rows)
            ]
            yield [(*outside, affine(number)) for number in numbers]
        return
    with builder.loop(0, block.rows) as row:
        point = block.row(affine(row))
        with builder.loop(0, length, step=rows) as first:
            start = affine(first)
            if length % rows:
                start = affine(builder.multiple(0, start, length - rows, by=1))
            yield [(*point, start + number) for number in range(rows)]


def _sums(
    builder: NestBuilder,
    plain: Plain,
    field: Field,
    weights: Buffer,
    pixels: Sequence[Point],
    at: tuple[Affine, Affine],
) -> Tile:
    chunk, channel = at
    loops = TapLoops(plain.axes, always=True)
    shape = TileShape(len(pixels), 1, lanes_of(plain.dtype))

    def left(number: int, indices: tuple[Index, ...]) -> Value:
        index = field.at(pixels[number], loops.taps(indices), channel)
        return builder.load_lanes(field.buffer, index, shape.lanes)

    def right(_: int, indices: tuple[Index, ...]) -> Value:
        index = (chunk, *loops.taps(indices), channel)
        return builder.load_lanes(weights, index, shape.lanes)

    return accumulate(builder, plain.dtype, shape, loops.ranges, left, right)


def _write(
    builder: NestBuilder,
    plain: Plain,
    tile: Tile,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    at: tuple[Affine, Affine],
) -> None:
    """Stores the sums of a tile."""
    limit = plain.channels if pitch_of(plain) != plain.channels else None
    for (total,), pixel in zip(tile.sums, pixels, strict=True):
        point = block.result(pixel)
        value = builder.words.cast(total, plain.results.dtype)
        builder.store(value, results, (*point, *at), limit)


def _weights(builder: NestBuilder, plain: Plain, argument: int, offset: int) -> Buffer:
    """The packed filters in scratch memory: (chunks, *taps, channels)."""
    shape = (plain.groups, *[axis.taps for axis in plain.axes], pitch_of(plain))
    return builder.row_major("weights", plain.dtype, shape, argument, offset)


def _pack(plain: Plain, step: Step, offset: int) -> Kernel:
    """The kernel that packs the filters."""
    builder = NestBuilder()
    source = plain.filters.buffer(builder, 0)
    target = _weights(builder, plain, 1, offset)
    pitch = pitch_of(plain)
    with builder.parallel(target.shape[:-1], pitch) as (chunk, *taps):
        at = tuple(map(affine, taps))
        lanes = given_lanes(source, 1)
        with builder.loop(0, plain.channels, kind="vector", lanes=lanes) as channel:
            index = (affine(chunk), affine(channel), *at, affine(0))
            value = builder.words.cast(builder.load(source, index), plain.dtype)
            builder.store(value, target, (affine(chunk), *at, affine(channel)))
        if pitch != plain.channels:
            with builder.loop(plain.channels, pitch, kind="vector") as channel:
                index = (affine(chunk), *at, affine(channel))
                builder.store(Constant(plain.dtype, 0), target, index)
    return kernel_of(builder.nest, (step, None))
