"""Panels: operands of products, packed so that what a register tile reads is contiguous.

A panel of the right operand has the columns of one tile: [k][columns], row-major. One of the left
operand, transposed, has the rows of a tile: [k][rows]. Columns past the end of the matrix are
undefined; results computed from them are never stored.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from ingot.tuning import MAX_REGISTER_TILE, PACKED_COLUMNS, PACKED_ROWS, PACKED_RUN

__all__ = ["Panels", "convert", "pack_pairs", "pack_panels", "pad"]


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

    @property
    def nbytes(self) -> Number:
        """The size of all panels."""
        size = self.source.dtype.size
        each = self.source.rows * self.tile.columns * size
        # the verifier cannot tell that tiles start at multiples of their rows, so one more must fit
        return (size_of((*self.source.stack, self.count)) + 1) * each

    def buffer(self, builder: NestBuilder, argument: int, numbers: Numbers) -> Buffer:
        """Declares the panels as a buffer with axes stack, panel, k, column."""
        source, row = self.source, self.tile.columns * self.source.dtype.size
        panel = source.rows * row
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
        distance = self.count * height * source.rows * size
        for axis in reversed(range(len(source.stack))):
            strides.insert(0, numbers(f"a.s{axis}", distance))
            distance *= source.stack[axis]
        k = numbers("a.columns", source.rows)
        return builder.buffer(
            "left",
            source.dtype,
            [*shape, numbers("a.rows", source.columns), affine(k) * height],
            [*strides, numbers("a.row", source.rows * size), size],
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
    blocks = -(-source.rows // PACKED_ROWS)
    is_adjacent = source.column_stride == source.dtype.size
    # narrow panels share cache lines, so some of them are filled row by row
    together = max(1, PACKED_COLUMNS // tile.columns) if is_adjacent else 1
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
    lengths += [numbers("groups", -(-panels.count // together)), numbers("blocks", blocks)]
    n, k = numbers("b.columns", source.columns), numbers("k", source.rows)
    work = PACKED_ROWS * tile.columns * together
    with builder.parallel(lengths, work) as (*stack, group, block):
        at, panel = [affine(index) for index in stack], affine(group) * together
        first = affine(block) * PACKED_ROWS
        rows = (first, first + PACKED_ROWS, k)
        if together > 1:
            ends = (panel + together, numbers("panels", panels.count))
            with (
                builder.loop(*rows, step=PACKED_RUN) as start,
                builder.loop(panel, *ends) as each,
                builder.loop(affine(start), affine(start) + PACKED_RUN, k) as row,
            ):
                _copy_row(builder, operand, target, at, affine(each), affine(row), tile)
        elif is_adjacent:
            with builder.loop(*rows) as row:
                _copy_row(builder, operand, target, at, panel, affine(row), tile)
        elif source.row_stride != source.dtype.size:
            _copy_elements(builder, operand, target, at, panel, rows, tile)
        else:
            _transpose(builder, operand, target, at, panel, rows, tile, n)
    key = code_key(builder, numbers, "pack", tile, together)
    return kernel_of(builder.nest, operands, key)


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
    blocks = -(-panels.source.rows // PACKED_ROWS)
    lengths = [numbers(f"s{axis}", length) for axis, length in enumerate(source.stack)]
    lengths += [numbers("panels", panels.count), numbers("blocks", blocks)]
    k = numbers("k", panels.source.rows)
    is_odd = source.rows % 2 != 0
    words = builder.words
    with builder.parallel(lengths, PACKED_ROWS * tile.columns) as (*stack, panel, block):
        at = [affine(index) for index in stack]
        first, column = affine(block) * PACKED_ROWS, affine(panel) * tile.columns
        with builder.loop(first, first + PACKED_ROWS, k) as row:
            low_row = affine(row) * 2
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
                builder.store(word, target, (*at, affine(panel), affine(row), offset))
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
