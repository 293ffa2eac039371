"""Products with quantised matrices.

Codes are decoded and scaled by array operations, so derivatives follow from those; kernels decode
in registers where rows are few (`rows.py`).
"""

from __future__ import annotations

from typing import Any

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float64, is_floating, promote
from ingot.graph.op import apply
from ingot.graph.shape import size_of
from ingot.ops.elementwise.casting import astype, stop_gradient
from ingot.ops.products.contraction import matmul
from ingot.ops.products.gathered_products import gather_mm, indices_of
from ingot.ops.quantized.gathered import (
    GatheredQuantizedMatmul,
    oriented,
    product_of_chosen,
)
from ingot.ops.quantized.quantization import (
    Scheme,
    check_global_scale,
    check_quantized,
    numbers_of,
    quantize,
    scheme_of,
)
from ingot.ops.quantized.rows import QuantizedMatmul, product_of_rows
from ingot.ops.shape.movement import expand_dims, require_array, reshape

__all__ = ["gather_qmm", "gather_qqmm", "qqmm", "quantized_matmul"]


def quantized_matmul(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    stream: StreamLike = None,
) -> array:
    """The product of a matrix and a quantised one: `x @ w.T`, or `x @ w`.

    Args:
        x: The first factor.
        w: The packed codes of the second.
        scales: Its scales.
        biases: Its biases, in mode affine.
        transpose: Whether the quantised matrix is transposed.
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: The mode of quantisation.
        stream: The stream or device to run on.
    """
    name = "quantized_matmul"
    scheme = scheme_of(name, mode, group_size, bits)
    check_quantized(name, scheme, w, scales, biases)
    dtype = _product_dtype(name, x, scales, biases)
    if transpose and w.ndim == 2 and _are_rows_of(scheme, x, scales) and dtype is not float64:
        op = QuantizedMatmul(scheme.mode, scheme.group_size, scheme.bits, dtype)
        matrix = (w, scales) if biases is None else (w, scales, biases)
        return product_of_rows(op, x, matrix, stream)
    numbers = oriented(name, x, numbers_of(scheme, w, scales, biases), transpose)
    return matmul(astype(x, dtype), astype(numbers, dtype), stream=stream)


def _are_rows_of(scheme: Scheme, x: array, scales: array) -> bool:
    """Whether rows have the length of the matrix's rows."""
    return x.ndim > 0 and bool(x.shape[-1] == scales.shape[-1] * scheme.group_size)


def _product_dtype(name: str, x: Any, scales: array, biases: array | None) -> Dtype:
    dtype: Dtype = require_array(name, x).dtype
    if biases is not None:
        dtype = promote(promote(dtype, scales.dtype), biases.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{name}] takes real floating-point numbers, got {dtype.name}.")
    return dtype


def gather_qmm(
    x: array,
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    transpose: bool = True,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamLike = None,
) -> array:
    """Products of chosen matrices and chosen quantised ones, as `gather_mm` has them.

    Args:
        x: Matrices.
        w: The packed codes of quantised matrices.
        scales: Their scales.
        biases: Their biases, in mode affine.
        lhs_indices: Which of the matrices of `x`, counted over all axes but the last two.
        rhs_indices: Which of the quantised matrices.
        transpose: Whether the quantised matrices are transposed.
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: The mode of quantisation.
        global_scale: What was given to `quantize`, for nvfp4.
        sorted_indices: Whether the indices are sorted, which makes no difference here.
        stream: The stream or device to run on.
    """
    name = "gather_qmm"
    scheme = scheme_of(name, mode, group_size, bits)
    check_quantized(name, scheme, w, scales, biases)
    check_global_scale(name, scheme, global_scale)
    dtype = _product_dtype(name, x, scales, biases)
    rows_match = transpose and _are_rows_of(scheme, x, scales) and dtype is not float64
    if rhs_indices is not None and x.ndim > 1 and w.ndim > 2:
        left, right, shape = indices_of(name, lhs_indices, rhs_indices, x.shape[:-2], w.shape[:-2])
        stacks = [
            reshape(part, (size_of(part.shape[:-2]), *part.shape[-2:]))
            for part in (x, w, scales, biases)
            if part is not None
        ]
        product = None
        if rows_match and global_scale is None and not _native.in_tracing():
            op = GatheredQuantizedMatmul(scheme.mode, scheme.group_size, scheme.bits, dtype)
            product = apply(op, *stacks, left, right, stream=stream)
        elif right.size < size_of(w.shape[:-2]):
            options = (transpose, global_scale)
            product = product_of_chosen(scheme, dtype, stacks, left, right, *options)
        if product is not None:
            return reshape(product, (*shape, *product.shape[1:]))
    numbers = oriented(name, x, numbers_of(scheme, w, scales, biases, global_scale), transpose)
    return gather_mm(
        astype(x, dtype), astype(numbers, dtype), lhs_indices, rhs_indices, stream=stream
    )


