"""Products of complex matrices as products of real ones.

The parts of a complex number are adjacent, so that (m, k) complex numbers are a real matrix
(m, 2 k) and the result is a real matrix (m, 2 n). What maps one to the other has a block

    real  imaginary
    -imaginary  real

for each number of the right operand: it is packed into panels of this form, and the left operand
is read in place, which takes as many multiplications as the product itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Value
from ingot.compiler.forms.nests import Kernel
from ingot.compiler.lower.kernel import kernel_of
from ingot.compiler.lower.products.numbers import Numbers, code_key
from ingot.compiler.lower.products.operands import Matrices, Product
from ingot.compiler.lower.products.panels import Panels, by_rows
from ingot.graph.dtype import float32
from ingot.tuning_products import MIN_COMPLEX_ROWS

__all__ = ["has_complex_nest", "pack_parts", "parts_of", "right_parts"]


def has_complex_nest(product: Product) -> bool:
    """Whether a product of complex matrices has loop nests: vectors, and few rows unless the right
    operand is packed once for many products, are left to BLAS, which reads matrices in place.
    """
    least = 2 if product.right.is_fixed else MIN_COMPLEX_ROWS
    return bool(product.m >= least and product.n > 1)


def parts_of(source: Matrices) -> Matrices:
    """Complex matrices with contiguous rows as matrices of their parts, in the same memory."""
    strides = (*source.strides[:-1], float32.size)
    return source._replace(dtype=float32, columns=2 * source.columns, strides=strides)


def right_parts(source: Matrices) -> Matrices:
    """The real matrices that stand for complex ones on the right; they exist in panels only."""
    parts = parts_of(source)
    return parts._replace(rows=2 * parts.rows)


def pack_parts(source: Matrices, panels: Panels) -> Kernel:
    """The kernel that packs complex matrices with contiguous rows into panels of `right_parts`."""
    tile = panels.tile
    builder, numbers = NestBuilder(), Numbers()
    parts = parts_of(source)
    operand = parts.buffer(builder, "b", 0, numbers)
    operands = tuple(dict.fromkeys((source.step, panels.area)))
    target = panels.buffer(builder, len(operands) - 1, numbers)

    def copy(at: Sequence[Affine], panel: Affine, row: Affine) -> None:
        for vector in range(tile.vectors):
            column = affine(vector * tile.lanes)
            index = (*at, row, panel * tile.columns + column)
            value = builder.load_lanes(operand, index, tile.lanes, operand.shape[-1])
            builder.store(value, target, (*at, panel, row * 2, column))
            builder.store(_times_i(builder, value), target, (*at, panel, row * 2 + 1, column))

    by_rows(builder, numbers, panels, operand, source.rows, copy)
    return kernel_of(builder.nest, operands, code_key(builder, numbers, "pack parts", tile))


def _times_i(builder: NestBuilder, value: Value) -> Value:
    """Pairs of parts (x, y), multiplied by i: (-y, x)."""
    negated, lanes = builder.words.negative(value), value.lanes
    picks = (lane - 1 if lane % 2 else lanes + lane + 1 for lane in range(lanes))
    return builder.picked_lanes((value, negated), tuple(picks))
