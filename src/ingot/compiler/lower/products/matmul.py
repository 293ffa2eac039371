"""Matrix products as loop nests.

There are these strategies, chosen by shapes, strides, and whether an operand stays the same:

- **panels**: the right operand is packed into panels first, from which tiles of the result are
  computed. This pays off with many rows, or for many products with the same operand.
- **rows**: the right operand has contiguous rows and stays in L2: it is read in place, unless so
  many rows are computed from it that packing pays off.
- **strips** and **streams**: the right operand has contiguous rows, and the result few rows: it is
  read in place, in blocks of a few rows.
- **dots**: both operands are contiguous along k, and the result has few rows: dot products, whose
  lanes are added in the end.

The left operand is read in place; it may be packed if its rows are not contiguous, or if narrow
tiles read a large one often.
"""

from __future__ import annotations

from collections.abc import Collection

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Value
from ingot.compiler.forms.nests import Area, Kernel
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered
from ingot.compiler.lower.products.builder import ProductBuilder, epilogue_of, has_axes_of
from ingot.compiler.lower.products.complex_parts import (
    has_complex_nest,
    pack_parts,
    parts_of,
    right_parts,
)
from ingot.compiler.lower.products.dots import dots
from ingot.compiler.lower.products.operands import (
    Matrices,
    Product,
    made_even,
    product_of,
)
from ingot.compiler.lower.products.panels import Panels, convert, pack_pairs, pack_panels, pad
from ingot.compiler.lower.products.register_tile import (
    TileShape,
    has_many_registers,
    tile_shape,
    wide_shape,
)
from ingot.compiler.lower.products.split_sums import add_chunks, split
from ingot.compiler.lower.products.strips import streams, strips
from ingot.graph import roles
from ingot.graph.dtype import (
    bfloat16,
    complex64,
    float16,
    float32,
    float64,
    uint16,
    uint32,
    uint64,
)
from ingot.runtime.processor import processor_features
from ingot.tuning import (
    MAX_CONVERTED_ROWS,
    MAX_FETCHED_VECTORS,
    ROWS_AHEAD,
    SCRATCH_ALIGNMENT,
    SUM_BLOCK,
)
from ingot.tuning_products import (
    MAX_DOT_COLUMNS,
    MAX_DOT_ROWS,
    MAX_LEFT_LENGTH,
    MAX_LEFT_ROWS_BYTES,
    MAX_NEAR_LEFT_LENGTH,
    MAX_STREAMED_ROWS,
    MAX_TRANSPOSED_COLUMNS,
    MAX_TRANSPOSED_PAIRS,
    MAX_UNPACKED_BYTES,
    MAX_UNPACKED_LEFT_BYTES,
    MAX_UNPACKED_ROWS,
    MAX_UNPAIRED_ROWS,
    MIN_DOT_COLUMN_BYTES,
    MIN_DOT_LENGTH,
    MIN_PACKED_LEFT_PANELS,
    MIN_PACKED_LEFT_ROWS_PANELS,
    MIN_PACKED_PANELS,
    MIN_PACKED_ROWS,
    MIN_PACKED_ROWS_OF_FEW,
    MIN_STREAMED_COLUMNS,
)

__all__ = ["Scratch", "lower_matmul", "multiply_panels", "why_no_nest"]

Strides = dict[Step, tuple[int, ...]]
_SUMS = {
    float32: float32,
    float64: float64,
    bfloat16: float32,
    float16: float32,
    complex64: float32,
}