def qqmm(
    x: array,
    w: array,
    scales: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """The product `x @ w.T` of two matrices that are both quantised.

    To derivatives, quantising what is not quantised yet is the identity.

    Args:
        x: The first factor, which is quantised first.
        w: The packed codes of the second factor or, without scales, that factor itself.
        scales: The scales of the second factor.
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: For nvfp4 the largest absolute value of `x`.
        global_scale_w: For nvfp4 the largest absolute value of `w`.
        stream: The stream or device to run on.
    """
    left, right = _both_quantized(
        "qqmm", x, w, scales, (mode, group_size, bits), global_scale_x, global_scale_w
    )
    return matmul(left, right, stream=stream)


def gather_qqmm(
    x: array,
    w: array,
    /,
    scales: array | None = None,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "nvfp4",
    global_scale_x: array | None = None,
    global_scale_w: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamLike = None,
) -> array:
    """Products of chosen matrices, all of which are quantised: `qqmm` for `gather_mm`.

    Args:
        x: Matrices, which are quantised first.
        w: The packed codes of the others or, without scales, those themselves.
        scales: The scales of the others.
        lhs_indices: Which of the matrices of `x`, counted over all axes but the last two.
        rhs_indices: Which of the others.
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: For nvfp4 the largest absolute value of `x`.
        global_scale_w: For nvfp4 the largest absolute value of `w`.
        sorted_indices: Whether the indices are sorted, which makes no difference here.
        stream: The stream or device to run on.
    """
    left, right = _both_quantized(
        "gather_qqmm", x, w, scales, (mode, group_size, bits), global_scale_x, global_scale_w
    )
    return gather_mm(left, right, lhs_indices, rhs_indices, stream=stream)


def _both_quantized(
    name: str,
    x: Any,
    w: Any,
    scales: array | None,
    wanted: tuple[str, int | None, int | None],
    global_scale_x: array | None,
    global_scale_w: array | None,
) -> tuple[array, array]:
    """The factors of a product, both rounded to representable values, the second transposed."""
    if wanted[0] not in ("nvfp4", "mxfp8"):
        raise ValueError(f"[{name}] the modes are nvfp4 and mxfp8, got {wanted[0]!r}.")
    if wanted[0] == "nvfp4" and (global_scale_x is None) != (global_scale_w is None):
        raise ValueError(f"[{name}] global_scale_x and global_scale_w are given both or neither.")
    scheme = scheme_of(name, *wanted)
    dtype = _product_dtype(name, x, x, None)
    left = _rounded(scheme, x, global_scale_x)
    if scales is None:
        numbers = _rounded(scheme, require_array(name, w), global_scale_w)
    else:
        check_quantized(name, scheme, w, scales, None)
        check_global_scale(name, scheme, global_scale_w)
        numbers = numbers_of(scheme, w, scales, None, global_scale_w)
    return left, astype(oriented(name, x, numbers, transpose=True), dtype)


def _rounded(scheme: Scheme, x: array, global_scale: array | None) -> array:
    """`x` quantised and decoded; the identity to differentiation."""
    matrix = expand_dims(x, 0) if x.ndim == 1 else x
    options = (scheme.group_size, scheme.bits, scheme.mode)
    codes, scales = quantize(matrix, *options, global_scale=global_scale)
    numbers = reshape(numbers_of(scheme, codes, scales, None, global_scale), x.shape)
    return x + stop_gradient(astype(numbers, x.dtype) - x)
