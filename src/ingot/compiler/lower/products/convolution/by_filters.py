"""Gradients of filters: for each tap, sums over pixels, in register tiles.

A tile is some outputs times some vectors of channels, or of taps along the last axis and channels
joined, which are contiguous in both windows and filters. Its loops run over the pixels of a block.
Each iteration of the parallel loop accumulates some blocks in memory; if these sums are partial,
another kernel adds them up. Their number depends on lengths alone, and so does the order of all
additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, choose_blocks
from ingot.compiler.lower.products.convolution.patches import (
    fits_patches,
    gather_patches,
    is_patched,
)
from ingot.compiler.lower.products.convolution.plain import Operand, Plain
from ingot.compiler.lower.products.convolution.windows import (
    Field,
    box_of,
    fits_stack,
    input_buffer,
    results_inside,
)
from ingot.compiler.lower.products.register_tile import (
    Tile,
    TileShape,
    accumulate,
    lanes_for,
    lanes_of,
)
from ingot.runtime.processor import vector_registers
from ingot.tuning import MAX_GRADIENT_PIXELS, MAX_PARTIAL_FILTER_BYTES, MIN_CONVOLUTION_TASKS
from ingot.tuning_products import HALF_VECTORS

__all__ = ["PartialSums", "add_partial_sums", "clear_sums", "correlate_by_filters"]


class PartialSums(NamedTuple):
    """Partial sums in scratch memory, of shape (parts, *shape), contiguous."""

    dtype: Dtype
    parts: int
    shape: tuple[int, ...]
    offset: int

    def buffer(self, builder: NestBuilder, argument: int) -> Buffer:
        """The sums as memory of an argument."""
        shape = (self.parts, *self.shape)
        return builder.row_major("sums", self.dtype, shape, argument, self.offset)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.parts * prod(self.shape) * self.dtype.size


def correlate_by_filters(
    plain: Plain, steps: tuple[Step, Step, Step], offset: int
) -> Lowered | None:
    """The kernels of the gradient of a plain correlation with respect to its filters: `steps` are
    its input, the cotangent of its results, and the gradient. None if the receptive field of one
    result does not fit.
    """
    shape = _tile_shape(plain)
    blocks = _blocks(plain)
    if blocks is None:
        return None
    total = prod(blocks.counts)
    one = PartialSums(plain.dtype, 1, (plain.groups, plain.outputs, *_columns(plain)), offset)
    count = max(1, min(total, MIN_CONVOLUTION_TASKS, MAX_PARTIAL_FILTER_BYTES // one.nbytes))
    each = -(-total // count)
    sums = one._replace(parts=-(-total // each))
    kernel = _sums_kernel(plain, shape, blocks, sums, each, steps)
    return Lowered([kernel, add_partial_sums(plain, sums, steps[2])], sums.nbytes)


def _is_run(plain: Plain) -> bool:
    """Whether the taps of the last axis and the channels are one contiguous range of a window."""
    last = plain.axes[-1]
    return last.step == 1 or last.taps == 1


def _columns(plain: Plain) -> tuple[int, ...]:
    """The taps and channels of sums, joined into one axis if they are contiguous."""
    if is_patched(plain):
        return (plain.depth,)
    *outer, last = [axis.taps for axis in plain.axes]
    if _is_run(plain):
        return (*outer, last * plain.channels)
    return (*outer, last, plain.channels)


def _tile_shape(plain: Plain) -> TileShape:
    lanes = lanes_for(plain.dtype, _columns(plain)[-1])
    needed = -(-_columns(plain)[-1] // lanes)
    registers = vector_registers()
    widest = 4 if registers >= 32 else 2
    if lanes < lanes_of(plain.dtype):
        widest = max(HALF_VECTORS)
    vectors = min(range(1, widest + 1), key=lambda v: (-(-needed // v) * v, -v))
    most = max(1, min(14, (registers - 1 - vectors) // vectors))
    least = max(1, most * 2 // 3)
    # the vectors of a tile are loaded, which takes about as long as one of its rows
    rows = min(range(least, most + 1), key=lambda r: (-(-plain.outputs // r) * (r + 1), -r))
    return TileShape(min(rows, plain.outputs), vectors, lanes)


def _slack(plain: Plain, shape: TileShape) -> int:
    return shape.columns if _columns(plain)[-1] % shape.columns else 0


def _blocks(plain: Plain) -> Blocks | None:
    def fits(blocks: Blocks) -> bool:
        return fits_stack(blocks, plain.channels, plain.dtype.size) and (
            not is_patched(plain) or fits_patches(plain, blocks.pixels)
        )

    return choose_blocks(plain.axes, MAX_GRADIENT_PIXELS, fits)


def _sums_kernel(
    plain: Plain,
    shape: TileShape,
    blocks: Blocks,
    sums: PartialSums,
    each: int,
    steps: tuple[Step, Step, Step],
) -> Kernel:
    """The kernel of partial sums, each over `each` blocks."""
    builder = NestBuilder()
    source = input_buffer(builder, plain, 0)
    outputs = plain.results.buffer(builder, 1)
    target = sums.buffer(builder, 2)
    total = prod(blocks.counts)
    tiles = -(-plain.outputs // shape.rows)
    splits = min(tiles, -(-MIN_CONVOLUTION_TASKS // (sums.parts * plain.groups)))
    tiles_each = -(-tiles // splits)
    splits = -(-tiles // tiles_each)
    work = each * blocks.pixels * plain.depth * plain.outputs // splits
    with builder.parallel((sums.parts, plain.groups, splits), work) as (part, group, split):
        tile = affine(split) * tiles_each
        ends = (tile + tiles_each, affine(tiles))
        at = (affine(part), affine(group))
        rows = [tile * shape.rows, ends[0] * shape.rows, affine(plain.outputs)]
        with builder.loop(*rows) as row:
            clear_sums(builder, target, (*at, affine(row)))
        first = affine(part) * each
        with builder.loop(first, first + each, affine(total)) as number:
            points = builder.split(number, blocks.counts)
            block = Block(builder, blocks, points)
            field = _field(builder, plain, shape, source, block, affine(group))
            task = _Task(builder, plain, shape, block, field, outputs, target, at)
            task.run(tile, ends)
    return kernel_of(builder.nest, (steps[0], steps[1], None))


def _field(
    builder: NestBuilder,
    plain: Plain,
    shape: TileShape,
    source: Buffer,
    block: Block,
    group: Affine,
) -> Field:
    """Where the windows of a block are read."""
    if is_patched(plain):
        field = box_of(builder, plain, source, block, group, plain.channels)
        return gather_patches(builder, plain, field, block, shape.columns)
    pitch = plain.channels if _is_run(plain) else None
    return box_of(builder, plain, source, block, group, pitch, _slack(plain, shape))


def clear_sums(builder: NestBuilder, target: Buffer, at: tuple[Affine, ...]) -> None:
    """Sets the sums at an index of the first axes to 0."""
    is_last = len(at) + 1 == len(target.shape)
    with builder.loop(0, target.shape[len(at)], kind="vector" if is_last else "for") as index:
        if is_last:
            builder.store(Constant(target.dtype, 0), target, (*at, affine(index)))
        else:
            clear_sums(builder, target, (*at, affine(index)))


class _Task:
    """Accumulates the products of one block for all taps, columns and rows."""

    def __init__(
        self,
        builder: NestBuilder,
        plain: Plain,
        shape: TileShape,
        block: Block,
        field: Field,
        outputs: Buffer,
        target: Buffer,
        at: tuple[Affine, Affine],
    ) -> None:
        self.builder = builder
        self.plain = plain
        self.shape = shape
        self.block = block
        self.field = field
        self.outputs = outputs
        self.target = target
        self.at = at

    def run(self, begin: Affine, ends: tuple[Affine, ...]) -> None:
        """Adds to the sums of the tiles of outputs begin..ends."""
        self._taps((), begin, ends)

    def _taps(self, taps: tuple[Affine, ...], begin: Affine, ends: tuple[Affine, ...]) -> None:
        builder, shape = self.builder, self.shape
        *outer, columns = _columns(self.plain)
        if len(taps) < len(outer):
            with builder.loop(0, outer[len(taps)]) as tap:
                self._taps((*taps, affine(tap)), begin, ends)
            return
        with (
            builder.loop(0, columns, step=shape.columns) as column,
            builder.loop(begin, *ends) as tile,
        ):
            first = affine(tile) * shape.rows
            rows = [first + number for number in range(shape.rows)]
            if self.plain.outputs % shape.rows:
                last = affine(self.plain.outputs - 1)
                rows = [affine(builder.multiple(first, each, last, by=1)) for each in rows]
            self._tile(taps, rows, affine(column))

    def _tile(self, taps: tuple[Affine, ...], rows: Sequence[Affine], column: Affine) -> None:
        builder, shape = self.builder, self.shape
        length = _columns(self.plain)[-1]
        limit = length if length % shape.columns else None
        columns = [column + number * shape.lanes for number in range(shape.vectors)]
        indices = [[(*self.at, row, *taps, each) for each in columns] for row in rows]
        start: list[list[Value]] = [
            [builder.load_lanes(self.target, index, shape.lanes, limit) for index in line]
            for line in indices
        ]
        tile = self._sums(taps, rows, column, start)
        for line, sums in zip(indices, tile.sums, strict=True):
            for index, total in zip(line, sums, strict=True):
                builder.store(total, self.target, index, limit)

    def _sums(
        self,
        taps: tuple[Affine, ...],
        rows: Sequence[Affine],
        column: Affine,
        start: list[list[Value]],
    ) -> Tile:
        builder, shape, block = self.builder, self.shape, self.block
        blocks = block.blocks
        looped = [n for n, length in enumerate(blocks.lengths) if length > 1]
        looped = looped or [len(blocks.lengths) - 1]
        met = [*taps, *[affine(0)] * len(blocks.lengths)][: len(blocks.lengths)]

        def pixel(indices: tuple[Index, ...]) -> tuple[Affine, ...]:
            found = [affine(0)] * len(blocks.lengths)
            for number, index in zip(looped, indices, strict=True):
                found[number] = affine(index)
            return tuple(found)

        def left(number: int, indices: tuple[Index, ...]) -> Value:
            point = [a + b for a, b in zip(block.starts, pixel(indices), strict=True)]
            found = builder.load(self.outputs, (*point, self.at[1], rows[number]))
            return builder.splat(builder.words.cast(found, self.plain.dtype), shape.lanes)

        def right(number: int, indices: tuple[Index, ...]) -> Value:
            index = self.field.at(pixel(indices), met, column + number * shape.lanes)
            return builder.load_lanes(self.field.buffer, index, shape.lanes)

        loops: list[tuple[Extent, ...]] = []
        for number in looped:
            length = block.here if number == blocks.partial else affine(blocks.lengths[number])
            axis, first = blocks.axes[number], block.starts[number]
            if number < len(taps):
                loops.append(results_inside(builder, axis, first, taps[number], length))
            else:
                loops.append((0, length))
        return accumulate(builder, self.plain.dtype, shape, loops, left, right, start=start)


def add_partial_sums(plain: Plain, sums: PartialSums, step: Step) -> Kernel:
    """The kernel that adds up partial sums, (groups, outputs, *taps, channels), in order."""
    builder = NestBuilder()
    layout = plain.filters.layout.collapsed()
    source = sums._replace(shape=layout.shape).buffer(builder, 0)
    target = Operand("filters", plain.filters.dtype, layout).buffer(builder, 1)
    *outer, last = layout.shape

    def add(*indices: Index) -> None:
        index = tuple(map(affine, indices))
        total: Value = builder.load(source, (affine(0), *index))
        for part in range(1, sums.parts):
            total = builder.words.add(total, builder.load(source, (affine(part), *index)))
        builder.store(builder.words.cast(total, target.dtype), target, index)

    if not outer:
        with builder.parallel((last,), sums.parts, kind="vector") as indices:
            add(*indices)
    else:
        with (
            builder.parallel(outer, last * sums.parts) as indices,
            builder.loop(0, last, kind="vector") as along,
        ):
            add(*indices, along)
    return kernel_of(builder.nest, (None, step))
