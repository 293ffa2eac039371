"""Quantised matrices: codes of a few bits, a scale for each group of them, and products with them.

A quantised matrix is two or three arrays: codes, packed into words of uint32 along the last axis;
the scales of the groups of codes; and, in mode "affine", their biases. In the other modes codes are
small floats and so are the scales, which are uint8. The arrays are MLX's, bit by bit.

All is composed of array operations: unpacking and scaling fuse into one loop, derivatives by
inputs, scales and biases follow from them, and products of matrices are left to BLAS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, float32, is_floating, promote, uint8, uint32
from ingot.graph.shape import shape_text
from ingot.ops.casting import astype, stop_gradient
from ingot.ops.comparison import where
from ingot.ops.contraction import matmul
from ingot.ops.exponential import log2
from ingot.ops.extremes import maximum, minimum
from ingot.ops.gathered_products import gather_mm
from ingot.ops.movement import expand_dims, require_array, reshape, swapaxes
from ingot.ops.powers import power
from ingot.ops.quantization_formats import (
    decode_fp4,
    encode_fp4,
    from_fp8,
    pack,
    to_fp8,
    unpack,
)
from ingot.ops.rounding import ceil, round

__all__ = [
    "dequantize",
    "from_fp8",
    "gather_qmm",
    "gather_qqmm",
    "qqmm",
    "quantize",
    "quantized_matmul",
    "to_fp8",
]


@dataclass(frozen=True)
class Scheme:
    """A mode of quantisation with the size of groups and the number of bits of a code."""

    mode: str
    group_size: int
    bits: int

    @property
    def affine(self) -> bool:
        """Whether codes are integers, which scales and biases make numbers of."""
        return self.mode == "affine"

    @property
    def largest(self) -> float:
        """The largest number that a code can stand for."""
        return {4: 6.0, 8: 448.0}[self.bits]


_AFFINE_GROUPS = (32, 64, 128)
_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)
_DEFAULTS = {
    "affine": Scheme("affine", 64, 4),
    "mxfp4": Scheme("mxfp4", 32, 4),
    "mxfp8": Scheme("mxfp8", 32, 8),
    "nvfp4": Scheme("nvfp4", 16, 4),
}
_LARGE = 1 << 22  # numbers of a matrix: 16 MB of float32
_SMALLEST_SCALE = 1e-7  # of affine groups, so that equal numbers have one, too
_SCALE_OF_ONE = 127  # the code of the scale 2 ** 0
_LARGEST_NVFP4 = 448.0 * 6.0  # what one scale and one code can stand for


def _scheme(name: str, mode: Any, group_size: int | None, bits: int | None) -> Scheme:
    if mode not in _DEFAULTS:
        raise ValueError(f"[{name}] the modes are {', '.join(_DEFAULTS)}, got {mode!r}.")
    default = _DEFAULTS[mode]
    scheme = Scheme(
        mode,
        default.group_size if group_size is None else group_size,
        default.bits if bits is None else bits,
    )
    groups = _AFFINE_GROUPS if scheme.affine else (default.group_size,)
    if scheme.group_size not in groups:
        raise ValueError(
            f"[{name}] groups of mode {mode} have {_either(groups)} elements, got "
            f"{scheme.group_size}."
        )
    widths = _AFFINE_BITS if scheme.affine else (default.bits,)
    if scheme.bits not in widths:
        raise ValueError(
            f"[{name}] codes of mode {mode} have {_either(widths)} bits, got {scheme.bits}."
        )
    return scheme


def _either(values: tuple[int, ...]) -> str:
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    global_scale: array | None = None,
    stream: StreamLike = None,
) -> tuple[array, ...]:
    """Numbers as codes of a few bits, with a scale for each group along the last axis.

    | mode | group size | bits | scales | biases |
    |---|---|---|---|---|
    | affine | 32, 64 (default), 128 | 1, 2, 3, 4 (default), 5, 6, 8 | dtype of w | yes |
    | mxfp4 | 32 | 4 | powers of two | no |
    | mxfp8 | 32 | 8 | powers of two | no |
    | nvfp4 | 16 | 4 | floats of 8 bits | no |

    In mode affine a number is `scale * code + bias`, in the others a scale times a small float.

    Args:
        w: Floating-point numbers with at least two axes, of which the last is whole groups long.
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: One of the modes of the table.
        global_scale: For nvfp4 the largest absolute value of `w`, to which scales are relative.
        stream: Where the work belongs.

    Returns:
        The codes, packed into uint32; the scales; and the biases in mode affine.
    """
    scheme = _scheme("quantize", mode, group_size, bits)
    if not is_floating(require_array("quantize", w).dtype):
        raise ValueError(f"[quantize] takes real floating-point numbers, got {w.dtype.name}.")
    if w.ndim < 2:
        raise ValueError(
            f"[quantize] takes arrays with at least two axes, got shape {shape_text(w.shape)}."
        )
    if w.shape[-1] % scheme.group_size != 0:
        raise ValueError(
            f"[quantize] the last axis of shape {shape_text(w.shape)} does not divide into groups "
            f"of {scheme.group_size}."
        )
    groups = reshape(w, (*w.shape[:-1], w.shape[-1] // scheme.group_size, scheme.group_size))
    _check_global_scale("quantize", scheme, global_scale)
    if scheme.affine:
        codes, *parts = _affine_codes(groups, scheme.bits)
        parts = [astype(x, w.dtype) for x in parts]
    else:
        codes, *parts = _float_codes(groups, scheme, global_scale)
    packed = pack(reshape(codes, w.shape), scheme.bits)
    return (packed, *(x[..., 0] for x in parts))


def _affine_codes(groups: array, bits: int) -> tuple[array, array, array]:
    """Codes of groups along the last axis, their scales and biases.

    The larger end of the range of a group, by absolute value, gets a code of its own, and 0 one.
    """
    wide = astype(groups, float32)
    largest = wide.max(-1, keepdims=True)
    smallest = wide.min(-1, keepdims=True)
    codes = (1 << bits) - 1
    if bits == 1:  # two numbers: the ends of the range
        scale = maximum(largest - smallest, _SMALLEST_SCALE)
        return astype(round((wide - smallest) / scale), uint32), scale, smallest
    step = maximum((largest - smallest) / float(codes), _SMALLEST_SCALE)
    downward = abs(smallest) > abs(largest)
    step = where(downward, step, -step)
    edge = where(downward, smallest, largest)
    of_zero = round(edge / step)  # the distance between the edge and 0 in steps
    at_edge = of_zero == 0
    scale = where(at_edge, step, edge / where(at_edge, 1.0, of_zero))
    bias = where(at_edge, 0.0, edge)
    nearest = round((wide - bias) / scale)
    return astype(minimum(maximum(nearest, 0.0), float(codes)), uint32), scale, bias


def _float_codes(groups: array, scheme: Scheme, global_scale: array | None) -> tuple[array, array]:
    """Codes of groups along the last axis that are small floats, and codes of their scales."""
    dtype = groups.dtype
    scale = astype(abs(groups).max(-1, keepdims=True), float32) / scheme.largest
    if scheme.mode == "nvfp4":
        unit = _unit(global_scale)
        code = to_fp8(scale if unit is None else scale / unit)
        factor = from_fp8(code, dtype if unit is None else float32)
        if unit is not None:
            factor = factor * unit
    else:
        nothing = scale == 0
        exponent = ceil(log2(where(nothing, 1.0, scale)))
        code = astype(exponent + float(_SCALE_OF_ONE), uint8)
        factor = astype(power(2.0, exponent), dtype)
    # A scale of 0 has elements of 0 only, or some that are too small.
    scaled = groups / where(factor == 0, float("inf"), factor)
    encode = encode_fp4 if scheme.bits == 4 else to_fp8
    return astype(encode(scaled), uint32), code


def _unit(global_scale: array | None) -> array | None:
    """What the scales of nvfp4 are multiples of."""
    return None if global_scale is None else astype(global_scale, float32) / _LARGEST_NVFP4


def _check_global_scale(name: str, scheme: Scheme, global_scale: Any) -> None:
    if global_scale is None:
        return
    if scheme.mode != "nvfp4":
        raise ValueError(f"[{name}] a global scale is for mode nvfp4 only, got {scheme.mode}.")
    if require_array(name, global_scale).size != 1 or not is_floating(global_scale.dtype):
        raise ValueError(
            f"[{name}] a global scale is one floating-point number, got shape "
            f"{shape_text(global_scale.shape)} of {global_scale.dtype.name}."
        )


def dequantize(
    w: array,
    /,
    scales: array,
    biases: array | None = None,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    global_scale: array | None = None,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """The numbers that `quantize` made codes of, up to what was lost.

    Args:
        w: The packed codes.
        scales: The scales of the groups.
        biases: Their biases, in mode affine.
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: The mode of quantisation.
        global_scale: What was given to `quantize`, for nvfp4.
        dtype: The dtype of the result. By default that of scales and biases; bfloat16 if the scales
            are codes themselves.
        stream: Where the work belongs.
    """
    scheme = _scheme("dequantize", mode, group_size, bits)
    _check_quantized("dequantize", scheme, w, scales, biases)
    _check_global_scale("dequantize", scheme, global_scale)
    if dtype is None:
        dtype = bfloat16 if biases is None else promote(scales.dtype, biases.dtype)
    elif not is_floating(dtype):
        raise ValueError(f"[dequantize] makes real floating-point numbers, not {dtype.name}.")
    return astype(_numbers(scheme, w, scales, biases, global_scale), dtype, stream)


def _numbers(
    scheme: Scheme,
    w: array,
    scales: array,
    biases: array | None = None,
    global_scale: array | None = None,
) -> array:
    """The numbers that codes stand for, in float32."""
    grouped = _grouped_numbers(scheme, w, scales, biases, global_scale)
    return reshape(grouped, (*scales.shape[:-1], scales.shape[-1] * scheme.group_size))


def _grouped_numbers(
    scheme: Scheme,
    w: array,
    scales: array,
    biases: array | None = None,
    global_scale: array | None = None,
) -> array:
    """The numbers that codes stand for, (..., groups, chunks, codes), in float32."""
    if scheme.mode == "nvfp4":
        factors = from_fp8(scales, float32)
        unit = _unit(global_scale)
        factors = factors if unit is None else factors * unit
    elif scheme.affine:
        factors = astype(scales, float32)
    else:
        factors = power(2.0, astype(scales, float32) - float(_SCALE_OF_ONE))
    # The axes of groups are kept apart, so that all of this is one loop.
    words = scheme.group_size * scheme.bits // 32
    codes = unpack(reshape(w, (*scales.shape, words)), scheme.bits)
    if scheme.affine:
        values = astype(codes, float32)
    elif scheme.bits == 4:
        values = decode_fp4(codes)
    else:
        values = from_fp8(astype(codes, uint8), float32)
    numbers = expand_dims(factors, (-1, -2)) * values
    if biases is not None:
        numbers = numbers + expand_dims(astype(biases, float32), (-1, -2))
    return numbers


def _check_quantized(name: str, scheme: Scheme, w: Any, scales: Any, biases: Any) -> None:
    """Refuses arrays that are not the parts of one quantised matrix."""
    if require_array(name, w).dtype is not uint32:
        raise ValueError(f"[{name}] packed codes are uint32, got {w.dtype.name}.")
    require_array(name, scales)
    if scheme.affine and biases is None:
        raise ValueError(f"[{name}] mode affine needs biases.")
    if not scheme.affine and biases is not None:
        raise ValueError(f"[{name}] mode {scheme.mode} has no biases.")
    if not scheme.affine and scales.dtype is not uint8:
        raise ValueError(
            f"[{name}] scales of mode {scheme.mode} are uint8, got {scales.dtype.name}."
        )
    if scheme.affine and not is_floating(promote(scales.dtype, require_array(name, biases).dtype)):
        raise ValueError(
            f"[{name}] scales and biases are floating-point numbers, got {scales.dtype.name} and "
            f"{biases.dtype.name}."
        )
    fits = (
        w.ndim > 0
        and scales.shape[:-1] == w.shape[:-1]
        and w.shape[-1] * 32 == scales.shape[-1] * scheme.group_size * scheme.bits
        and (biases is None or biases.shape == scales.shape)
    )
    if not fits:
        found = "" if biases is None else f" and biases of shape {shape_text(biases.shape)}"
        raise ValueError(
            f"[{name}] codes of shape {shape_text(w.shape)} do not go with scales of shape "
            f"{shape_text(scales.shape)}{found} in groups of {scheme.group_size} and "
            f"{scheme.bits} bits."
        )


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
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: The mode of quantisation.
        stream: Where the work belongs.
    """
    name = "quantized_matmul"
    scheme = _scheme(name, mode, group_size, bits)
    _check_quantized(name, scheme, w, scales, biases)
    dtype = _product_dtype(name, x, scales, biases)
    if (
        transpose
        and w.ndim == 2
        and x.ndim > 0
        and x.size == x.shape[-1]
        and _is_large(scheme, scales, x)
    ):
        # One row: sums over what is unpacked in the same loop, which reads the codes and no more.
        grouped = _grouped_numbers(scheme, w, scales, biases)
        sums = (grouped * reshape(astype(x, float32), grouped.shape[1:])).sum((1, 2, 3))
        return astype(reshape(sums, (*x.shape[:-1], w.shape[0])), dtype, stream)
    numbers = _oriented(name, x, _numbers(scheme, w, scales, biases), transpose)
    return matmul(astype(x, dtype), astype(numbers, dtype), stream=stream)


