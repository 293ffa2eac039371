"""Products of matrices as loop nests.

Three ways, by what lies where:

- **panels**: the right operand is copied into panels first, then tiles of the result are computed
  panel by panel. The copy pays where there are many rows.
- **rows**: the right operand's rows are contiguous and there are few rows of results, or it stays
  in L2: it is read as it lies.
- **dots**: both operands are contiguous along the sums and there are few rows of results: sums run
  along vectors, whose lanes are added at last.

The left operand is read as it lies. Which way is taken depends on shapes and strides alone.
"""

from __future__ import annotations

from collections.abc import Callable

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered
from ingot.compiler.lower.products.builder import ProductBuilder, epilogue_of, has_axes_of
from ingot.compiler.lower.products.operands import Product, product_of
from ingot.compiler.lower.products.panels import Panels, convert, pack_panels
from ingot.compiler.lower.products.register_tile import (
    accumulate,
    dot_shape,
    tile_shape,
    wide_shape,
)
from ingot.graph.dtype import bfloat16, float16, float32, float64
from ingot.graph.numerics.blas import is_small
from ingot.tuning import MAX_DOT_ROWS, MAX_UNPACKED_BYTES, MAX_UNPACKED_ROWS

__all__ = ["lower_matmul"]

Strides = dict[Step, tuple[int, ...]]
_SUMS = {float32: float32, float64: float64, bfloat16: float32, float16: float32}


def lower_matmul(step: Step, strides_of: Strides, epilogue: Group | None = None) -> Lowered | None:
    """The kernels of a product and of what is computed of it element by element; None if BLAS is to
    compute it, or if the two do not fit together.
    """
    dtype = _SUMS.get(step.dtype)
    left, right = (source.shape for source in step.inputs)
    if dtype is None or is_small(left, right):
        return None
    product = product_of(step, strides_of, dtype)
    if product.m == 1 and product.n == 1:
        return None  # tiles have axes of rows and columns, of which results have neither
    if product.n == 1:
        product = product.transposed()
    size = step.dtype.size
    by_rows = product.right.column_stride == size
    if by_rows and product.m == 1 and dtype is step.dtype:
        return None  # BLAS streams through the matrix row by row
    if epilogue is not None and not has_axes_of(epilogue, product):
        return None
    group = epilogue or epilogue_of(step)
    scratch: Number = 0
    kernels: list[Kernel] = []
    if dtype is not step.dtype:
        converted = product.left.converted(dtype, 0)
        other = product.right.converted(dtype, converted.nbytes)
        scratch = converted.nbytes + other.nbytes
        kernels += [convert(product.left, converted), convert(product.right, other)]
        product = product._replace(left=converted, right=other)
        size, by_rows = dtype.size, True
    along_k = product.right.row_stride == size and product.left.column_stride == size
    if along_k and product.m <= MAX_DOT_ROWS:
        return Lowered([*kernels, _dots(product, group, strides_of)], scratch)
    if by_rows and (product.m <= MAX_UNPACKED_ROWS or product.right.nbytes <= MAX_UNPACKED_BYTES):
        return Lowered([*kernels, _rows(product, group, strides_of)], scratch)
    panels = Panels(product.right, tile_shape(dtype, product.n, product.m), scratch)
    kernels += [pack_panels(panels), _panels(product, panels, group, strides_of)]
    return Lowered(kernels, scratch + panels.nbytes)


def _panels(product: Product, panels: Panels, group: Group, strides_of: Strides) -> Kernel:
    """Tiles of the result from panels of the right operand."""
    builder = ProductBuilder("panels", product, panels.tile, group, strides_of)
    tile = panels.tile
    right = panels.buffer(builder, builder.argument(None), builder.numbers)

    def body(stack: list[Affine], row: Affine, panel: Affine) -> None:
        def columns(vector: int, indices: tuple[Index, ...]) -> Value:
            at = (*stack, panel, affine(indices[-1]), affine(vector * tile.lanes))
            return builder.load_lanes(right, at, tile.lanes)

        builder.outer_products(stack, row, columns, panel * tile.columns)

    builder.tiles(body)
    return builder.kernel()


def _rows(product: Product, group: Group, strides_of: Strides) -> Kernel:
    """Tiles of the result from the right operand as it lies, row by row."""
    tile = wide_shape(product.dtype, product.n, product.m)
    builder = ProductBuilder("rows", product, tile, group, strides_of)
    right = builder.operand(product.right, "b")
    n = affine(right.shape[-1])

    def body(stack: list[Affine], row: Affine, number: Affine) -> None:
        first = number * tile.columns

        def columns(vector: int, indices: tuple[Index, ...]) -> Value:
            at = (*stack, affine(indices[-1]), first + vector * tile.lanes)
            return builder.load_lanes(right, at, tile.lanes, n)

        builder.outer_products(stack, row, columns, first)

    builder.tiles(body)
    return builder.kernel()


def _dots(product: Product, group: Group, strides_of: Strides) -> Kernel:
    """Tiles of sums along vectors of both operands."""
    shape = dot_shape(product.dtype, product.n, product.m)
    # as a tile of the result it has one column for each vector
    tile = shape._replace(lanes=1)
    builder = ProductBuilder("dots", product, tile, group, strides_of)
    right = builder.operand(product.right.transposed(), "b")  # rows are contiguous

    def body(stack: list[Affine], row: Affine, number: Affine) -> None:
        first = number * shape.vectors
        with builder.loop(first, first + 1, builder.n) as column:  # there is one
            dots(stack, row, affine(column))

    def dots(stack: list[Affine], row: Affine, column: Affine) -> None:
        rows = builder.clamped(row, shape.rows, builder.m)
        columns = builder.clamped(column, shape.vectors, builder.n)

        def lanes(
            limit: Affine | None,
        ) -> tuple[Callable[..., Value], Callable[..., Value]]:
            def of_row(number: int, indices: tuple[Index, ...]) -> Value:
                at = (*stack, rows[number], affine(indices[-1]))
                return builder.load_lanes(builder.left, at, shape.lanes, limit)

            def of_column(vector: int, indices: tuple[Index, ...]) -> Value:
                at = (*stack, columns[vector], affine(indices[-1]))
                return builder.load_lanes(right, at, shape.lanes, limit)

            return of_row, of_column

        whole = affine(builder.multiple(0, builder.k, by=shape.lanes))
        dtype, step = product.dtype, shape.lanes
        main = accumulate(builder, dtype, shape, [(0, whole)], *lanes(None), step=step)
        loops = [(whole, builder.k)]
        found = accumulate(
            builder, dtype, shape, loops, *lanes(builder.k), start=main.sums, step=step
        )
        for one, totals in zip(rows, found.sums, strict=True):
            for other, total in zip(columns, totals, strict=True):
                spot = builder.spot(stack, one, other)
                builder.element(spot, _sum_of_lanes(builder, total))

    builder.tiles(body)
    return builder.kernel()


def _sum_of_lanes(builder: NestBuilder, bundle: Value) -> Value:
    """All lanes added: halves first."""
    while bundle.lanes > 1:
        half = bundle.lanes // 2
        low = builder.some_lanes(bundle, 0, half)
        bundle = builder.words.add(low, builder.some_lanes(bundle, half, half))
    return bundle
