"""Quantised matrices: codes of a few bits, and a scale for each group of them.

A quantised matrix is two or three arrays: codes, packed into words of uint32 along the last axis;
the scales of the groups of codes; and, in mode "affine", their biases. In the other modes codes are
small floats and so are the scales, which are uint8. The arrays are MLX's, bit by bit.

All is composed of array operations: unpacking and scaling fuse into one loop, and derivatives by
inputs, scales and biases follow from them. Products are in `products.py`.
"""

from __future__ import annotations

from typing import Any, Literal, overload

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, float32, is_floating, promote, uint8, uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Composite
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.exponential import log2
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.elementwise.powers import power
from ingot.ops.elementwise.rounding import ceil, round
from ingot.ops.internal.composites import composed
from ingot.ops.quantized.formats import decode_fp4, encode_fp4, from_fp8, pack, to_fp8, unpack
from ingot.ops.reduce.extremes import max, min
from ingot.ops.shape.movement import expand_dims, require_array, reshape

__all__ = ["dequantize", "from_fp8", "quantize", "to_fp8"]


@dataclass(frozen=True)
class Scheme:
    """A mode of quantisation with the size of groups and the number of bits of a code."""

    mode: str
    group_size: int
    bits: int

    @property
    def affine(self) -> bool:
        """Whether codes are integers, decoded with scales and biases."""
        return self.mode == "affine"

    @property
    def largest(self) -> float:
        """The largest value of a code."""
        return {4: 6.0, 8: 448.0}[self.bits]


_AFFINE_GROUPS = (32, 64, 128)
_AFFINE_BITS = (1, 2, 3, 4, 5, 6, 8)
_DEFAULTS = {
    "affine": Scheme("affine", 64, 4),
    "mxfp4": Scheme("mxfp4", 32, 4),
    "mxfp8": Scheme("mxfp8", 32, 8),
    "nvfp4": Scheme("nvfp4", 16, 4),
}
_SMALLEST_SCALE = 1e-7  # of affine groups, so that constant groups have one too
_SCALE_OF_ONE = 127  # the code of the scale 2 ** 0
_LARGEST_NVFP4 = 448.0 * 6.0  # the largest product of a scale and a code


def scheme_of(name: str, mode: Any, group_size: int | None, bits: int | None) -> Scheme:
    """The scheme that a user asks for, with defaults filled in."""
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