def _is_large(scheme: Scheme, scales: array, x: array) -> bool:
    """Whether a matrix that fits a row has too many numbers to stay in the cache."""
    columns = scales.shape[-1] * scheme.group_size
    return bool(x.shape[-1] == columns and scales.shape[0] * columns >= _LARGE)


def _product_dtype(name: str, x: Any, scales: array, biases: array | None) -> Dtype:
    dtype: Dtype = require_array(name, x).dtype
    if biases is not None:
        dtype = promote(promote(dtype, scales.dtype), biases.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{name}] takes real floating-point numbers, got {dtype.name}.")
    return dtype


def _oriented(name: str, x: array, numbers: array, transpose: bool) -> array:
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
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: The mode of quantisation.
        global_scale: What was given to `quantize`, for nvfp4.
        sorted_indices: Whether the indices are sorted, which makes no difference here.
        stream: Where the work belongs.
    """
    name = "gather_qmm"
    scheme = _scheme(name, mode, group_size, bits)
    _check_quantized(name, scheme, w, scales, biases)
    _check_global_scale(name, scheme, global_scale)
    dtype = _product_dtype(name, x, scales, biases)
    numbers = _oriented(name, x, _numbers(scheme, w, scales, biases, global_scale), transpose)
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
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: For nvfp4 the largest absolute value of `x`.
        global_scale_w: For nvfp4 the largest absolute value of `w`.
        stream: Where the work belongs.
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
        group_size: How many elements share a scale.
        bits: How many bits a code has.
        mode: "nvfp4" or "mxfp8".
        global_scale_x: For nvfp4 the largest absolute value of `x`.
        global_scale_w: For nvfp4 the largest absolute value of `w`.
        sorted_indices: Whether the indices are sorted, which makes no difference here.
        stream: Where the work belongs.
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
    """The factors of a product, both as numbers that codes can stand for, the second transposed."""
    if wanted[0] not in ("nvfp4", "mxfp8"):
        raise ValueError(f"[{name}] the modes are nvfp4 and mxfp8, got {wanted[0]!r}.")
    scheme = _scheme(name, *wanted)
    dtype = _product_dtype(name, x, x, None)
    left = _rounded(name, scheme, x, global_scale_x)
    if scales is None:
        numbers = _rounded(name, scheme, require_array(name, w), global_scale_w)
    else:
        _check_quantized(name, scheme, w, scales, None)
        _check_global_scale(name, scheme, global_scale_w)
        numbers = _numbers(scheme, w, scales, None, global_scale_w)
    return left, astype(_oriented(name, x, numbers, transpose=True), dtype)


def _rounded(name: str, scheme: Scheme, x: array, global_scale: array | None) -> array:
    """The numbers that the codes of `x` stand for; to derivatives, `x` itself."""
    matrix = expand_dims(x, 0) if x.ndim == 1 else x
    options = (scheme.group_size, scheme.bits, scheme.mode)
    codes, scales = quantize(matrix, *options, global_scale=global_scale)
    numbers = reshape(_numbers(scheme, codes, scales, None, global_scale), x.shape)
    return x + stop_gradient(astype(numbers, x.dtype) - x)
