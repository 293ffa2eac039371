"""Register tiles: sums of products that stay in vector registers while loops add to them.

A tile has `rows` x `vectors` accumulators, each a bundle of adjacent columns of the result. One
iteration of the innermost loop loads a bundle of the right operand for each vector and one element
of the left operand for each row, in all lanes, and adds all their products. The sums of an element
are added in the order of the loops, whatever the tile: results do not depend on its size, on the
position of an element in it, or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.affine import Extent, Index
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Carried, Constant, Repeated, Value
from ingot.runtime.processor import vector_bytes, vector_registers
from ingot.tuning import MAX_TILE_ROWS, PRODUCT_UNROLLING

__all__ = ["Tile", "TileShape", "accumulate", "lanes_of", "tile_shape"]

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


def tile_shape(dtype: Dtype, columns: int, rows: int) -> TileShape:
    """The tile for a result with so many columns and rows, whose sums have a dtype: as many
    accumulators as registers allow beside the operands, and few columns that are not there.
    """
    lanes = lanes_of(dtype)
    needed = -(-columns // lanes)
    registers = vector_registers()
    widest = 4 if registers >= 32 else 2
    if needed <= widest:
        vectors = needed
    else:
        # fewer panels first, then those that are filled best
        vectors = min(range(2, widest + 1), key=lambda v: (-(-needed // v) * v, -v))
    # an accumulator for each product, a register for each vector of the right operand, and two for
    # the left one
    height = (registers - 2 - vectors) // vectors
    height = min(height, MAX_TILE_ROWS, 24 // vectors if registers >= 32 else 12 // vectors)
    return TileShape(max(1, min(height, rows)), vectors, lanes)


def accumulate(
    builder: NestBuilder,
    dtype: Dtype,
    shape: TileShape,
    loops: Sequence[tuple[Extent, Extent]],
    left: Callable[[int, Indices], Value],
    right: Callable[[int, Indices], Value],
    combine: Combine | None = None,
    start: Sums | None = None,
) -> Tile:
    """The sums of a tile over nested loops, of which the last is innermost.

    `left(row, indices)` and `right(vector, indices)` give bundles of `shape.lanes` elements in the
    innermost loop, which combine adds the product of to a sum: by default, with one rounding.
    """
    words = builder.words
    add = combine or (lambda total, a, b: words.fused_multiply_add(a, b, total))
    zero = Repeated(dtype, Constant(dtype, 0), shape.lanes)
    zeros: list[list[Value]] = [[zero] * shape.vectors for _ in range(shape.rows)]

    def level(depth: int, outer: Sequence[Sequence[Value]], indices: Indices) -> Sums:
        sums = [[Carried(dtype, value) for value in row] for row in outer]
        flat = [each for row in sums for each in row]
        innermost = depth == len(loops) - 1
        begin, end = loops[depth]
        copies = PRODUCT_UNROLLING if innermost else 1
        with builder.loop(begin, end, carried=flat, copies=copies) as index:
            here = (*indices, index)
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
