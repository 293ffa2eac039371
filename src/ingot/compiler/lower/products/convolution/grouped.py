"""Grouped convolutions whose groups do not fill vectors: several groups share them, interleaved.

The groups of a chunk are a power of two, and lane `l` of a vector holds an output of group `l %
groups`. A block copies its windows with the channels of these groups interleaved as well, so that
the elements that a vector is multiplied by are a few adjacent ones, which the processor repeats as
it loads them. Results are separated again as they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point, choose_blocks
from ingot.compiler.lower.products.convolution.dense import results_of, tiling_for, window_sums
from ingot.compiler.lower.products.convolution.interleaved import interleaved_box_of
from ingot.compiler.lower.products.convolution.plain import Plain
from ingot.compiler.lower.products.convolution.windows import fits_stack, input_buffer
from ingot.compiler.lower.products.register_tile import Tile, TileShape, lanes_for, lanes_of
from ingot.runtime.processor import datapath_bytes, vector_bytes, vector_registers
from ingot.tuning import MAX_CONVOLUTION_PIXELS, MIN_CONVOLUTION_TASKS
from ingot.tuning_products import MAX_INTERLEAVED_VECTORS

__all__ = ["Chunks", "chunks_of", "convolve_grouped", "is_grouped"]


class Chunks(NamedTuple):
    """Groups that share vectors: `together` per chunk, with so many `vectors` for their outputs."""

    together: int
    vectors: int
    number: int
    lanes: int

    @property
    def share(self) -> int:
        """Lanes of a vector for each group."""
        return self.lanes // self.together


def is_grouped(plain: Plain) -> bool:
    """Whether interleaved groups take less time than one group after the other."""
    return chunks_of(plain) is not None


def chunks_of(plain: Plain) -> Chunks | None:
    """The chunks with the fewest vectors; None if single groups take about as long."""
    lanes = lanes_of(plain.dtype)
    sizes = [1 << power for power in range(1, lanes.bit_length())]
    every = [_chunks(plain, size) for size in sizes if size < 2 * plain.groups]
    possible = [each for each in every if _is_possible(plain, each)]
    if not possible:
        return None
    best = min(possible, key=lambda each: (each.number * each.vectors, each.together))
    single = lanes_for(plain.dtype, plain.outputs)
    is_half = single < lanes and datapath_bytes() < vector_bytes()
    alone = plain.groups * -(-plain.outputs // single) / (2 if is_half else 1)
    return best if best.number * best.vectors <= MAX_INTERLEAVED_VECTORS * alone else None


def _chunks(plain: Plain, together: int) -> Chunks:
    """The chunks of so many groups. The last one may lack some, which are computed in vain."""
    lanes = lanes_of(plain.dtype)
    vectors = -(-plain.outputs // (lanes // together))
    return Chunks(together, vectors, -(-plain.groups // together), lanes)


def _is_possible(plain: Plain, chunks: Chunks) -> bool:
    """Whether tiles fit in registers, and what is computed of missing groups is not stored."""
    most = 5 if vector_registers() >= 32 else 3
    are_adjacent = chunks.vectors == 1 and plain.results.layout.joins(len(plain.axes))
    return chunks.vectors <= most and (are_adjacent or plain.groups % chunks.together == 0)


def convolve_grouped(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    """The kernels of a correlation, of which the first packs the filters; `steps` are the input,
    the filters and the results. None if the windows of one result do not fit.
    """
    chunks = chunks_of(plain)
    assert chunks is not None
    blocks = _blocks(plain, chunks)
    if blocks is None:
        return None
    tiling = tiling_for(blocks, chunks.vectors, plain.depth)
    shape = TileShape(tiling.rows, chunks.vectors, chunks.lanes)
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    panels = _panels(builder, plain, chunks, 1, offset)
    results = _results(builder, plain, chunks)
    work = blocks.pixels * plain.depth * shape.columns
    with builder.parallel((*blocks.counts, chunks.number), work) as (*points, chunk):
        block = Block(builder, blocks, points)
        first = affine(chunk) * chunks.together
        field = interleaved_box_of(builder, plain, source, block, first, chunks.together)
        at = (affine(chunk), affine(0))
        with block.tiles(tiling) as pixels:
            here, together = results_of(block, tiling, pixels), chunks.together
            tile = window_sums(builder, plain, shape, field, panels, pixels, at, here, together)
            _write(builder, plain, chunks, tile, block, results, pixels, affine(chunk))
    scratch = chunks.number * plain.depth * shape.columns * plain.dtype.size
    kernel = kernel_of(builder.nest, (steps[0], None, steps[2]))
    return Lowered([_pack(plain, chunks, steps[1], offset), kernel], scratch)


def _blocks(plain: Plain, chunks: Chunks) -> Blocks | None:
    pixels = prod(axis.length for axis in plain.axes)
    wanted = min(MAX_CONVOLUTION_PIXELS, -(-pixels * chunks.number // MIN_CONVOLUTION_TASKS))

    def fits(blocks: Blocks) -> bool:
        return fits_stack(blocks, plain.channels * chunks.together, plain.dtype.size)

    return choose_blocks(plain.axes, max(wanted, 16), fits)


def _results(builder: NestBuilder, plain: Plain, chunks: Chunks) -> Buffer:
    """The results: (*axes, groups, outputs), or with both as one axis if a vector has all outputs
    of a chunk.
    """
    last, results = len(plain.axes), plain.results
    if chunks.vectors == 1 and results.layout.joins(last):
        layout = results.layout.joined(last)
        if plain.groups % chunks.together == 0:
            layout = layout.in_groups(last, chunks.number)
        results = results._replace(layout=layout)
    return results.buffer(builder, 2)


def _write(
    builder: NestBuilder,
    plain: Plain,
    chunks: Chunks,
    tile: Tile,
    block: Block,
    results: Buffer,
    pixels: Sequence[Point],
    chunk: Affine,
) -> None:
    """Stores the sums of a tile."""
    outputs, together = plain.outputs, chunks.together
    is_joined = chunks.vectors == 1 and plain.results.layout.joins(len(plain.axes))
    for sums, pixel in zip(tile.sums, pixels, strict=True):
        point = block.result(pixel)
        if is_joined:
            _write_together(builder, plain, chunks, sums[0], results, (*point, chunk))
            continue
        for group, number in product(range(together), range(chunks.vectors)):
            part = builder.some_lanes(sums[number], group, chunks.share, together)
            value = builder.words.cast(part, plain.results.dtype)
            index = (*point, chunk * together + group, affine(number * chunks.share))
            limit = outputs if outputs % chunks.share else None
            builder.store(value, results, index, limit)


def _write_together(
    builder: NestBuilder,
    plain: Plain,
    chunks: Chunks,
    total: Value,
    results: Buffer,
    at: tuple[Affine, ...],
) -> None:
    """Stores the results of a pixel and a chunk, which are adjacent."""
    outputs, together = plain.outputs, chunks.together
    picks = [output * together + group for group in range(together) for output in range(outputs)]
    value = builder.words.cast(builder.picked_lanes((total,), tuple(picks)), plain.results.dtype)
    if plain.groups % together == 0:
        builder.store(value, results, (*at, affine(0)))
    else:
        *point, chunk = at
        index = (*point, chunk * (together * outputs))
        builder.store(value, results, index, plain.groups * outputs)


def _panels(
    builder: NestBuilder, plain: Plain, chunks: Chunks, argument: int, offset: int
) -> Buffer:
    """The packed filters in scratch memory: (chunks, 1, taps * channels, columns)."""
    shape = (chunks.number, 1, plain.depth, chunks.vectors * chunks.lanes)
    return builder.row_major("panels", plain.dtype, shape, argument, offset)


def _pack(plain: Plain, chunks: Chunks, step: Step, offset: int) -> Kernel:
    """The kernel that packs the filters."""
    builder = NestBuilder()
    source = plain.filters.buffer(builder, 0)
    target = _panels(builder, plain, chunks, 1, offset)
    taps = [axis.taps for axis in plain.axes]
    columns = chunks.vectors * chunks.lanes
    lengths = (chunks.number, *taps, plain.channels)
    with builder.parallel(lengths, columns) as (chunk, *tap, channel):
        row = affine(0)
        for number, length in zip(tap, taps, strict=True):
            row = row * length + number
        row = row * plain.channels + channel
        for group in range(chunks.together):
            from_ = affine(chunk) * chunks.together + group
            if plain.groups % chunks.together:
                from_ = affine(builder.multiple(0, from_, plain.groups - 1, by=1))
            with builder.loop(0, plain.outputs) as output:
                index = (from_, affine(output), *map(affine, tap), affine(channel))
                value = builder.words.cast(builder.load(source, index), plain.dtype)
                at = affine(output) * chunks.together + group
                builder.store(value, target, (affine(chunk), affine(0), row, at))
        if plain.outputs * chunks.together < columns:
            with builder.loop(plain.outputs * chunks.together, columns, kind="vector") as column:
                zero = Constant(plain.dtype, 0)
                builder.store(zero, target, (affine(chunk), affine(0), row, affine(column)))
    return kernel_of(builder.nest, (step, None))
