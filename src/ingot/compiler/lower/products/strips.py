"""Products of few rows with matrices whose rows are contiguous, in strips of columns.

Each element of the right operand is multiplied by few others, so memory bandwidth is the limit.
Tiles that run along all of k would jump from row to row, each on a page of its own, which hardware
prefetchers do not follow. Here a task keeps the sums of a strip of columns on the stack and
iterates over the right operand in blocks of a few rows, reading the strip's part of each block from
left to right.

With very few rows (`streams`), a block has as many rows as registers can hold elements of the left
operand, and each of its rows is one stream. With more (`strips`), the strip consists of register
tiles.

Blocks do not depend on strips, so the order of summation depends on k alone.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index

from ingot._native import get_num_threads
from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Constant, Repeated, Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.builder import ProductBuilder
from ingot.compiler.lower.products.operands import Product
from ingot.compiler.lower.products.panels import Panels
from ingot.compiler.lower.products.register_tile import (
    TileShape,
    accumulate,
    lanes_of,
)
from ingot.compiler.lower.products.tasks import grain_of
from ingot.runtime.processor import vector_registers
from ingot.tuning_products import (
    MAX_STREAMS,
    MAX_STRIP_BYTES,
    MAX_STRIP_ROWS,
    MIN_STRIP_COLUMNS,
    STRIP_DEPTH,
)

__all__ = ["streams", "strips"]

Strides = dict[Step, tuple[int, ...]]


def _strip_width(product: Product, height: int, unit: int) -> int:
    """The width of a strip, a multiple of `unit`: wide enough for about one strip per thread, but
    with sums that stay in L1 or L2.
    """
    width, threads = MIN_STRIP_COLUMNS, get_num_threads()
    most = MAX_STRIP_BYTES // (height * product.dtype.size)
    if not is_symbolic(product.n):
        while 2 * width <= most and product.n > width * threads:
            width *= 2
    return -(-width // unit) * unit


class _StripBuilder(ProductBuilder):
    """The base of both kinds of strips: zero-initialised sums on the stack, and the epilogue."""

    def __init__(
        self,
        variant: str,
        product: Product,
        tile: TileShape,
        group: Group,
        strides_of: Strides,
        left: Panels | None = None,
    ) -> None:
        super().__init__(variant, product, tile, group, strides_of, left)
        self.height = max(1, MAX_STRIP_ROWS // tile.rows) * tile.rows
        if product.m <= self.height:
            self.height = index(-(-product.m // tile.rows) * tile.rows)
        self.width = _strip_width(product, self.height, tile.columns)
        self.right = self.operand(product.right, "b")
        # the last bundle may extend past the strip
        self.sums = self.stack("sums", product.dtype, (self.height, self.width + tile.lanes))

    def strips(self, body: Callable[[list[Affine], Affine, Affine], None]) -> None:
        """A parallel loop over the strips. `body` is called with the indices along the stack and
        the first row and column of a strip, and adds to `sums`.
        """
        product, height = self.product, self.height
        lengths = [self.numbers(f"s{axis}", length) for axis, length in enumerate(product.stack)]
        lengths += [
            self.numbers("blocks", -(-product.m // height)),
            self.numbers("strips", -(-product.n // self.width)),
        ]
        with self.parallel(lengths) as (*indices, block, strip):
            stack = [affine(each) for each in indices]
            top, first = affine(block) * height, affine(strip) * self.width
            with (
                self.loop(0, height) as row,
                self.loop(0, self.width, kind="vector") as column,
            ):
                zero = Constant(product.dtype, 0)
                self.store(zero, self.sums, (affine(row), affine(column)))
            body(stack, top, first)
            self.write_block(self.sums, stack, (top, height), (first, self.width))
        self.nest.parallel[-1].grain = grain_of(product, height, self.width)

    def add(self, total: Value, row: Affine, column: Affine) -> None:
        """Adds a bundle to sums on the stack."""
        at = (row, column)
        before = self.load_lanes(self.sums, at, total.lanes)
        self.store(self.words.add(before, total), self.sums, at)


def streams(product: Product, group: Group, strides_of: Strides) -> Kernel:
    """The kernel of a product of up to MAX_STREAMED_ROWS rows."""
    return _Streams(product, group, strides_of).kernel()


class _Streams(_StripBuilder):
    """Reads a few rows of the right operand at a time as streams."""

    def __init__(self, product: Product, group: Group, strides_of: Strides) -> None:
        tile = TileShape(index(product.m), 1, lanes_of(product.dtype))
        super().__init__("streams", product, tile, group, strides_of)
        self.zero = Repeated(product.dtype, Constant(product.dtype, 0), tile.lanes)
        held = vector_registers() * 3 // 4
        depth = max(1, min(MAX_STREAMS, held // tile.rows))

        def body(stack: list[Affine], _top: Affine, first: Affine) -> None:
            whole = affine(self.multiple(0, self.k, by=depth))
            with self.loop(0, whole, step=depth) as k:
                self.block(stack, first, affine(k), depth)
            with self.loop(whole, self.k) as k:
                self.block(stack, first, affine(k), 1)

        self.strips(body)

    def block(self, stack: list[Affine], first: Affine, k: Affine, depth: int) -> None:
        """Adds the products of `depth` rows of the right operand, from `k` on."""
        rows, lanes = self.tile.rows, self.tile.lanes

        def element(row: int, offset: int) -> Value:
            found = self.load(self.left, (*stack, affine(row), k + offset))
            return self.splat(self.operand_value(found), lanes)

        # loaded once, before the loop along the strip
        elements = [[element(row, offset) for row in range(rows)] for offset in range(depth)]

        def columns(column: Affine, limit: Affine | None) -> None:
            totals: list[Value] = [self.zero] * rows
            for offset, of_rows in enumerate(elements):
                at = (*stack, k + offset, first + column)
                bundle = self.operand_value(self.load_lanes(self.right, at, lanes, limit))
                totals = [
                    self.words.fused_multiply_add(element, bundle, total)
                    for element, total in zip(of_rows, totals, strict=True)
                ]
            for row, total in enumerate(totals):
                self.add(total, affine(row), column)

        inside = (self.width, self.n - first)
        whole = affine(self.multiple(0, *inside, by=lanes))
        with self.loop(0, whole, step=lanes, copies=2) as column:
            columns(affine(column), None)
        with self.loop(whole, *inside, step=lanes) as column:
            columns(affine(column), self.n)


def strips(
    product: Product,
    tile: TileShape,
    group: Group,
    strides_of: Strides,
    left: Panels | None = None,
) -> Kernel:
    """The kernel of a product of few rows, but more than `streams` takes, in register tiles."""
    return _Strips(product, tile, group, strides_of, left).kernel()


class _Strips(_StripBuilder):
    """Register tiles that traverse a block of the right operand from left to right."""

    def __init__(
        self,
        product: Product,
        tile: TileShape,
        group: Group,
        strides_of: Strides,
        left: Panels | None,
    ) -> None:
        super().__init__("strips", product, tile, group, strides_of, left)

        def body(stack: list[Affine], top: Affine, first: Affine) -> None:
            with (
                self.loop(0, self.k, step=STRIP_DEPTH) as k,
                self.loop(0, self.height, self.m - top, step=tile.rows) as row,
                self.loop(0, self.width, self.n - first, step=tile.columns) as column,
            ):
                self.part(stack, (top, affine(row)), (first, affine(column)), affine(k))

        self.strips(body)

    def part(
        self,
        stack: list[Affine],
        row: tuple[Affine, Affine],
        column: tuple[Affine, Affine],
        begin: Affine,
    ) -> None:
        """Adds a block of products to the sums of a tile. `row` and `column` are each the beginning
        of the strip and an offset in it.
        """
        tile, first = self.tile, column[0] + column[1]
        rows = self.clamped(row[0] + row[1], tile.rows, self.m)
        left = self.elements(stack, rows)

        def columns(vector: int, indices: tuple[Index, ...]) -> Value:
            at = (*stack, affine(indices[-1]), first + vector * tile.lanes)
            return self.operand_value(self.load_lanes(self.right, at, tile.lanes, self.n))

        loops = [(begin, begin + STRIP_DEPTH, self.k)]
        found = accumulate(self, self.product.dtype, tile, loops, left, columns, self.combine)
        for offset, totals in enumerate(found.sums):
            for vector, total in enumerate(totals):
                self.add(total, row[1] + offset, column[1] + vector * tile.lanes)
