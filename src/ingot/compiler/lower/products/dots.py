"""Products of few rows as dot products along vectors, where both operands are contiguous along k.

A tile has a few rows and a few columns of the result, each with partial sums in the lanes of one or
several accumulators (chains): an addition waits for the one before it in its chain, so that a
single chain reads memory at half the speed of the processor. The lanes are added in the end.

bfloat16 is multiplied in pairs where the processor can. The last element of an odd sum is added by
itself: rows of odd length have no whole pair there.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Repeated, Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.builder import ProductBuilder
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.register_tile import TileShape, dot_shape
from ingot.tuning_products import (
    DOT_CHAINS,
    MAX_ORDERED_CONVERTED_BYTES,
    MAX_ORDERED_DOT_BYTES,
    MIN_DOT_TASK_COLUMNS,
    MIN_ORDERED_MATRIX_BYTES,
    PRODUCT_UNROLLING,
)

__all__ = ["dots"]

Strides = dict[Step, tuple[int, ...]]


def dots(product: Product, in_pairs: bool, group: Group, strides_of: Strides) -> Kernel:
    """The kernel that computes tiles of dot products; with `in_pairs`, of pairs of bfloat16."""
    return _Dots(product, in_pairs, group, strides_of).kernel()


class _Ends(NamedTuple):
    """The last elements of odd sums, which belong to no pair."""

    left: Buffer
    right: Buffer


class _Dots(ProductBuilder):
    def __init__(self, product: Product, in_pairs: bool, group: Group, strides_of: Strides) -> None:
        shape = dot_shape(product.dtype, product.n, product.m)
        self.chains, self.is_ordered = 1, False
        if shape.rows == 1:
            is_converted = product.left.dtype is not product.dtype and not in_pairs
            most = MAX_ORDERED_CONVERTED_BYTES if is_converted else MAX_ORDERED_DOT_BYTES
            self.is_ordered = _is_read_in_order(product.right, most)
            if self.is_ordered:  # by one loop: prefetchers recognise a stream by its instructions
                shape = shape._replace(vectors=1)
            self.chains = DOT_CHAINS
        words = product
        if in_pairs:
            right = product.right.transposed().pairs().transposed()
            words = product._replace(left=product.left.pairs(), right=right)
        # a tile of the result has one column per vector; those of one row are computed in a loop
        tiles = -(-MIN_DOT_TASK_COLUMNS // shape.vectors) if shape.rows == 1 else 1
        tile = TileShape(shape.rows, tiles * shape.vectors, 1)
        super().__init__("dots", words, tile, group, strides_of)
        self.shape = shape
        self.details = (shape, self.is_ordered)
        self.right = self.operand(words.right.transposed(), "b")  # rows are contiguous
        self.ends: _Ends | None = None
        if in_pairs and product.k % 2 != 0:
            right = product.right.transposed()
            self.ends = _Ends(self.operand(product.left, "ends"), self.operand(right, "b.ends"))
        self.tiles(self.tile_at)

    def tile_at(self, stack: list[Affine], row: Affine, _panel: Affine, first: Affine) -> None:
        end = first + self.tile.columns
        with self.loop(first, end, self.n, step=self.shape.vectors) as column:
            self.block(stack, row, affine(column))

    def block(self, stack: list[Affine], row: Affine, column: Affine) -> None:
        """Computes and stores a tile."""
        shape = self.shape
        rows = self.clamped(row, shape.rows, self.m)
        columns = self.clamped(column, shape.vectors, self.n)
        above, across = ([[*stack, each] for each in some] for some in (rows, columns))
        sums = [total for row in self.sums(above, across) for total in row]
        totals = iter(self.fold_each(sums, self.words.add))
        for one in rows:
            for other in columns:
                found = self.with_end(next(totals), stack, one, other)
                self.element(self.point(stack, one, other), found)

    def sums(self, rows: list[list[Affine]], columns: list[list[Affine]]) -> list[list[Value]]:
        """The sums of rows and columns, in lanes."""
        dtype, lanes = self.product.dtype, self.shape.lanes
        zero: Value = Repeated(dtype, Constant(dtype, 0), lanes)
        start: list[Value] = [zero] * (len(rows) * len(columns) * self.chains)
        # whole vectors, in chains and then one by one, and a last one that is not whole
        chained = affine(self.multiple(0, self.k, by=lanes * self.chains))
        whole = affine(self.multiple(chained, self.k, by=lanes))
        main = self.part((affine(0), chained), rows, columns, start, self.chains)
        count = len(rows) * len(columns)
        chains = [main[first : first + count] for first in range(0, len(main), count)]
        while len(chains) > 1:
            half = len(chains) // 2
            chains = [
                [self.words.add(a, b) for a, b in zip(one, other, strict=True)]
                for one, other in zip(chains[:half], chains[half:], strict=True)
            ]
        total = chains[0]
        if self.chains > 1:
            total = self.part((chained, whole), rows, columns, total)
        rest = self.part((whole, self.k), rows, columns, total, limit=self.k)
        return [rest[first : first + len(columns)] for first in range(0, count, len(columns))]

    def part(
        self,
        ends: tuple[Affine, Affine],
        rows: list[list[Affine]],
        columns: list[list[Affine]],
        start: list[Value],
        chains: int = 1,
        limit: Affine | None = None,
    ) -> list[Value]:
        """Adds the products along a part of k to sums, those of the first chain first. The last
        vector may end at a limit.
        """
        lanes = self.shape.lanes
        sums = [Carried(self.product.dtype, value) for value in start]
        is_main = limit is None and chains == self.chains
        copies = max(1, PRODUCT_UNROLLING // chains) if is_main else 1
        with self.loop(*ends, step=lanes * chains, carried=sums, copies=copies) as k:
            each = iter(sums)
            for chain in range(chains):
                at = affine(k) + chain * lanes
                right = [self.lanes_at(self.right, [*column, at], limit) for column in columns]
                for row in rows:
                    left = self.lanes_at(self.left, [*row, at], limit)
                    for one in right:
                        total = next(each)
                        total.update = self.combine(total, left, one)
        return list(sums)

    def lanes_at(self, buffer: Buffer, at: list[Affine], limit: Affine | None) -> Value:
        return self.operand_value(self.load_lanes(buffer, at, self.shape.lanes, limit))

    def with_end(self, total: Value, stack: list[Affine], row: Affine, column: Affine) -> Value:
        """A sum with the product of the elements that belong to no pair."""
        if self.ends is None:
            return total
        left, right = (
            self.words.cast(
                self.load(each, (*stack, at, affine(each.shape[-1]) - 1)), self.product.dtype
            )
            for each, at in zip(self.ends, (row, column), strict=True)
        )
        return self.words.fused_multiply_add(left, right, total)


def _is_read_in_order(right: Matrices, most: int) -> bool:
    """Whether one dot product after the other reads a matrix, with columns of up to `most` bytes,
    faster than several at once do.
    """
    return bool(
        right.rows * right.dtype.size <= most
        and right.rows * right.columns * right.dtype.size >= MIN_ORDERED_MATRIX_BYTES
    )
