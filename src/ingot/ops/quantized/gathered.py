"""Products of rows and chosen quantised matrices, as in layers with experts.

Rows of the same matrix are multiplied together, by the kernels of `rows.py`: codes of the chosen
matrices are read once, and none is decoded to memory beyond the panels of one product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Composite
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.index.indexing import take
from ingot.ops.products.contraction import matmul
from ingot.ops.products.gathered_products import constant_of, groups, within
from ingot.ops.quantized.quantization import Scheme, numbers_of
from ingot.ops.quantized.rows import QuantizedMatmul, product_of_rows
from ingot.ops.shape.movement import swapaxes

__all__ = ["GatheredQuantizedMatmul", "oriented", "product_of_chosen"]


@dataclass(frozen=True)
class GatheredQuantizedMatmul(Composite):
    """Product n is that of the rows `x[left[n]]` and the transposed matrix `right[n]`."""

    mode: str
    group_size: int
    bits: int
    dtype: Dtype

    def infer(self, x: array, w: array, *rest: array) -> tuple[Shape, Dtype]:
        return (rest[-1].shape[0], x.shape[-2], w.shape[-2]), self.dtype

    def compose(self, *inputs: array) -> array:
        *stacks, left, right = inputs
        scheme = Scheme(self.mode, self.group_size, self.bits)
        return product_of_chosen(scheme, self.dtype, stacks, left, right, transpose=True)

    def runs_alone(self, *shapes: Shape) -> bool:
        return False

    def evaluate(self, *values: np.ndarray) -> np.ndarray:
        x, w, *parts, left, right = values
        left, right = within("gather_qmm", left, len(x)), within("gather_qmm", right, len(w))
        result = np.zeros((len(right), x.shape[-2], w.shape[-2]), self.dtype.numpy)
        if result.size == 0:
            return result
        op = QuantizedMatmul(self.mode, self.group_size, self.bits, self.dtype)
        for number, where in groups(right):
            rows = constant_of(x[left[where]].reshape(-1, x.shape[-1]))
            matrix = tuple([constant_of(part[number]) for part in (w, *parts)])
            product = product_of_rows(op, rows, matrix)
            result[where] = product._data.reshape(len(where), *result.shape[1:])
        return result


def product_of_chosen(
    scheme: Scheme,
    dtype: Dtype,
    stacks: Sequence[array],
    left: array,
    right: array,
    transpose: bool,
    global_scale: array | None = None,
) -> array:
    """The same of array operations, for stacks of rows and of the parts of matrices. Only the codes
    of the chosen matrices are read.
    """
    x, *matrices = stacks
    codes, scales, *biases = [take(part, right, 0) for part in matrices]
    numbers = numbers_of(scheme, codes, scales, biases[0] if biases else None, global_scale)
    factor = astype(oriented("gather_qmm", x, numbers, transpose), dtype)
    return matmul(take(astype(x, dtype), left, 0), factor)


def oriented(name: str, x: array, numbers: array, transpose: bool) -> array:
    """The second factor of a product whose first is `x`."""
    if numbers.ndim < 2:
        raise ValueError(f"[{name}] a quantised matrix has at least two axes, got {numbers.ndim}.")
    factor = swapaxes(numbers, -1, -2) if transpose else numbers
    if x.ndim == 0 or x.shape[-1] != factor.shape[-2]:
        raise ValueError(
            f"[{name}] cannot multiply {shape_text(x.shape)} by the quantised matrix of shape "
            f"{shape_text(factor.shape)}{' (transposed)' if transpose else ''}."
        )
    return factor