def lower_matmul(
    step: Step,
    strides_of: Strides,
    epilogue: Group | None = None,
    fixed: Collection[Step] = (),
) -> Lowered | None:
    """The kernels of a product and its epilogue; None if BLAS should compute the product, or if the
    epilogue does not match it. Operands in `fixed` are packed once for many products.
    """
    dtype = _SUMS.get(step.dtype)
    if dtype is None or _is_left_to_blas(step):
        return None
    product = product_of(step, strides_of, dtype, fixed)
    if step.dtype is complex64:
        return None if epilogue is not None else _complex(product, strides_of)
    chunks = split(product)
    if product.m == 1 and product.n == 1 and chunks is None:
        return None  # tiles need an axis of rows or columns
    if product.n == 1 and product.m != 1:
        product = product.transposed()
        chunks = split(product)
    if epilogue is not None and not has_axes_of(epilogue, product):
        return None
    group = epilogue or epilogue_of(step)
    scratch = Scratch()
    if chunks is None:
        last = _few_columns if _has_few_columns(product) else _last_kernel
        return scratch.lowered(last(product, group, strides_of, scratch))
    scratch.nbytes[None] = chunks.nbytes
    alone = Group("fused", [])
    for part in chunks.products:
        scratch.kernels.append(_last_kernel(part, alone, strides_of, scratch))
    return scratch.lowered(add_chunks(chunks, product, group, strides_of))


def why_no_nest(step: Step) -> str:
    """Why there are no kernels for a product, for explanations."""
    if step.dtype not in _SUMS:
        return f"there are no loop nests for products of {step.dtype.name}"
    if _is_left_to_blas(step):
        return "the product is small"
    if step.dtype is complex64:
        return "it is a product of few rows of complex numbers, or with a vector"
    return "the result is a single number, of few products"


def _is_left_to_blas(step: Step) -> bool:
    assert isinstance(step.op, roles.Product)
    left, right = (source.shape for source in step.inputs)
    return step.op.is_left_to_blas(left, right)


def _last_kernel(product: Product, group: Group, strides_of: Strides, scratch: Scratch) -> Kernel:
    """The kernel that computes the result. Kernels that prepare its operands are added to
    `scratch`.
    """
    if product.right.is_fixed and product.left.dtype is product.dtype:
        return _wide(product, group, strides_of, scratch)
    size = product.left.dtype.size
    by_rows = product.right.column_stride == size
    if by_rows and product.m <= MAX_STREAMED_ROWS and product.n >= MIN_STREAMED_COLUMNS:
        return streams(product, group, strides_of)
    if product.right.row_stride == size and _takes_dots(product):
        if not _is_along_k(product.left):
            left = scratch.converted(product.left, product.left.dtype, Area.LEFT)
            product = product._replace(left=left)
        return dots(product, _multiplies_pairs(product), group, strides_of)
    if _is_transposed(product):
        product = product.transposed()
    if product.left.dtype is not product.dtype:
        return _halves(product, group, strides_of, scratch)
    return _wide(product, group, strides_of, scratch)


def _is_transposed(product: Product) -> bool:
    """Whether to compute the transpose of the result, from transposed operands in place: storing it
    takes less time than transposing an operand. Pairs have to be packed in any case.
    """
    most = MAX_TRANSPOSED_PAIRS if _multiplies_pairs(product) else MAX_TRANSPOSED_COLUMNS
    return bool(
        product.has_transposed_operands
        and 1 < product.n <= most
        and product.n <= product.m
        and not product.right.is_fixed
        and product.result.step is not None
    )


def _takes_dots(product: Product) -> bool:
    """Whether dot products are faster than packing an operand that is contiguous along k: the lanes
    are added once per element of the result, which short sums do not amortise.
    """
    if product.m <= MAX_STREAMED_ROWS // 2:
        return True
    if _is_transposed(product):
        return False
    return bool(product.m <= MAX_DOT_ROWS and product.m * MIN_DOT_LENGTH <= product.k)


def _is_along_k(left: Matrices) -> bool:
    """Whether the rows of a matrix are contiguous."""
    return bool(left.column_stride == left.dtype.size)


