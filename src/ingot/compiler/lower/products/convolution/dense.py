"""Convolutions that mix channels: products of windows and packed filters, in register tiles.

A tile is some pixels times some vectors of outputs; its loops run over taps and channels. The left
operand is an element of the window, broadcast to all lanes; the right one is a vector of the packed
filters.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, kernel_of
from ingot.compiler.lower.products.convolution.blocks import (
    Block,
    Blocks,
    Point,
    Tiling,
    choose_blocks,
)
from ingot.compiler.lower.products.convolution.filters import packed_filters
from ingot.compiler.lower.products.convolution.plain import Plain
from ingot.compiler.lower.products.convolution.windows import (
    Field,
    box_of,
    fits_stack,
    input_buffer,
    reads_in_place,
    taps_inside,
)
from ingot.compiler.lower.products.register_tile import Tile, TileShape, accumulate, lanes_for
from ingot.graph.dtype import float32
from ingot.runtime.processor import vector_registers
from ingot.tuning import (
    CACHE_LINE,
    MAX_CONVOLUTION_PIXELS,
    MAX_GROUPED_BLOCK_BYTES,
    MIN_CONVOLUTION_TASKS,
)
from ingot.tuning_products import FLAT_PIXEL_TIME

__all__ = [
    "convolution_columns",
    "convolve",
    "results_of",
    "tile_shape",
    "tiling_for",
    "window_sums",
]


def convolve(plain: Plain, steps: tuple[Step, Step], offset: int) -> Kernel | None:
    """The kernel that computes a plain correlation with packed filters; `steps` are the input and
    the results. None if the receptive field of one result does not fit.
    """
    blocks = _blocks(plain)
    if blocks is None:
        return None
    tiling = tiling_for(blocks, _vectors(plain), plain.depth)
    shape = TileShape(tiling.rows, _vectors(plain), lanes_for(plain.dtype, plain.outputs))
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    panels = packed_filters(builder, plain, shape.columns, 1, offset)
    results = plain.results.buffer(builder, 2)
    count = panels.shape[1]
    assert isinstance(count, int)
    tasks = prod(blocks.counts) * plain.groups
    splits = min(count, -(-MIN_CONVOLUTION_TASKS // tasks))
    each = -(-count // splits)
    splits = -(-count // each)
    work = blocks.pixels * plain.depth * min(each * shape.columns, plain.outputs)
    with builder.parallel((*blocks.counts, plain.groups, splits), work) as indices:
        *points, group, split = indices
        block = Block(builder, blocks, points)
        field = box_of(builder, plain, source, block, affine(group))
        first = affine(split) * each
        with builder.loop(first, first + each, affine(count)) as panel:
            at = (group, panel)
            with block.tiles(tiling) as pixels:
                _fetch(builder, shape, block, results, pixels, at)
                here = results_of(block, tiling, pixels)
                tile = window_sums(builder, plain, shape, field, panels, pixels, at, here)
                _write(builder, plain, tile, block, results, pixels, at)
    return kernel_of(builder.nest, (steps[0], None, steps[1]))


def convolution_columns(plain: Plain) -> int:
    """Columns of a panel of filters."""
    return _vectors(plain) * lanes_for(plain.dtype, plain.outputs)


def _vectors(plain: Plain) -> int:
    needed = -(-plain.outputs // lanes_for(plain.dtype, plain.outputs))
    most = 5 if vector_registers() >= 32 else 3
    # as few unused vectors as possible, then few panels
    return min(range(1, most + 1), key=lambda v: (-(-needed // v) * v, -(-needed // v)))


def tile_shape(plain: Plain, pixels: int) -> TileShape:
    """The tile for a number of rows of windows and a panel of filters."""
    vectors = _vectors(plain)
    # as few unused pixels as possible, then large tiles
    rows = min(_heights(vectors), key=lambda r: (-(-pixels // r) * _time(r), -r))
    return TileShape(min(rows, pixels), vectors, lanes_for(plain.dtype, plain.outputs))


def _heights(vectors: int) -> range:
    """The heights of tiles of so many vectors that use most registers."""
    # accumulators, a register for each vector of the right operand, and one for the left
    most = max(1, min(14, (vector_registers() - 1 - vectors) // vectors))
    return range(max(1, most * 2 // 3), most + 1)


def _time(rows: int) -> float:
    """The time of a tile, per product, in multiplications of its vectors: loading these, too."""
    return rows * (1 + 20 // rows / 20)


def tiling_for(blocks: Blocks, vectors: int, depth: int) -> Tiling:
    """How the pixels of a block are divided into tiles of so many vectors, whose sums have `depth`
    products.
    """
    products = vectors * depth
    last = blocks.lengths[-1]
    has_rows = blocks.partial < len(blocks.lengths) - 1

    def time(tiling: Tiling) -> tuple[float, int]:
        rows, each = tiling.rows, _time(tiling.rows) * products
        each *= prod(axis.share_inside for axis in blocks.axes[: blocks.common_axes(tiling)])
        if tiling.is_in_rows:
            return blocks.pixels // last * -(-last // rows) * each, -rows
        return -(-blocks.pixels // rows) * (each + has_rows * rows * FLAT_PIXEL_TIME), -rows

    heights = _heights(vectors)
    found = [Tiling(min(rows, blocks.pixels), False) for rows in heights]
    if has_rows:
        found += [Tiling(rows, True) for rows in range(1, min(last, heights[-1]) + 1)]
    return min(found, key=time)


def _blocks(plain: Plain) -> Blocks | None:
    pixels = prod(axis.length for axis in plain.axes)
    # threads may share panels too
    panels = plain.groups * -(-plain.outputs // convolution_columns(plain))
    wanted = min(MAX_CONVOLUTION_PIXELS, -(-pixels * panels // MIN_CONVOLUTION_TASKS))
    if plain.groups > 1:  # all groups access the same cache lines in sequence
        pixel = plain.groups * (plain.channels + plain.outputs) * plain.dtype.size
        wanted = min(wanted, MAX_GROUPED_BLOCK_BYTES // pixel)
    in_place = reads_in_place(plain)

    def fits(blocks: Blocks) -> bool:
        return in_place or fits_stack(blocks, plain.channels, plain.dtype.size)

    return choose_blocks(plain.axes, max(wanted, 16), fits)


def _fetch(
    builder: NestBuilder,
    shape: TileShape,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    at: tuple[Index, Index],
) -> None:
    """Prefetches the lines that a tile will be stored to."""
    group, panel = map(affine, at)
    for pixel in pixels:
        for line in range(0, shape.columns, CACHE_LINE // results.dtype.size):
            column = panel * shape.columns + line
            builder.prefetch(results, (*block.result(pixel), group, column))


class Results(NamedTuple):
    """The first and the last result of a tile, which are in order along so many `axes`."""

    first: Point
    last: Point
    axes: int


def results_of(block: Block, tiling: Tiling, pixels: Sequence[Point]) -> Results:
    """The results of a tile of pixels."""
    axes = block.blocks.common_axes(tiling)
    return Results(block.result(pixels[0]), block.result(pixels[-1]), axes)


def window_sums(
    builder: NestBuilder,
    plain: Plain,
    shape: TileShape,
    field: Field,
    panels: Buffer,
    pixels: Sequence[Point],
    at: tuple[Index, Index] | tuple[Affine, Affine],
    results: Results | None = None,
    together: int = 1,
) -> Tile:
    """The sums of some pixels of a block and a panel of packed filters, tap by tap. The channels of
    so many groups `together` are interleaved. Taps that are outside of the input for all `results`
    along the axes along which these are in order are left out.
    """
    axes, channels = plain.axes, plain.channels
    last = axes[-1]
    # windows without gaps: taps and channels of the last axis are one range
    is_run = field.pitch == channels * together and (last.step == 1 or last.taps == 1)
    outer = [number for number, axis in enumerate(axes[:-1]) if axis.taps > 1]
    loops: list[tuple[Extent, ...]] = []
    for number in outer:
        axis = axes[number]
        if results is None or number >= results.axes:
            loops.append((0, axis.taps))
        else:
            loops.append(taps_inside(builder, axis, results.first[number], results.last[number]))
    loops += [(0, last.taps * channels)] if is_run else [(0, last.taps), (0, channels)]

    def split(indices: tuple[Index, ...]) -> tuple[list[Affine], Affine, Affine]:
        """The taps along all axes, the channel, and the row of the panel."""
        taps = [affine(0)] * len(axes)
        for number, index in zip(outer, indices, strict=False):
            taps[number] = affine(index)
        if is_run:
            channel = affine(indices[-1])
        else:
            taps[-1], channel = affine(indices[-2]), affine(indices[-1])
        depth = affine(0)
        for axis, tap in zip(axes, taps, strict=True):
            depth = depth * axis.taps + tap
        return taps, channel, depth * channels + channel

    def left(number: int, indices: tuple[Index, ...]) -> Value:
        taps, channel, _ = split(indices)
        index = field.at(pixels[number], taps, channel * together)
        if together == 1:
            return builder.splat(builder.load(field.buffer, index), shape.lanes)
        found = builder.load_lanes(field.buffer, index, together)
        return builder.picked_lanes((found,), tuple(range(together)) * (shape.lanes // together))

    def right(number: int, indices: tuple[Index, ...]) -> Value:
        _, _, depth = split(indices)
        index = (*map(affine, at), depth, affine(number * shape.lanes))
        return builder.load_lanes(panels, index, shape.lanes)

    if not plain.has_pairs:
        return accumulate(builder, plain.dtype, shape, loops, left, right)
    add = builder.words.dot_bfloat16
    return accumulate(builder, float32, shape, loops, left, right, add)


def _write(
    builder: NestBuilder,
    plain: Plain,
    tile: Tile,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    at: tuple[Index, Index],
) -> None:
    """Stores the sums of a tile."""
    shape = tile.shape
    group, panel = at
    limit = plain.outputs if plain.outputs % shape.columns else None
    for sums, pixel in zip(tile.sums, pixels, strict=True):
        point = block.result(pixel)
        for number, total in enumerate(sums):
            column = affine(panel) * shape.columns + number * shape.lanes
            value = builder.words.cast(total, plain.results.dtype)
            builder.store(value, results, (*point, affine(group), column), limit)
