"""Convolutions with 3 x 3 taps by Winograd's F(2 x 2, 3 x 3): 16 products instead of 36.

A block of tiles, 2 x 2 results each, transforms its windows once, multiplies them as 16 matrices by
those of the transformed filters, and transforms the products back. Each sum has as many terms as
there are channels, so errors are no larger than those of direct sums; but they are relative to the
largest element of a tile's 4 x 4 window, not of each result's own window. Infinities and NaN would
spread over their tile: a block with a result that is not finite is recomputed directly.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Repeated, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, kernel_of
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Point, choose_blocks
from ingot.compiler.lower.products.convolution.dense import (
    convolution_columns,
    tile_shape,
    window_sums,
)
from ingot.compiler.lower.products.convolution.filters import pack_filters, packed_filters
from ingot.compiler.lower.products.convolution.plain import Axis, Plain
from ingot.compiler.lower.products.convolution.transforms import (
    ELEMENTS,
    OUTPUTS,
    TAPS,
    of_filters,
    of_input,
    of_products,
)
from ingot.compiler.lower.products.convolution.windows import (
    Field,
    box_of,
    fits_stack,
    input_buffer,
)
from ingot.compiler.lower.products.register_tile import TileShape, accumulate, lanes_for, lanes_of
from ingot.graph.dtype import bool_, int64
from ingot.tuning import (
    MAX_WINOGRAD_BYTES,
    MIN_CONVOLUTION_TASKS,
    MIN_WINOGRAD_CHANNELS,
    MIN_WINOGRAD_TILES,
)

__all__ = ["convolve_winograd", "is_winograd"]

PRODUCTS = ELEMENTS * ELEMENTS


def is_winograd(plain: Plain) -> bool:
    """Whether a correlation has 3 x 3 taps, enough channels to amortise the transforms of windows
    and results, and enough results to amortise that of filters.
    """
    windowed = [axis for axis in plain.axes if axis.taps > 1]
    return (
        len(windowed) == 2
        and all((axis.taps, axis.stride, axis.step) == (TAPS, 1, 1) for axis in windowed)
        and all(axis.stride == 1 for axis in plain.axes)
        and min(plain.channels, plain.outputs) >= MIN_WINOGRAD_CHANNELS
        and prod(axis.length for axis in _in_tiles(plain).axes) >= MIN_WINOGRAD_TILES
    )


def convolve_winograd(plain: Plain, steps: tuple[Step, Step, Step], offset: int) -> Lowered | None:
    """The kernels of a correlation: filters are packed and transformed, then blocks multiplied.
    `steps` are the input, the filters and the results. None if windows do not fit.
    """
    blocks = _blocks(plain)
    if blocks is None:
        return None
    columns = convolution_columns(plain)
    packed = plain.groups * -(-plain.outputs // columns) * plain.depth * columns * plain.dtype.size
    offsets = (offset, offset + packed)
    kernels = [
        pack_filters(plain, steps[1], columns, offset),
        _transform_filters(plain, columns, offsets),
        _multiply(plain, blocks, (steps[0], steps[2]), offsets),
    ]
    return Lowered(kernels, packed + packed // (TAPS * TAPS) * PRODUCTS)


def _axes(plain: Plain) -> tuple[int, int]:
    """The axes that have taps."""
    first, second = (number for number, axis in enumerate(plain.axes) if axis.taps > 1)
    return first, second


def _in_tiles(plain: Plain) -> Plain:
    """The correlation whose results are tiles, each of which reads a square of the input."""
    axes = [
        Axis(-(-axis.length // OUTPUTS), ELEMENTS, axis.first, OUTPUTS, 1, axis.available)
        if axis.taps > 1
        else axis
        for axis in plain.axes
    ]
    return plain._replace(axes=tuple(axes))


def _pitch(plain: Plain) -> int:
    """The number of a tile's channels, rounded up to whole vectors."""
    lanes = lanes_of(plain.dtype)
    return -(-plain.channels // lanes) * lanes


def _blocks(plain: Plain) -> Blocks | None:
    """Blocks of tiles whose transformed windows stay in L2."""
    axes = _in_tiles(plain).axes
    count = prod(axis.length for axis in axes)
    panels = plain.groups * -(-plain.outputs // convolution_columns(plain))
    size = plain.dtype.size
    fitting = MAX_WINOGRAD_BYTES // (PRODUCTS * size * _pitch(plain))
    wanted = min(fitting, -(-count * panels // MIN_CONVOLUTION_TASKS))

    def fits(blocks: Blocks) -> bool:
        return fits_stack(blocks, plain.channels, size)

    return choose_blocks(axes, max(wanted, MIN_WINOGRAD_TILES), fits)


def _transformed_filters(
    builder: NestBuilder, plain: Plain, columns: int, argument: int, offset: int
) -> Buffer:
    """(groups, panels, products, channels, columns) in scratch memory."""
    shape = (plain.groups, -(-plain.outputs // columns), PRODUCTS, plain.channels, columns)
    return builder.row_major("filters", plain.dtype, shape, argument, offset)


def _transform_filters(plain: Plain, columns: int, offsets: tuple[int, int]) -> Kernel:
    """The kernel that transforms packed filters."""
    builder = NestBuilder()
    lanes = lanes_for(plain.dtype, plain.outputs)
    source = packed_filters(builder, plain, columns, 0, offsets[0])
    target = _transformed_filters(builder, plain, columns, 0, offsets[1])
    groups, panels, _, channels, _ = target.shape
    rows = [affine(tap * plain.channels) for tap in range(TAPS * TAPS)]
    with builder.parallel((groups, panels, channels), columns * PRODUCTS) as indices:
        group, panel, channel = map(affine, indices)
        for column in range(0, columns, lanes):
            taps: list[Value] = [
                builder.load_lanes(source, (group, panel, row + channel, affine(column)), lanes)
                for row in rows
            ]
            filters = [taps[first : first + TAPS] for first in range(0, TAPS * TAPS, TAPS)]
            for number, value in enumerate(_flat(of_filters(builder, filters))):
                at = (group, panel, affine(number), channel, affine(column))
                builder.store(value, target, at)
    return kernel_of(builder.nest, (None,))


def _flat(grid: Sequence[Sequence[Value]]) -> list[Value]:
    return [value for row in grid for value in row]


def _multiply(
    plain: Plain, blocks: Blocks, steps: tuple[Step, Step], offsets: tuple[int, int]
) -> Kernel:
    """The kernel that computes the results."""
    builder = NestBuilder()
    shape = tile_shape(plain, blocks.pixels)
    source = input_buffer(builder, plain, 0)
    packed = packed_filters(builder, plain, shape.columns, 1, offsets[0])
    filters = _transformed_filters(builder, plain, shape.columns, 1, offsets[1])
    results = plain.results.buffer(builder, 2)
    count = -(-plain.outputs // shape.columns)
    tasks = prod(blocks.counts) * plain.groups
    splits = min(count, -(-MIN_CONVOLUTION_TASKS // tasks))
    each = -(-count // splits)
    splits = -(-count // each)
    work = blocks.pixels * PRODUCTS * plain.channels * min(each * shape.columns, plain.outputs)
    with builder.parallel((*blocks.counts, plain.groups, splits), work) as indices:
        *points, group, split = indices
        block = Block(builder, blocks, points)
        field = box_of(builder, _in_tiles(plain), source, block, affine(group))
        task = _Task(builder, plain, shape, block, field, results)
        task.transform_windows()
        first = affine(split) * each
        with builder.loop(first, first + each, affine(count)) as panel:
            at = (affine(group), affine(panel))
            task.multiply(filters, at)
            task.repeat_directly(task.write(at), packed, at)
    return kernel_of(builder.nest, (steps[0], None, steps[1]))


class _Task:
    """Computes one block of tiles."""

    def __init__(
        self,
        builder: NestBuilder,
        plain: Plain,
        shape: TileShape,
        block: Block,
        field: Field,
        results: Buffer,
    ) -> None:
        self.builder = builder
        self.plain = plain
        self.shape = shape
        self.block = block
        self.field = field
        self.results = results
        self.axes = _axes(plain)
        tiles = block.blocks.pixels
        lanes = shape.lanes
        # one more vector than necessary, or all matrices would map to the same sets of L1
        self.windows = builder.stack(
            "windows", plain.dtype, (PRODUCTS, tiles * _pitch(plain) + lanes)
        )
        rows = tiles + shape.rows - 1  # the last rows of a register tile may be unused
        self.products = builder.stack(
            "products", plain.dtype, (PRODUCTS, rows * shape.columns + lanes)
        )

    def _along(self, pair: tuple[Affine, Affine]) -> list[Affine]:
        """An index for each axis, of those that have taps."""
        found = [affine(0)] * len(self.plain.axes)
        for axis, index in zip(self.axes, pair, strict=True):
            found[axis] = index
        return found

    def transform_windows(self) -> None:
        """Transforms the windows of all tiles of the block."""
        builder, plain, lanes = self.builder, self.plain, self.shape.lanes
        pitch = _pitch(plain)
        with (
            builder.loop(0, self.block.pixels) as tile,
            builder.loop(0, pitch, step=lanes) as channel,
        ):
            pixel = self.block.pixel(affine(tile))

            def element(down: int, along: int) -> Value:
                taps = self._along((affine(down), affine(along)))
                index = self.field.at(pixel, taps, affine(channel))
                limit = None
                if pitch != plain.channels:
                    limit = index[-1] - channel + plain.channels
                return builder.load_lanes(self.field.buffer, index, lanes, limit)

            square = range(ELEMENTS)
            elements = [[element(down, along) for along in square] for down in square]
            for number, value in enumerate(_flat(of_input(builder, elements))):
                at = (affine(number), affine(tile) * pitch + channel)
                builder.store(value, self.windows, at)

    def multiply(self, filters: Buffer, at: tuple[Affine, Affine]) -> None:
        """Multiplies all matrices by a panel."""
        builder, shape, block = self.builder, self.shape, self.block
        pitch = _pitch(self.plain)
        is_exact = block.is_whole and block.blocks.pixels % shape.rows == 0
        with (
            builder.loop(0, PRODUCTS) as matrix,
            builder.loop(0, block.pixels, step=shape.rows) as first,
        ):
            rows = [affine(first) + row for row in range(shape.rows)]
            read = rows
            if not is_exact:
                last = block.pixels - 1
                read = [affine(builder.multiple(0, row, last, by=1)) for row in rows]

            def left(row: int, indices: tuple[Index, ...]) -> Value:
                index = (affine(matrix), read[row] * pitch + indices[-1])
                return builder.splat(builder.load(self.windows, index), shape.lanes)

            def right(vector: int, indices: tuple[Index, ...]) -> Value:
                index = (*at, affine(matrix), affine(indices[-1]), affine(vector * shape.lanes))
                return builder.load_lanes(filters, index, shape.lanes)

            loops = [(0, self.plain.channels)]
            tile = accumulate(builder, self.plain.dtype, shape, loops, left, right)
            for row, sums in zip(rows, tile.sums, strict=True):
                for vector, total in enumerate(sums):
                    column = row * shape.columns + vector * shape.lanes
                    builder.store(total, self.products, (affine(matrix), column))

    def write(self, at: tuple[Affine, Affine]) -> Value:
        """Transforms products back and stores the results; returns their sum, which is finite if
        all of them are.
        """
        builder, shape, dtype = self.builder, self.shape, self.plain.dtype
        zero = Repeated(dtype, Constant(dtype, 0), shape.lanes)
        total = Carried(dtype, zero)
        with builder.loop(0, self.block.pixels, carried=[total]) as tile:
            points = self._results(affine(tile))
            sums: Value = total
            for vector in range(shape.vectors):
                column = affine(tile) * shape.columns + vector * shape.lanes
                square = range(ELEMENTS)
                products: list[list[Value]] = [
                    [
                        builder.load_lanes(
                            self.products, (affine(down * ELEMENTS + along), column), shape.lanes
                        )
                        for along in square
                    ]
                    for down in square
                ]
                found = _flat(of_products(builder, products))
                for value in found:
                    sums = builder.words.add(sums, value)
                self._store(points, found, vector, at)
            total.update = sums
        return total

    def _results(self, tile: Affine) -> list[Point]:
        """The indices of the results of a tile. Results beyond the end are clamped to earlier ones
        of the tile.
        """
        builder, plain = self.builder, self.plain
        firsts = self.block.result(self.block.pixel(tile))
        found: list[list[Affine]] = []
        for number, first in enumerate(firsts):
            axis = plain.axes[number]
            if number not in self.axes:
                found.append([first] * OUTPUTS)
                continue
            along = [first * OUTPUTS + more for more in range(OUTPUTS)]
            if axis.length % OUTPUTS:
                last = affine(axis.length - 1)
                along = [affine(builder.multiple(along[0], each, last, by=1)) for each in along]
            found.append(along)
        down, across = self.axes
        return [
            tuple(
                each[a if number == down else b if number == across else 0]
                for number, each in enumerate(found)
            )
            for a in range(OUTPUTS)
            for b in range(OUTPUTS)
        ]

    def _store(
        self,
        points: Sequence[Point],
        values: Sequence[Value],
        vector: int,
        at: tuple[Affine, Affine],
    ) -> None:
        """Stores a vector of outputs of each result, in reverse, so that clamped ones are
        overwritten.
        """
        builder, plain, shape = self.builder, self.plain, self.shape
        group, panel = at
        column = panel * shape.columns + vector * shape.lanes
        limit = plain.outputs if plain.outputs % shape.columns else None
        for point, value in zip(reversed(points), reversed(values), strict=True):
            found = builder.words.cast(value, plain.results.dtype)
            builder.store(found, self.results, (*point, group, column), limit)

    def repeat_directly(self, total: Value, packed: Buffer, at: tuple[Affine, Affine]) -> None:
        """Recomputes the block tap by tap if a result is not finite."""
        builder, plain, words = self.builder, self.plain, self.builder.words
        while total.lanes > 1:
            half = total.lanes // 2
            total = words.add(
                builder.some_lanes(total, 0, half), builder.some_lanes(total, half, half)
            )
        difference = words.subtract(total, total)
        is_finite = words.equal(difference, Constant(plain.dtype, 0))
        assert is_finite.dtype is bool_
        shape = TileShape(OUTPUTS * OUTPUTS, self.shape.vectors, self.shape.lanes)
        field = self.field._replace(axes=plain.axes)
        with (
            builder.when(words.cast(is_finite, int64), 0, 1),
            builder.loop(0, self.block.pixels) as tile,
        ):
            corner = self.block.pixel(affine(tile))
            pixels = [
                tuple(
                    index * (OUTPUTS if number in self.axes else 1) + more
                    for number, (index, more) in enumerate(
                        zip(corner, self._along((affine(down), affine(along))), strict=True)
                    )
                )
                for down in range(OUTPUTS)
                for along in range(OUTPUTS)
            ]
            sums = window_sums(builder, plain, shape, field, packed, pixels, at).sums
            points = self._results(affine(tile))
            for vector in range(shape.vectors):
                self._store(points, [row[vector] for row in sums], vector, at)