@overload
def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: Literal["affine"] = "affine",
    *,
    global_scale: array | None = None,
    stream: StreamLike = None,
) -> tuple[array, array, array]: ...
@overload
def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    *,
    mode: Literal["mxfp4", "mxfp8", "nvfp4"],
    global_scale: array | None = None,
    stream: StreamLike = None,
) -> tuple[array, array]: ...
@overload
def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    global_scale: array | None = None,
    stream: StreamLike = None,
) -> tuple[array, ...]: ...
def quantize(
    w: array,
    /,
    group_size: int | None = None,
    bits: int | None = None,
    mode: str = "affine",
    *,
    global_scale: array | None = None,
    stream: StreamLike = None,
) -> Any:
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
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: One of the modes of the table.
        global_scale: For nvfp4 the largest absolute value of `w`, to which scales are relative.
        stream: The stream or device to run on.

    Returns:
        The codes, packed into uint32; the scales; and the biases in mode affine: typed as a tuple,
        and a list like MLX's.
    """
    scheme = scheme_of("quantize", mode, group_size, bits)
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
    check_global_scale("quantize", scheme, global_scale)
    if scheme.affine:
        codes, *parts = _affine_codes(groups, scheme.bits)
        parts = [astype(x, w.dtype) for x in parts]
    else:
        codes, *parts = _float_codes(groups, scheme, global_scale)
    packed = pack(reshape(codes, w.shape), scheme.bits)
    return [packed, *(x[..., 0] for x in parts)]


def _affine_codes(groups: array, bits: int) -> tuple[array, array, array]:
    """Codes of groups along the last axis, their scales and biases.

    The end of a group's range with the larger magnitude is exactly representable, and so is 0.
    """
    wide = astype(groups, float32)
    largest = max(wide, -1, keepdims=True)
    smallest = min(wide, -1, keepdims=True)
    codes = (1 << bits) - 1
    if bits == 1:  # two values: the ends of the range
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
    """Small-float codes of groups along the last axis, and codes of their scales."""
    dtype = groups.dtype
    scale = astype(max(abs(groups), -1, keepdims=True), float32) / scheme.largest
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
    # A scale of 0 has elements that are all 0 or too small.
    scaled = groups / where(factor == 0, float("inf"), factor)
    encode = encode_fp4 if scheme.bits == 4 else to_fp8
    return astype(encode(scaled), uint32), code


def _unit(global_scale: array | None) -> array | None:
    """The unit of nvfp4 scales."""
    return None if global_scale is None else astype(global_scale, float32) / _LARGEST_NVFP4


def check_global_scale(name: str, scheme: Scheme, global_scale: Any) -> None:
    """Reject an invalid global scale, or one for a scheme without."""
    if global_scale is None:
        return
    if scheme.mode != "nvfp4":
        raise ValueError(f"[{name}] a global scale is for mode nvfp4 only, got {scheme.mode}.")
    if require_array(name, global_scale).size != 1 or not is_floating(global_scale.dtype):
        raise ValueError(
            f"[{name}] a global scale must be one floating-point number, got shape "
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
        group_size: The number of elements that share a scale.
        bits: The number of bits per code.
        mode: The mode of quantisation.
        global_scale: What was given to `quantize`, for nvfp4.
        dtype: The dtype of the result. By default that of scales and biases; bfloat16 if the scales
            are codes themselves.
        stream: The stream or device to run on.
    """
    scheme = scheme_of("dequantize", mode, group_size, bits)
    check_quantized("dequantize", scheme, w, scales, biases)
    check_global_scale("dequantize", scheme, global_scale)
    if dtype is None:
        dtype = bfloat16 if biases is None else promote(scales.dtype, biases.dtype)
    elif not is_floating(dtype):
        raise ValueError(f"[dequantize] makes real floating-point numbers, not {dtype.name}.")
    parts = [part for part in (biases, global_scale) if part is not None]
    op = Dequantize(scheme.mode, scheme.group_size, scheme.bits, dtype)
    return composed(op, w, scales, *parts, stream=stream)


@dataclass(frozen=True)
class Dequantize(Composite):
    """`dequantize` as one node. Biases or a global scale may follow the scales."""

    mode: str
    group_size: int
    bits: int
    dtype: Dtype

    def infer(self, w: array, scales: array, *parts: array) -> tuple[Shape, Dtype]:
        return (*scales.shape[:-1], scales.shape[-1] * self.group_size), self.dtype

    def compose(self, w: array, scales: array, *parts: array) -> array:
        scheme = Scheme(self.mode, self.group_size, self.bits)
        part = parts[0] if parts else None
        biases, global_scale = (part, None) if scheme.affine else (None, part)
        return astype(numbers_of(scheme, w, scales, biases, global_scale), self.dtype)


def numbers_of(
    scheme: Scheme,
    w: array,
    scales: array,
    biases: array | None = None,
    global_scale: array | None = None,
) -> array:
    """The decoded numbers, in float32."""
    grouped = grouped_numbers(scheme, w, scales, biases, global_scale)
    return reshape(grouped, (*scales.shape[:-1], scales.shape[-1] * scheme.group_size))


def grouped_numbers(
    scheme: Scheme,
    w: array,
    scales: array,
    biases: array | None = None,
    global_scale: array | None = None,
) -> array:
    """The decoded numbers, (..., groups, chunks, codes), in float32."""
    if scheme.mode == "nvfp4":
        factors = from_fp8(scales, float32)
        unit = _unit(global_scale)
        factors = factors if unit is None else factors * unit
    elif scheme.affine:
        factors = astype(scales, float32)
    else:
        factors = power(2.0, astype(scales, float32) - float(_SCALE_OF_ONE))
    # The axes of groups stay separate, so that all of this is one loop.
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


def check_quantized(name: str, scheme: Scheme, w: Any, scales: Any, biases: Any) -> None:
    """Reject arrays that do not form one quantised matrix."""
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
            f"[{name}] scales and biases must be floating-point numbers, got "
            f"{scales.dtype.name} and {biases.dtype.name}."
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
