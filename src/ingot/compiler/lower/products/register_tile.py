"""Register tiles: sums of products that stay in vector registers while loops add to them.

A tile has `rows` x `vectors` accumulators, each a bundle of adjacent columns of the result. One
iteration of the innermost loop loads a bundle of the right operand for each vector and one element
of the left operand for each row, in all lanes, and adds all their products. The sums of an element
are added in the order of the loops, whatever the tile: results do not depend on its size, on the
position of an element in it, or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index
from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.affine import Extent, Index
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Carried, Constant, Repeated, Value
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.runtime.processor import vector_bytes, vector_registers
from ingot.tuning import (
    MAX_TILE_ROWS,
    MAX_TILE_VECTORS,
    MIN_TILE_GAIN,
    PRODUCT_UNROLLING,
    TILE_OVERHEAD_ROWS,
)

__all__ = [
    "Tile",
    "TileShape",
    "accumulate",
    "dot_shape",
    "lanes_of",
    "last_shape",
    "tile_shape",
    "wide_shape",
]

Indices = tuple[Index, ...]
Sums = list[list[Carried]]
Combine = Callable[[Value, Value, Value], Value]  # (sum, left, right) -> sum


class TileShape(NamedTuple):
    """Accumulators: `rows` times `vectors` bundles of `lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.vectors * self.lanes


class Tile(NamedTuple):
    """Accumulators after their loops: `sums[row][vector]`."""

    shape: TileShape
    sums: Sums


def lanes_of(dtype: Dtype) -> int:
    """Elements of a dtype in a vector register."""
    return vector_bytes() // dtype.size


def tile_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """The tile for a result with so many columns and rows, whose sums have a dtype: as many
    accumulators as registers allow beside the operands, and few columns that are not there. What is
    left of the columns is for a narrower tile (`last_shape`).
    """
    lanes, widest = lanes_of(dtype), 4 if _has_many_registers() else 2
    needed = -(-columns // lanes)
    if needed == 1:
        vectors = 1
    elif is_symbolic(needed):
        vectors = widest
    else:
        most = _at_most(widest, needed)

        def cost(vectors: int) -> float:
            whole, rest = divmod(index(columns), vectors * lanes)
            return whole * _tile_cost(vectors) + _tile_cost(_vectors_of(rest, lanes))

        vectors = min(range(most, 1, -1), key=cost)
    height = min(_accumulators() // vectors, MAX_TILE_ROWS)
    return TileShape(_height(height, rows), vectors, lanes)


def _tile_cost(vectors: float) -> float:
    """How long a row of a tile takes: a narrow one loads more of the left operand for each
    product.
    """
    return vectors + 0.5 / vectors if vectors else 0


def _vectors_of(columns: int, lanes: int) -> float:
    """Vectors that the last columns take: a half one, if that is enough and a shorter vector is
    faster. Processors with AVX-512 take as long or half as long for vectors of 256 bits.
    """
    if 0 < columns <= lanes // 2 and vector_bytes() == 64:
        return 0.5
    return -(-columns // lanes)


def last_shape(tile: TileShape, columns: Number, tiles: int) -> TileShape | None:
    """The tile for the last columns, if there are fewer than others have. Its rows are a multiple
    of a tile's that divides those of `tiles` tiles, one below the other.
    """
    if is_symbolic(columns) or columns <= tile.columns:
        return None
    vectors = _vectors_of(index(columns % tile.columns), tile.lanes)
    if vectors in (0, tile.vectors):
        return None
    lanes = tile.lanes // 2 if vectors == 0.5 else tile.lanes
    high = min(int(_accumulators() // vectors), MAX_TILE_ROWS) // tile.rows
    multiple = max(count for count in range(1, max(high, 1) + 1) if tiles % count == 0)
    return TileShape(multiple * tile.rows, max(1, int(vectors)), lanes)


def _height(most: int, rows: Number) -> int:
    """Rows of a tile: the most that registers allow, or fewer where that saves many rows that are
    not there.
    """
    if rows <= most:
        return index(rows)
    if is_symbolic(rows):
        return most

    def cost(height: int) -> float:
        # a tile takes as long as its rows, and what is done once for each
        return -(-rows // height) * (height + TILE_OVERHEAD_ROWS)

    best = min(range(most, most // 2, -1), key=cost)
    return best if cost(best) < MIN_TILE_GAIN * cost(most) else most


def wide_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """The tile for few rows, as wide as registers allow: what is read once is read in long runs."""
    shape = tile_shape(dtype, columns, rows)
    if shape.rows < rows:
        return shape
    vectors = min(_accumulators() // shape.rows, MAX_TILE_VECTORS)
    vectors = _at_most(vectors, -(-columns // shape.lanes))
    return shape._replace(vectors=max(vectors, shape.vectors))


def dot_shape(dtype: Dtype, columns: Number, rows: Number) -> TileShape:
    """Sums along vectors: `rows` times `vectors` of them, each of a bundle of products."""
    height = _at_most(4 if _has_many_registers() else 2, rows)
    vectors = _at_most(6 if _has_many_registers() and height > 1 else 4, columns)
    return TileShape(height, vectors, lanes_of(dtype))


def _has_many_registers() -> bool:
    return vector_registers() >= 32


def _accumulators() -> int:
    """Registers for sums, beside those for operands."""
    return 24 if _has_many_registers() else 12


def _at_most(limit: int, length: Number) -> int:
    """A length, or a limit if it is longer, as a number."""
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
) -> Tile:
    """The sums of a tile over nested loops, of which the last is innermost: where each begins, and
    what it ends at the least of.

    `left(row, indices)` and `right(vector, indices)` give bundles of `shape.lanes` elements in the
    innermost loop, which takes steps of `step`; `combine` adds their product to a sum, by default
    with one rounding. `start` are sums to go on from.
    """
    words = builder.words
    add = combine or (lambda total, a, b: words.fused_multiply_add(a, b, total))
    zero = Repeated(dtype, Constant(dtype, 0), shape.lanes)
    zeros: list[list[Value]] = [[zero] * shape.vectors for _ in range(shape.rows)]

    def level(depth: int, outer: Sequence[Sequence[Value]], indices: Indices) -> Sums:
        sums = [[Carried(dtype, value) for value in row] for row in outer]
        flat = [each for row in sums for each in row]
        innermost = depth == len(loops) - 1
        begin, *ends = loops[depth]
        copies = PRODUCT_UNROLLING if innermost else 1
        with builder.loop(
            begin, *ends, step=step if innermost else 1, carried=flat, copies=copies
        ) as variable:
            here = (*indices, variable)
            if not innermost:
                inner = level(depth + 1, sums, here)
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

    return Tile(shape, level(0, start or zeros, ()))
