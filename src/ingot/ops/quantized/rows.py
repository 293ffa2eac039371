"""The product of rows and a quantised matrix, as one op.

Programs decode its codes in registers (`compiler/lower/products/quantized/`), so that the cost of a
matrix is that of reading its codes. The op is linear in the rows, and in scales and biases
together; its derivatives are the op itself and products of float matrices.
"""

from __future__ import annotations

from functools import partial as deferred
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32, uint8
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.activations import activations, as_bytes
from ingot.graph.numerics.blas import matrix_product
from ingot.graph.op import apply
from ingot.graph.roles import QuantizedProduct
from ingot.graph.shape import Shape, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.products.contraction import matmul
from ingot.ops.quantized.formats import unpack
from ingot.ops.quantized.numpy_formats import numbers
from ingot.ops.quantized.quantization import Scheme, numbers_of
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import zeros_like
from ingot.ops.shape.joining import concatenate
from ingot.ops.shape.movement import reshape, swapaxes
from ingot.ops.shape.slicing import broadcast_batch
from ingot.tuning import MAX_QUANTIZED_PANELS, MAX_QUANTIZED_ROWS

__all__ = ["QuantizedMatmul", "product_of_rows"]


@dataclass(frozen=True)
class QuantizedMatmul(QuantizedProduct):
    """`x @ w.T` for rows x and a matrix w of codes, summed in float32."""

    mode: str
    group_size: int
    bits: int
    dtype: Dtype

    def infer(self, x: array, w: array, *parts: array) -> tuple[Shape, Dtype]:
        return (*x.shape[:-1], w.shape[0]), self.dtype

    def evaluate(self, x: np.ndarray, w: np.ndarray, *parts: np.ndarray) -> np.ndarray:
        matrix = numbers(self.mode, self.group_size, self.bits, w, *parts)
        rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
        if activations() == "int8":
            rows = as_bytes(rows)
        product = matrix_product(rows, matrix.T)
        return product.reshape(*x.shape[:-1], len(w)).astype(self.dtype.numpy, copy=False)

    @property
    def _scheme(self) -> Scheme:
        return Scheme(self.mode, self.group_size, self.bits)

    def vjp(
        self, cotangent: array, out: array, x: array, w: array, *parts: array
    ) -> tuple[Any, ...]:
        wide = astype(cotangent, float32)

        def of_x() -> array:
            return astype(matmul(wide, numbers_of(self._scheme, w, *parts)), x.dtype)

        by_parts = [deferred(self._of_part, wide, x, w, parts, n) for n in range(len(parts))]
        if parts[0].dtype is uint8:
            return of_x, None, None
        return of_x, None, *by_parts

    def _of_part(
        self, cotangent: array, x: array, w: array, parts: tuple[array, ...], number: int
    ) -> array:
        """The cotangent of the scales, or of the biases: sums over each group."""
        part = parts[number]
        rows = reshape(astype(x, float32), (size_of(x.shape[:-1]), x.shape[-1]))
        flat = reshape(cotangent, (rows.shape[0], w.shape[0]))
        by_matrix = reshape(matmul(swapaxes(flat, 0, 1), rows), (*part.shape, self.group_size))
        if number == 0:
            words = self.group_size * self.bits // 32
            codes = unpack(reshape(w, (*part.shape, words)), self.bits)
            by_matrix = by_matrix * astype(reshape(codes, by_matrix.shape), float32)
        return astype(sum(by_matrix, -1), part.dtype)

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, x: array, w: array, *parts: array
    ) -> array | None:
        by_x = None if tangents[0] is None else apply(self, tangents[0], w, *parts)
        by_parts = None
        if any(tangent is not None for tangent in tangents[2:]):
            moved = [
                zeros_like(part) if tangent is None else tangent
                for tangent, part in zip(tangents[2:], parts, strict=True)
            ]
            by_parts = apply(self, x, w, *moved)
        if by_x is None or by_parts is None:
            return by_parts if by_x is None else by_x
        return by_x + by_parts

    def vmap(
        self, size: int, batched: tuple[bool, ...], x: array, w: array, *parts: array
    ) -> array:
        if not any(batched[1:]):
            return apply(self, x, w, *parts)  # rows may have any number of axes
        # Each example has its own matrix.
        whole = [
            part if has else broadcast_batch(part, size, False)
            for part, has in zip((w, *parts), batched[1:], strict=True)
        ]
        matrix = swapaxes(numbers_of(self._scheme, *whole), -1, -2)
        rows = astype(x if batched[0] else broadcast_batch(x, size, False), float32)
        flat = reshape(rows, (size, size_of(rows.shape[1:-1]), rows.shape[-1]))
        product = matmul(flat, matrix)
        return astype(reshape(product, (*rows.shape[:-1], matrix.shape[-1])), self.dtype)


def product_of_rows(
    op: QuantizedMatmul, x: array, matrix: tuple[array, ...], stream: StreamLike = None
) -> array:
    """The product with any number of rows."""
    if x.size <= MAX_QUANTIZED_ROWS * x.shape[-1]:
        return apply(op, x, *matrix, stream=stream)
    return _product_of_many(op, x, matrix, stream)


def _product_of_many(
    op: QuantizedMatmul, x: array, matrix: tuple[array, ...], stream: StreamLike
) -> array:
    """The product with many rows, for which the matrix is decoded to memory, in panels of bounded
    size.
    """
    *leading, length = x.shape
    columns = matrix[0].shape[0]
    rows = reshape(x, (size_of(tuple(leading)), length))
    height = max(1, MAX_QUANTIZED_PANELS // (4 * length))  # float32
    if columns <= height:
        product = apply(op, rows, *matrix, stream=stream)
    else:
        products = [
            apply(op, rows, *[part[first : first + height] for part in matrix], stream=stream)
            for first in range(0, columns, height)
        ]
        product = concatenate(products, -1, stream=stream)
    return reshape(product, (*leading, columns))
