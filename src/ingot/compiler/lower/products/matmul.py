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
from ingot.compiler.lower.products.panels import Panels, convert, pack_pairs, pack_panels
from ingot.compiler.lower.products.register_tile import (
    accumulate,
    dot_shape,
    tile_shape,
    wide_shape,
)
from ingot.graph.dtype import bfloat16, float16, float32, float64, uint32
from ingot.graph.numerics.blas import is_small
from ingot.runtime.processor import processor_features
from ingot.tuning import (
    MAX_CONVERTED_ROWS,
    MAX_DOT_ROWS,
    MAX_UNPACKED_BYTES,
    MAX_UNPACKED_ROWS,
)

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
    along_k = product.right.row_stride == size and product.left.column_stride == size
    if along_k and product.m <= MAX_DOT_ROWS:
        return Lowered([_dots(product, group, strides_of)])
    if dtype is not step.dtype:
        return _lower_halves(product, group, strides_of, by_rows)
    return _lower_wide(product, group, strides_of, [])


def _lower_wide(
    product: Product, group: Group, strides_of: Strides, before: list[Kernel], scratch: Number = 0
) -> Lowered:
    """Kernels of a product whose operands have the dtype of sums; `before` makes them of others."""
    right = product.right
    if right.column_stride == product.dtype.size and (
        product.m <= MAX_UNPACKED_ROWS or right.nbytes <= MAX_UNPACKED_BYTES
    ):
        return Lowered([*before, _rows(product, group, strides_of)], scratch)
    panels = Panels(right, tile_shape(product.dtype, product.n, product.m), scratch)
    kernels = [*before, pack_panels(panels), _panels(product, panels, group, strides_of)]
    return Lowered(kernels, scratch + panels.nbytes)


def _lower_halves(
    product: Product, group: Group, strides_of: Strides, by_rows: bool
) -> Lowered | None:
    """Kernels of a product of half types, with sums of float32. Few rows are multiplied as they are
    read; bfloat16 is multiplied in pairs where the processor can; the rest is converted first.
    """
    if by_rows and product.m <= MAX_CONVERTED_ROWS:
        return Lowered([_rows(product, group, strides_of)])
    if product.left.dtype is bfloat16 and "avx512_bf16" in processor_features():
        found = _lower_pairs(product, group, strides_of)
        if found is not None:
            return found
    left = product.left.converted(product.dtype, 0)
    right = product.right.converted(product.dtype, left.nbytes)
    kernels = [convert(product.left, left), convert(product.right, right)]
    wide = product._replace(left=left, right=right)
    return _lower_wide(wide, group, strides_of, kernels, left.nbytes + right.nbytes)


def _lower_pairs(product: Product, group: Group, strides_of: Strides) -> Lowered | None:
    """Kernels of a product of bfloat16 in pairs along the sums; None if operands have none."""
    left, right = product.left.in_pairs(), product.right.transposed().in_pairs()
    if left is None:
        return None
    tile = tile_shape(product.dtype, product.n, product.m)
    if right is not None:
        panels = Panels(right.transposed(), tile, 0)
        pack = pack_panels(panels)
    elif product.right.column_stride == product.right.dtype.size:
        words = product.right._replace(dtype=uint32, rows=product.k // 2)
        panels = Panels(words, tile, 0)
        pack = pack_pairs(product.right, panels)
    else:
        return None
    pairs = product._replace(left=left, right=panels.source)
    return Lowered([pack, _panels(pairs, panels, group, strides_of)], panels.nbytes)


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
            return builder.operand_value(builder.load_lanes(right, at, tile.lanes, n))

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
                found = builder.load_lanes(builder.left, at, shape.lanes, limit)
                return builder.operand_value(found)

            def of_column(vector: int, indices: tuple[Index, ...]) -> Value:
                at = (*stack, columns[vector], affine(indices[-1]))
                return builder.operand_value(builder.load_lanes(right, at, shape.lanes, limit))

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