def _has_few_columns(product: Product) -> bool:
    """Whether the result has so few columns, and the left operand contiguous rows, that dot
    products are faster than tiles, whose vectors would be mostly empty.
    """
    left, n = product.left, product.n
    return bool(
        1 < n <= MAX_DOT_COLUMNS
        and product.m > 2 * n
        and left.column_stride == left.dtype.size
        and product.k * left.dtype.size >= n * MIN_DOT_COLUMN_BYTES
    )


def _few_columns(product: Product, group: Group, strides_of: Strides, scratch: Scratch) -> Kernel:
    """The kernel that computes few columns as rows of the transposed product."""
    product = product.transposed()
    left = product.left
    if left.column_stride != left.dtype.size:
        product = product._replace(left=scratch.converted(left, left.dtype, Area.LEFT))
    return dots(product, _multiplies_pairs(product), group, strides_of)


def _complex(product: Product, strides_of: Strides) -> Lowered | None:
    """The kernels of a product of complex matrices, as one of real matrices."""
    if not has_complex_nest(product):
        return None
    scratch = Scratch()
    left, right = (
        each if _is_along_k(each) else scratch.converted(each._replace(dtype=uint64), uint64)
        for each in (product.left, product.right)
    )
    tile = tile_shape(float32, 2 * product.n, product.m)
    panels = scratch.panels_of_parts(right._replace(dtype=complex64), tile)
    real = Product(parts_of(left), panels.source, parts_of(product.result), float32)
    kernel = multiply_panels(real, panels, Group("fused", []), strides_of)
    return scratch.lowered(kernel)


