"""Register tiles: sums of products that stay in vector registers throughout the loop over k.

A tile has `rows` x `vectors` accumulators, each a bundle of adjacent columns of the result. An
iteration of the innermost loop loads a bundle of the right operand for each vector, broadcasts an
element of the left operand for each row, and accumulates all their products. Each sum is
accumulated in the order of the loops, whatever the tile, so results do not depend on the shape of
the tile, the position of an element in it, or the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.affine import Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Carried, Constant, Repeated, Value
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.runtime.processor import datapath_bytes, vector_bytes, vector_registers
from ingot.tuning import (
    MAX_TILE_ROWS,
    MAX_TILE_VECTORS,
    MIN_TILE_GAIN,
    TILE_OVERHEAD_ROWS,
)
from ingot.tuning_products import (
    DOT_TILES,
    FEW_DOT_TILES,
    HALF_VECTORS,
    ITERATIONS_PER_LINE,
    LAST_TILE_TIME,
    MIN_ROLLED_TILE_BYTES,
    PRODUCT_UNROLLING,
    TILE_TIME,
)

__all__ = [
    "Tile",
    "TileShape",
    "accumulate",
    "dot_shape",
    "has_many_registers",
    "lanes_for",
    "lanes_of",
    "last_shape",
    "tile_shape",
    "wide_shape",
]

Indices = tuple[Index, ...]
Sums = list[list[Carried]]
Combine = Callable[[Value, Value, Value], Value]  # (sum, left, right) -> sum


class TileShape(NamedTuple):
    """The shape of a tile: `rows` x `vectors` accumulators of `lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.vectors * self.lanes


class Tile(NamedTuple):
    """Accumulators after the loops: `sums[row][vector]`."""

    shape: TileShape
    sums: Sums


def lanes_of(dtype: Dtype) -> int:
    """Elements of a dtype per vector register."""
    return vector_bytes() // dtype.size


def lanes_for(dtype: Dtype, columns: int) -> int:
    """Lanes of the vectors of equal tiles for so many columns: half of a register where one such
    vector suffices, or where some tiles of three or five leave fewer columns unused, on processors
    that split the longest vectors, and so execute twice as many of these. A vector has two lanes at
    least.
    """
    lanes = lanes_of(dtype)
    if lanes == 2:
        return lanes
    halves = -(-columns // (lanes // 2))
    if halves == 1:
        return lanes // 2
    is_split = datapath_bytes() < vector_bytes()
    leaves_fewer = halves % 2 and any(halves % vectors == 0 for vectors in HALF_VECTORS)
    return lanes // 2 if is_split and leaves_fewer else lanes


def tile_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """The tile for a result with this many columns and rows, whose sums have a dtype: as many
    accumulators as registers allow, with little waste in the last columns, which may get a narrower
    tile (`last_shape`).
    """
    lanes, widest = lanes_of(dtype), 4 if has_many_registers() else 2
    if is_symbolic(columns):
        return _of_height(TileShape(1, widest, lanes), rows)
    known = index(columns)
    if known <= widest * lanes:
        # a second column of tiles would read the left operand again
        return _of_height(_narrow(known, lanes), rows)

    def cost(tile: TileShape) -> float:
        whole, rest = divmod(known, tile.columns)
        last = _time(_narrow(rest, lanes), lanes) + LAST_TILE_TIME if rest else 0
        return whole * (_time(tile, lanes) + TILE_TIME / tile.vectors) + last

    tiles = [TileShape(1, vectors, lanes) for vectors in range(widest, 1, -1)]
    return _of_height(min(tiles, key=cost), rows)


def _time(tile: TileShape, lanes: int) -> float:
    """The cost of one row of a tile, in multiplications of vectors of `lanes` lanes."""
    is_shorter = tile.lanes < lanes and datapath_bytes() < vector_bytes()
    return tile.vectors / 2 if is_shorter else tile.vectors


def _narrow(columns: int, lanes: int) -> TileShape:
    """A tile of one row that is just wide enough for these columns. It has half-width vectors if
    one of them is enough, or a few on processors that take half as long for them, such as Zen 4.
    (More of them would leave too few registers for rows.)
    """
    halves = -(-columns // (lanes // 2))
    enough = (1, 3, 5) if datapath_bytes() < vector_bytes() else (1,)
    if vector_bytes() == 64 and halves in enough:
        return TileShape(1, halves, lanes // 2)
    return TileShape(1, -(-columns // lanes), lanes)


def last_shape(tile: TileShape, columns: Number, tiles: int) -> TileShape | None:
    """The tile for the last columns, if they are fewer than those of a tile; None otherwise. The
    height is a multiple of that of `tile` and divides the height of `tiles` of them.
    """
    if is_symbolic(columns) or columns <= tile.columns or columns % tile.columns == 0:
        return None
    last = _narrow(index(columns % tile.columns), tile.lanes)
    if last.columns == tile.columns:
        return None
    high = _max_rows(last) // tile.rows
    multiple = max(count for count in range(1, max(high, 1) + 1) if tiles % count == 0)
    return last._replace(rows=multiple * tile.rows)


def _of_height(tile: TileShape, rows: Number) -> TileShape:
    """A tile of this width with as many rows as registers allow and results have."""
    return tile._replace(rows=_height(_max_rows(tile), rows))


def _max_rows(tile: TileShape) -> int:
    """Rows that registers allow for tiles of this width."""
    return min(_accumulators() // tile.vectors, MAX_TILE_ROWS)


def _height(most: int, rows: Number) -> int:
    """Rows of a tile: as many as registers allow, or fewer if that wastes much less in the last
    tile.
    """
    if rows <= most:
        return index(rows)
    if is_symbolic(rows):
        return most

    def cost(height: int) -> float:
        # a tile takes time proportional to its rows, plus a constant overhead
        return -(-rows // height) * (height + TILE_OVERHEAD_ROWS)

    best = min(range(most, most // 2, -1), key=cost)
    return best if cost(best) < MIN_TILE_GAIN * cost(most) else most


def wide_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """The tile for few rows, as wide as registers allow, so that the right operand is read in long
    runs.
    """
    shape = tile_shape(dtype, columns, rows)
    if shape.rows < rows:
        return shape
    vectors = min(_accumulators() // shape.rows, MAX_TILE_VECTORS)
    vectors = _at_most(vectors, -(-columns // shape.lanes))
    return shape._replace(vectors=max(vectors, shape.vectors))


def dot_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """The shape of tiles of dot products: `rows` x `vectors` accumulators of partial sums. All
    heights take about as long for each result, so the one that computes the fewest is chosen.
    """
    is_many, lanes = has_many_registers(), lanes_of(dtype)
    if rows == 1:  # each sum has several accumulators
        return TileShape(1, _at_most(4 if is_many else 2, columns), lanes)
    shapes: tuple[tuple[int, int], ...] = DOT_TILES if is_many else FEW_DOT_TILES
    if not is_symbolic(rows):
        shapes = tuple(each for each in shapes if each[0] <= rows)
        lowest = min(-(-rows // height) * height for height, _ in shapes)
        shapes = tuple(each for each in shapes if -(-rows // each[0]) * each[0] == lowest)
    height, vectors = shapes[0]
    return TileShape(height, _at_most(vectors, columns), lanes)


def has_many_registers() -> bool:
    """Whether there are registers for tiles of four vectors; with 16, tiles have two."""
    return vector_registers() >= 32


def _accumulators() -> int:
    """Registers for accumulators, leaving some for operands."""
    return 24 if has_many_registers() else 12


def _at_most(limit: int, length: Number) -> int:
    """The minimum of a length and a limit, as an int."""
    return limit if length >= limit else index(length)


def accumulate(
    builder: NestBuilder,
    dtype: Dtype,
    shape: TileShape,
    loops: Sequence[tuple[Extent, ...]],
    left: Callable[[int, Indices], Value],
    right: Callable[[int, Indices], Value],
    combine: Combine | None = None,
    start: Sequence[Sequence[Value]] | None = None,
    step: int = 1,
    ahead: Callable[[Index], None] | None = None,
) -> Tile:
    """Accumulates the sums of a tile over nested loops, innermost last; each is (begin, *ends), and
    ends at the least of these.

    `left(row, indices)` and `right(vector, indices)` return bundles of `shape.lanes` elements in
    the innermost loop, whose step is `step`; `combine` adds their product to a sum, by default by a
    fused multiply-add. `start` are initial sums, zeros by default. `ahead` is called before every
    ITERATIONS_PER_LINE iterations of the innermost loop, with the index of the first one.
    """
    words = builder.words
    add = combine or (lambda total, a, b: words.fused_multiply_add(a, b, total))
    is_short = shape.rows * shape.columns * dtype.size < MIN_ROLLED_TILE_BYTES
    zero = Repeated(dtype, Constant(dtype, 0), shape.lanes)
    zeros: list[list[Value]] = [[zero] * shape.vectors for _ in range(shape.rows)]

    def level(outer: Sequence[Sequence[Value]], indices: Indices, block: Index | None) -> Sums:
        sums = [[Carried(dtype, value) for value in row] for row in outer]
        flat = [each for row in sums for each in row]
        is_last = len(indices) == len(loops) - 1
        begin, *ends = loops[len(indices)]
        is_blocked = is_last and ahead is not None and block is None
        innermost = is_last and not is_blocked
        each_step = step if innermost else ITERATIONS_PER_LINE * step if is_blocked else 1
        if block is not None:
            begin = affine(block)
            ends.append(begin + ITERATIONS_PER_LINE * step)
        copies = PRODUCT_UNROLLING if innermost and is_short else 1
        with builder.loop(begin, *ends, step=each_step, carried=flat, copies=copies) as variable:
            here = (*indices, variable)
            if not innermost:
                if is_blocked and ahead is not None:
                    ahead(variable)
                inner = level(
                    sums, indices if is_blocked else here, variable if is_blocked else None
                )
                for row, updated in zip(sums, inner, strict=True):
                    for each, update in zip(row, updated, strict=True):
                        each.update = update
                return sums
            columns = [right(vector, here) for vector in range(shape.vectors)]
            for number, row in enumerate(sums):
                element = left(number, here)
                for each, column in zip(row, columns, strict=True):
                    each.update = add(each, element, column)
        return sums

    return Tile(shape, level(start or zeros, (), None))
