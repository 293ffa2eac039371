"""Panels: operands of products, packed so that what a register tile reads is contiguous.

A panel of the right operand has the columns of one tile: [k][columns], row-major. One of the left
operand, transposed, has the rows of a tile: [k][rows]. Columns past the end of the matrix are
undefined; results computed from them are never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, CopyBlock, Repeated, Value
from ingot.compiler.forms.nests import Area, Kernel
from ingot.compiler.forms.size import Number
from ingot.compiler.lower.kernel import kernel_of
from ingot.compiler.lower.products.numbers import Numbers, code_key, numbers_of
from ingot.compiler.lower.products.operands import Matrices
from ingot.compiler.lower.products.register_tile import TileShape
from ingot.graph.dtype import int64, uint16, uint32
from ingot.graph.shape import size_of
from ingot.tuning import CACHE_LINE, MAX_REGISTER_TILE, PACKED_ROWS
from ingot.tuning_products import COPIED_ROWS, COPIED_ROWS_AHEAD, PACKED_COLUMNS

__all__ = ["Panels", "by_rows", "convert", "pack_pairs", "pack_panels", "pad"]


class Panels:
    """Matrices packed in scratch memory, from an offset on."""

    def __init__(
        self, source: Matrices, tile: TileShape, offset: Number, area: Area | None = None
    ) -> None:
        self.source = source
        self.tile = tile
        self.offset = offset
        self.area = area
        self.count = -(-source.columns // tile.columns)
        # Rows from one panel to the next. The same row of many panels is written at about the same
        # time, so panels begin an odd number of (a few) cache lines apart: in many sets of L1.
        unit = CACHE_LINE // gcd(CACHE_LINE, tile.columns * source.dtype.size)
        self.rows = (source.rows + unit - 1) // (2 * unit) * (2 * unit) + unit

    @property
    def nbytes(self) -> Number:
        """The size of all panels."""
        size = self.source.dtype.size
        each = self.rows * self.tile.columns * size
        # the verifier cannot tell that tiles start at multiples of their rows, so one more must fit
        return (size_of((*self.source.stack, self.count)) + 1) * each

    def buffer(self, builder: NestBuilder, argument: int, numbers: Numbers) -> Buffer:
        """Declares the panels as a buffer with axes stack, panel, k, column."""
        source, row = self.source, self.tile.columns * self.source.dtype.size
        panel = self.rows * row
        shape = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
        strides: list[Extent] = []
        distance = panel * self.count
        for axis in reversed(range(len(source.stack))):
            strides.insert(0, numbers(f"panels.s{axis}", distance))
            distance *= source.stack[axis]
        return builder.buffer(
            "panels",
            source.dtype,
            [*shape, numbers("panels", self.count), numbers("k", source.rows), self.tile.columns],
            [*strides, numbers("panel", panel), row, source.dtype.size],
            argument,
            numbers("panels.offset", self.offset) if self.offset else 0,
        )

    def rows_buffer(self, builder: NestBuilder, argument: int, numbers: Numbers) -> Buffer:
        """Declares panels of the left operand as products read them: stack, first row of a tile,
        and [k][rows] as one axis.
        """
        source, height, size = self.source, self.tile.columns, self.source.dtype.size
        shape = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
        strides: list[Extent] = []
        distance = self.count * height * self.rows * size
        for axis in reversed(range(len(source.stack))):
            strides.insert(0, numbers(f"a.s{axis}", distance))
            distance *= source.stack[axis]
        k = numbers("a.columns", source.rows)
        return builder.buffer(
            "left",
            source.dtype,
            [*shape, numbers("a.rows", source.columns), affine(k) * height],
            [*strides, numbers("a.row", self.rows * size), size],
            argument,
            numbers("a.offset", self.offset) if self.offset else 0,
        )


def pack_panels(panels: Panels) -> Kernel:
    """The kernel that packs matrices into panels."""
    source, tile = panels.source, panels.tile
    # a product of such a matrix and a square one
    builder = NestBuilder()
    numbers = numbers_of(source.stack, (source.rows, source.columns, source.columns))
    operand = source.buffer(builder, "b", 0, numbers)
    operands = tuple(dict.fromkeys((source.step, panels.area)))
    target = panels.buffer(builder, len(operands) - 1, numbers)
    if source.column_stride == source.dtype.size:

        def copy(at: Sequence[Affine], panel: Affine, row: Affine) -> None:
            _copy_row(builder, operand, target, at, panel, row, tile)

        by_rows(builder, numbers, panels, operand, source.rows, copy)
    else:
        _by_columns(builder, numbers, panels, operand, target)
    return kernel_of(builder.nest, operands, code_key(builder, numbers, "pack", tile))


def by_rows(
    builder: NestBuilder,
    numbers: Numbers,
    panels: Panels,
    source: Buffer,
    count: Number,
    copy: Callable[[Sequence[Affine], Affine, Affine], None],
    height: int = 1,
) -> None:
    """A parallel loop over `count` groups of `height` rows of the source, which is prefetched, and
    over several adjacent panels for each of them. `copy` is called with the indices along the
    stack, a panel and the number of a group, and fills the part of the panel that belongs to it.
    """
    columns, stack = panels.tile.columns, panels.source.stack
    together = max(1, PACKED_COLUMNS // columns)
    blocks = -(-count // COPIED_ROWS)
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(stack)]
    lengths += [numbers("groups", -(-panels.count // together)), numbers("blocks", blocks)]
    end, n = numbers("row groups", count), source.shape[-1]
    with builder.parallel(lengths, COPIED_ROWS * columns * together) as (*indices, group, block):
        at, panel = [affine(index) for index in indices], affine(group) * together
        first = affine(block) * COPIED_ROWS
        with builder.loop(first, first + COPIED_ROWS, end) as row:
            column = panel * columns
            line = CACHE_LINE // source.dtype.size
            with builder.loop(column, column + together * columns, n, step=line) as ahead:
                for offset in range(height):
                    below = (affine(row) + COPIED_ROWS_AHEAD) * height + offset
                    builder.prefetch(source, (*at, below, affine(ahead)))
            with builder.loop(panel, panel + together, numbers("panels", panels.count)) as each:
                copy(at, affine(each), affine(row))


def _by_columns(
    builder: NestBuilder, numbers: Numbers, panels: Panels, source: Buffer, target: Buffer
) -> None:
    """A parallel loop over blocks of rows of panels, of a source without contiguous rows."""
    tile, stack = panels.tile, panels.source.stack
    blocks = -(-panels.source.rows // PACKED_ROWS)
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(stack)]
    lengths += [numbers("panels", panels.count), numbers("blocks", blocks)]
    n, k = numbers("b.columns", panels.source.columns), numbers("k", panels.source.rows)
    with builder.parallel(lengths, PACKED_ROWS * tile.columns) as (*indices, each, block):
        at, panel = [affine(index) for index in indices], affine(each)
        first = affine(block) * PACKED_ROWS
        rows = (first, first + PACKED_ROWS, k)
        if panels.source.row_stride != panels.source.dtype.size:
            _copy_elements(builder, source, target, at, panel, rows, tile)
        else:
            _transpose(builder, source, target, at, panel, rows, tile, n)


Rows = tuple[Affine, Affine, Extent]


def _copy_row(
    builder: NestBuilder,
    source: Buffer,
    target: Buffer,
    stack: Sequence[Affine],
    panel: Affine,
    row: Affine,
    tile: TileShape,
) -> None:
    """Copies the part of a contiguous row that belongs to a panel."""
    for vector in range(tile.vectors):
        at = affine(vector * tile.lanes)
        index = (*stack, row, panel * tile.columns + at)
        value = builder.load_lanes(source, index, tile.lanes, source.shape[-1])
        builder.store(value, target, (*stack, panel, row, at))


def _copy_elements(
    builder: NestBuilder,
    source: Buffer,
    target: Buffer,
    stack: Sequence[Affine],
    panel: Affine,
    rows: Rows,
    tile: TileShape,
) -> None:
    """Packs a matrix with neither contiguous rows nor contiguous columns."""
    column, n = panel * tile.columns, affine(source.shape[-1])
    begin, *ends = rows
    with (
        builder.loop(begin, *ends) as row,
        builder.loop(0, tile.columns, n - column) as offset,
    ):
        value = builder.load(source, (*stack, affine(row), column + offset))
        builder.store(value, target, (*stack, panel, affine(row), affine(offset)))


def _transpose(
    builder: NestBuilder,
    source: Buffer,
    target: Buffer,
    stack: Sequence[Affine],
    panel: Affine,
    rows: Rows,
    tile: TileShape,
    n: Extent,
) -> None:
    """Packs a matrix with contiguous columns: blocks are transposed in registers."""
    column = panel * tile.columns
    begin, *ends = rows
    inside = (tile.columns, affine(n) - column)  # columns of the panel within the matrix
    axes = (len(source.shape) - 2, len(source.shape) - 1)

    def copy(
        row_range: tuple[Extent, ...], column_range: tuple[Extent, ...], side: int = 1
    ) -> None:
        with (
            builder.loop(*column_range, step=side, copies=1) as offset,
            builder.loop(*row_range, step=side, lanes=int(side == 1), copies=1) as row,
        ):
            index = (*stack, affine(row), column + offset)
            into = (*stack, panel, affine(row), affine(offset))
            builder.body.append(CopyBlock(target, into, source, index, axes, side))

    first = affine(0)
    for side in _sides(tile):
        whole_rows = affine(builder.multiple(begin, *ends, by=side))
        whole_columns = affine(builder.multiple(first, *inside, by=side))
        copy((begin, whole_rows), (first, whole_columns), side)
        copy((whole_rows, *ends), (first, whole_columns))
        first = whole_columns
    copy((begin, *ends), (first, *inside))


def _sides(tile: TileShape) -> list[int]:
    """The sides of blocks that are transposed in registers, to fill the columns of a panel: powers
    of two, larger ones first.
    """
    side = 1 << (min(MAX_REGISTER_TILE, tile.lanes).bit_length() - 1)
    found, rest = [side], tile.columns % side
    while rest > 1:
        found.append(1 << (rest.bit_length() - 1))
        rest -= found[-1]
    return found


def pack_pairs(source: Matrices, panels: Panels) -> Kernel:
    """The kernel that packs a bfloat16 matrix with contiguous rows into panels of pairs: words of
    two elements, one below the other. With an odd number of rows, the last one is paired with
    zeros.
    """
    tile = panels.tile
    builder, numbers = NestBuilder(), Numbers()
    bits = source._replace(dtype=uint16)
    operand = bits.buffer(builder, "b", 0, numbers)
    operands = tuple(dict.fromkeys((source.step, panels.area)))
    target = panels.buffer(builder, len(operands) - 1, numbers)
    is_odd = source.rows % 2 != 0
    words = builder.words

    def copy(at: Sequence[Affine], panel: Affine, row: Affine) -> None:
        low_row, column = row * 2, panel * tile.columns
        high_row = low_row + 1
        if is_odd:
            last = affine(operand.shape[-2]) - 1
            there = words.less(builder.position(low_row, int64), builder.position(last, int64))
            ones, none = Constant(uint32, 0xFFFFFFFF), Constant(uint32, 0)
            mask: Value = builder.splat(words.select(there, ones, none), tile.lanes)
            high_row = affine(builder.multiple(low_row, high_row, last, by=1))
        for vector in range(tile.vectors):
            offset = affine(vector * tile.lanes)
            low, high = (
                words.cast(
                    builder.load_lanes(
                        operand, (*at, each, column + offset), tile.lanes, operand.shape[-1]
                    ),
                    uint32,
                )
                for each in (low_row, high_row)
            )
            sixteen = Repeated(uint32, Constant(uint32, 16), tile.lanes)
            above = words.left_shift(high, sixteen)
            if is_odd:
                above = words.bitwise_and(above, mask)
            word = words.bitwise_or(low, above)
            builder.store(word, target, (*at, panel, row, offset))

    by_rows(builder, numbers, panels, operand, panels.source.rows, copy, height=2)
    key = code_key(builder, numbers, "pack pairs", tile, bool(is_odd))
    return kernel_of(builder.nest, operands, key)


def pad(source: Matrices, target: Matrices) -> Kernel:
    """The kernel that copies bfloat16 matrices to scratch memory with contiguous rows, padded with
    a zero to an even number of elements.
    """
    builder, numbers = NestBuilder(), Numbers()
    read = source._replace(dtype=uint16).buffer(builder, "a", 0, numbers)
    written = target._replace(dtype=uint16).buffer(builder, "c", 1, numbers)
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
    columns = numbers("a.columns", source.columns)
    is_odd = target.columns != source.columns
    with builder.parallel((*lengths, numbers("a.rows", source.rows)), columns) as indices:
        row = [affine(index) for index in indices]
        with builder.loop(0, columns, kind="vector") as column:
            at = (*row, affine(column))
            builder.store(builder.load(read, at), written, at)
        if is_odd:
            builder.store(Constant(uint16, 0), written, (*row, affine(columns)))
    key = code_key(builder, numbers, "pad", bool(is_odd))
    return kernel_of(builder.nest, (source.step, target.step), key)


def convert(source: Matrices, target: Matrices) -> Kernel:
    """The kernel that copies matrices to scratch memory, contiguously and with another dtype."""
    builder, numbers = NestBuilder(), Numbers()
    read = source.buffer(builder, "a", 0, numbers)
    written = target.buffer(builder, "c", 1, numbers)
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
    columns = numbers("a.columns", source.columns)
    with (
        builder.parallel((*lengths, numbers("a.rows", source.rows)), columns) as indices,
        builder.loop(0, columns, kind="vector") as column,
    ):
        at = [affine(index) for index in (*indices, column)]
        builder.store(builder.words.cast(builder.load(read, at), target.dtype), written, at)
    return kernel_of(
        builder.nest, (source.step, target.step), code_key(builder, numbers, "convert")
    )