class Scratch:
    """The kernels that prepare operands in scratch memory, and its size: the left operand has its
    own.
    """

    def __init__(self) -> None:
        self.kernels: list[Kernel] = []
        self.nbytes: dict[Area | None, Number] = {None: 0, Area.LEFT: 0}

    def take(self, nbytes: Number, kernel: Kernel, area: Area | None = None) -> None:
        """Adds a kernel and the `nbytes` of scratch memory that it fills."""
        self.kernels.append(kernel)
        self.nbytes[area] += -(-nbytes // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT

    def lowered(self, *last: Kernel) -> Lowered:
        """All kernels."""
        return Lowered([*self.kernels, *last], self.nbytes[None], self.nbytes[Area.LEFT])

    def converted(self, source: Matrices, dtype: Dtype, area: Area | None = None) -> Matrices:
        """Matrices converted to another dtype."""
        found = source.converted(dtype, self.nbytes[area], area)
        self.take(found.nbytes, convert(source, found), area)
        return found

    def padded(self, source: Matrices, area: Area | None = None) -> Matrices:
        """A copy with contiguous rows of an even number of elements."""
        found = source.padded(self.nbytes[area], area)
        self.take(found.nbytes, pad(source, found), area)
        return found

    def panels(self, source: Matrices, tile: TileShape, area: Area | None = None) -> Panels:
        """Matrices packed into panels."""
        found = Panels(source, tile, self.nbytes[area], area)
        self.take(found.nbytes, pack_panels(found), area)
        return found

    def panels_of_pairs(
        self, source: Matrices, tile: TileShape, area: Area | None = None
    ) -> Panels:
        """Matrices with contiguous rows packed into panels of pairs: of two elements, one below the
        other.
        """
        words = source._replace(dtype=uint32, rows=made_even(source.rows) // 2)
        found = Panels(words, tile, self.nbytes[area], area)
        self.take(found.nbytes, pack_pairs(source, found), area)
        return found

    def panels_of_parts(self, source: Matrices, tile: TileShape) -> Panels:
        """Complex matrices with contiguous rows packed into panels of real matrices."""
        found = Panels(right_parts(source), tile, self.nbytes[None])
        self.take(found.nbytes, pack_parts(source, found))
        return found


def _wide(product: Product, group: Group, strides_of: Strides, scratch: Scratch) -> Kernel:
    """The kernel of a product whose operands have the dtype of the sums."""
    right, size = product.right, product.dtype.size
    tile = tile_shape(product.dtype, product.n, product.m)
    is_in_l2, is_packed = _stays_in_l2(right), right.is_fixed or _amortises_panels(product, tile)
    as_it_lies = right.column_stride == size and not is_packed
    as_it_lies = as_it_lies and (product.m <= MAX_UNPACKED_ROWS or is_in_l2)
    if as_it_lies:
        tile = wide_shape(product.dtype, product.n, product.m)
    left = None
    if _is_packed(product, tile):
        left = scratch.panels(product.left.transposed(), _of_rows(tile), Area.LEFT)
    if as_it_lies:
        return (_rows if is_in_l2 else strips)(product, tile, group, strides_of, left)
    return multiply_panels(product, scratch.panels(right, tile), group, strides_of, left)


def _stays_in_l2(right: Matrices) -> bool:
    """Whether a matrix stays in L2 from one tile to the next."""
    return bool(right.rows * right.columns * right.dtype.size <= MAX_UNPACKED_BYTES)


def _amortises_panels(product: Product, tile: TileShape) -> bool:
    """Whether so many rows are computed from a right operand that packing it takes less time than
    reading short runs of its rows, also if it stays in L2, unless a left operand that is read in
    place by columns competes with its panels for the sets of L1.
    """
    left = product.left
    return bool(
        product.m >= (MIN_PACKED_ROWS if has_many_registers() else MIN_PACKED_ROWS_OF_FEW)
        and product.n > MIN_PACKED_PANELS * tile.columns
        and (left.column_stride == left.dtype.size or _is_packed(product, tile))
    )


def _of_rows(tile: TileShape) -> TileShape:
    """The tile shape for panels of the left operand."""
    return TileShape(1, 1, tile.rows)


def _is_packed(product: Product, tile: TileShape) -> bool:
    """Whether to pack the left operand: its rows are not contiguous, it does not stay in L1, what a
    tile reads of it does not either, and it is read several times. Contiguous rows are packed if
    narrow tiles read them from beyond L2 so often that one stream instead of one per row pays.
    """
    left = product.left
    if left.column_stride == left.dtype.size:
        return bool(
            not has_many_registers()
            and product.n >= MIN_PACKED_LEFT_ROWS_PANELS * tile.columns
            and left.rows * left.columns * left.dtype.size > MAX_LEFT_ROWS_BYTES
        )
    return bool(
        left.rows * left.columns * left.dtype.size > MAX_UNPACKED_LEFT_BYTES
        and product.n > MIN_PACKED_LEFT_PANELS * tile.columns
        and not _has_short_rows(left)
    )


def _has_short_rows(left: Matrices) -> bool:
    """Whether a matrix with contiguous columns has so few of them that the cache lines of a tile's
    rows stay in L1, and their pages in the TLB.
    """
    length = left.columns * left.dtype.size
    if left.row_stride != left.dtype.size or length > MAX_NEAR_LEFT_LENGTH:
        return False
    return bool(length <= MAX_LEFT_LENGTH or left.rows * length <= MAX_UNPACKED_BYTES)


def _halves(product: Product, group: Group, strides_of: Strides, scratch: Scratch) -> Kernel:
    """The kernel of a half-precision product with float32 sums. The right operand is converted as
    it is read if there are few rows, whose elements each tile would convert again; bfloat16 is
    multiplied in pairs if the processor can; otherwise both operands are converted first.
    """
    by_rows = product.right.column_stride == product.right.dtype.size
    in_pairs = _multiplies_pairs(product)
    if by_rows and product.m <= (MAX_UNPAIRED_ROWS if in_pairs else MAX_CONVERTED_ROWS):
        left = scratch.converted(product.left, product.dtype, Area.LEFT)
        product = product._replace(left=left)
        tile = wide_shape(product.dtype, product.n, product.m)
        build = _rows if _stays_in_l2(product.right) else strips
        return build(product, tile, group, strides_of)
    if in_pairs:
        return _pairs(product, group, strides_of, scratch)
    left = scratch.converted(product.left, product.dtype, Area.LEFT)
    right = scratch.converted(product.right, product.dtype)
    wide = product._replace(left=left, right=right)
    return _wide(wide, group, strides_of, scratch)


def _multiplies_pairs(product: Product) -> bool:
    has_pairs = product.left.dtype is bfloat16 and bool(product.k > 1)
    return has_pairs and "avx512_bf16" in processor_features()


def _pairs(product: Product, group: Group, strides_of: Strides, scratch: Scratch) -> Kernel:
    """The kernel of a bfloat16 product that multiplies pairs along k."""
    tile = tile_shape(product.dtype, product.n, product.m)
    left, size = product.left, product.left.dtype.size
    packed = ends = None
    if left.row_stride == size and left.column_stride != size:
        packed = scratch.panels_of_pairs(left.transposed(), _of_rows(tile), Area.LEFT)
        words = packed.source.transposed()
    elif found := left.in_pairs():
        words = found
    elif _is_along_k(left) and not is_symbolic(left.columns) and left.columns < 2 * SUM_BLOCK:
        words, ends = left.pairs(), left
    else:
        words = scratch.padded(left, Area.LEFT).pairs()
    right = product.right
    if right.column_stride == size:
        panels = scratch.panels_of_pairs(right, tile)
    else:
        across = right.transposed()
        pairs = across.in_pairs() or scratch.padded(across).pairs()
        panels = scratch.panels(pairs.transposed(), tile)
    product = product._replace(left=words, right=panels.source)
    return multiply_panels(product, panels, group, strides_of, packed, ends)


def multiply_panels(
    product: Product,
    panels: Panels,
    group: Group,
    strides_of: Strides,
    left: Panels | None = None,
    ends: Matrices | None = None,
) -> Kernel:
    """The kernel that computes tiles from panels of the right operand. If its elements are pairs,
    and the last element of each row of the left operand belongs to none, `ends` is that operand.
    """
    builder = ProductBuilder("panels", product, panels.tile, group, strides_of, left)
    if ends is not None:
        builder.unpaired = builder.operand(ends._replace(dtype=uint16), "ends")
    right = panels.buffer(builder, builder.argument(panels.area), builder.numbers)

    def body(stack: list[Affine], row: Affine, panel: Affine, first: Affine) -> None:
        lanes = builder.tile.lanes

        def columns(vector: int, indices: tuple[Index | Affine, ...]) -> Value:
            at = (*stack, panel, affine(indices[-1]), affine(vector * lanes))
            return builder.load_lanes(right, at, lanes)

        builder.outer_products(stack, row, columns, first)

    builder.tiles(body)
    return builder.kernel()


def _rows(
    product: Product,
    tile: TileShape,
    group: Group,
    strides_of: Strides,
    left: Panels | None = None,
) -> Kernel:
    """The kernel that computes tiles from the rows of the right operand, read in place."""
    # hardware prefetchers miss short runs in rows that are far apart
    is_read_once = bool(
        product.m <= tile.rows and tile.columns < product.n and tile.vectors <= MAX_FETCHED_VECTORS
    )
    variant = "rows once" if is_read_once else "rows"
    builder = ProductBuilder(variant, product, tile, group, strides_of, left)
    right = builder.operand(product.right, "b")
    n = affine(right.shape[-1])

    def body(stack: list[Affine], row: Affine, _panel: Affine, first: Affine) -> None:
        lanes = builder.tile.lanes

        def columns(vector: int, indices: tuple[Index | Affine, ...]) -> Value:
            k, column = affine(indices[-1]), first + vector * lanes
            if is_read_once:
                builder.prefetch(right, (*stack, k + ROWS_AHEAD, column))
            found = builder.load_lanes(right, (*stack, k, column), lanes, n)
            return builder.operand_value(found)

        builder.outer_products(stack, row, columns, first)

    builder.tiles(body)
    return builder.kernel()
