"""Statistics composed of reductions: means, variances, counts, whole-array comparisons, softmax.

There are no ops here: compositions are what the compiler can fuse. Half precision is computed in
float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ingot._native import Dtype, array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int32,
    int64,
    is_complex,
    is_inexact,
)
from ingot.graph.op import apply
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype, stop_gradient
from ingot.ops.elementwise.comparison import isclose, isfinite, isnan, where
from ingot.ops.elementwise.complex_numbers import conj, real
from ingot.ops.elementwise.exponential import exp, log
from ingot.ops.elementwise.powers import sqrt
from ingot.ops.elementwise.rounding import round
from ingot.ops.reduce.axes import Axis, as_int, reduced_axes, without_axes
from ingot.ops.reduce.extremes import Max
from ingot.ops.reduce.reduction import all, total
from ingot.ops.shape.creation import ones_like
from ingot.ops.shape.movement import as_array, require_array

__all__ = [
    "allclose",
    "array_equal",
    "count_nonzero",
    "logsumexp",
    "mean",
    "softmax",
    "std",
    "var",
]


def _floating(dtype: Dtype) -> Dtype:
    """The dtype of a floating-point result."""
    return dtype if is_inexact(dtype) else float32


def _work(dtype: Dtype) -> Dtype:
    """The dtype in which such a result is computed."""
    return float32 if dtype is float16 or dtype is bfloat16 else _floating(dtype)


def _count(a: array, axes: Sequence[int]) -> int:
    return prod(a.shape[axis] for axis in axes)


def mean(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Mean of the elements.

    Args:
        a: An array.
        axis: The axis or axes to average over; all if None.
        keepdims: Whether to keep these axes, with length 1.
        stream: The stream or device to run on.

    Returns:
        The means, of integers in float32; NaN where there are no elements.
    """
    axes = reduced_axes("mean", a, axis)
    if not axes:
        return astype(a, _floating(a.dtype), stream)
    if is_inexact(a.dtype):
        sums = total(a, axes, _work(a.dtype), keepdims, stream)
    else:
        sums = _integer_sums(a, axes, keepdims, stream)
    return astype(sums / _count(a, axes), _floating(a.dtype), stream)


def _integer_sums(a: array, axes: tuple[int, ...], keepdims: bool, stream: StreamLike) -> array:
    """Sums of integers without rounding or overflow, those of 64 bits rounded once to float64."""
    if a.itemsize == 8:
        return _sums_beyond_64_bits(a, axes, keepdims, stream)
    count = _count(a, axes)
    # A length that varies is not an int: int64 holds 2^31 elements of 32 bits.
    fits = type(count) is int and count << 8 * a.itemsize < 1 << 31
    return total(a, axes, int32 if fits else int64, keepdims, stream)


def _sums_beyond_64_bits(
    a: array, axes: tuple[int, ...], keepdims: bool, stream: StreamLike
) -> array:
    """Sums of 64-bit integers in float64: those modulo 2^64, and the multiple of 2^64 that brings
    them closest to a sum of floats, whose error is far smaller.
    """
    wrapped = astype(total(a, axes, a.dtype, keepdims, stream), float64, stream)
    near = total(stop_gradient(a, stream=stream), axes, float64, keepdims, stream)
    wraps = round((near - stop_gradient(wrapped, stream=stream)) * 2.0**-64, stream=stream)
    return wrapped + wraps * 2.0**64


def var(
    a: array,
    /,
    axis: Axis = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    correction: int | None = None,
    stream: StreamLike = None,
) -> array:
    """Variance of the elements.

    Args:
        a: An array.
        axis: The axis or axes to take together; all if None.
        keepdims: Whether to keep these axes, with length 1.
        ddof: The sum of squares is divided by the number of elements less `ddof`.
        correction: Another name for `ddof`, which it replaces if given.
        stream: The stream or device to run on.

    Returns:
        The variances: real for complex arrays, float32 for integers.
    """
    variance = _variance("var", a, axis, keepdims, ddof, correction, stream)
    return _narrowed(variance, a, stream)


def std(
    a: array,
    /,
    axis: Axis = None,
    keepdims: bool = False,
    ddof: int = 0,
    *,
    correction: int | None = None,
    stream: StreamLike = None,
) -> array:
    """Standard deviation of the elements, the root of their variance; arguments as for `var`."""
    variance = _variance("std", a, axis, keepdims, ddof, correction, stream)
    return _narrowed(sqrt(variance, stream=stream), a, stream)


def _narrowed(result: array, a: array, stream: StreamLike) -> array:
    """A real result computed in `_work(a.dtype)`, in the dtype that `a` implies."""
    return astype(result, float32 if is_complex(a.dtype) else _floating(a.dtype), stream)


def _variance(
    name: str,
    a: array,
    axis: Axis,
    keepdims: bool,
    ddof: int,
    correction: int | None,
    stream: StreamLike,
) -> array:
    axes = reduced_axes(name, a, axis)
    freedom = as_int(name, "ddof", ddof if correction is None else correction)
    # Two passes: the mean of squares minus the square of the mean would cancel.
    wide = astype(a, _work(a.dtype), stream)
    deviation = wide - mean(wide, axes, True, stream=stream)
    squares = deviation * (conj(deviation))
    if is_complex(a.dtype):
        squares = real(squares, stream=stream)
    if axes:
        squares = total(squares, axes, squares.dtype, keepdims, stream)
    return squares / max(_count(a, axes) - freedom, 0)


def count_nonzero(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Number of elements that are not zero along the given axes, as int32."""
    axes = reduced_axes("count_nonzero", a, axis)
    nonzero = a if a.dtype is bool_ else a != 0
    if not axes:
        return astype(nonzero, int32, stream)
    return total(nonzero, axes, int32, keepdims, stream)


def allclose(
    a: array,
    b: array,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    *,
    equal_nan: bool = False,
    stream: StreamLike = None,
) -> array:
    """Whether all elements are as close as `isclose` asks for, as one bool."""
    close = isclose(a, b, rtol, atol, equal_nan=equal_nan, stream=stream)
    return all(close, stream=stream)


def array_equal(a: Any, b: Any, /, *, equal_nan: bool = False, stream: StreamLike = None) -> array:
    """Whether two arrays have the same shape and equal elements, as one bool.

    Args:
        a: An array or a number.
        b: An array or a number.
        equal_nan: Whether NaN counts as equal to NaN.
        stream: The stream or device to run on.
    """
    left, right = as_array("array_equal", a), as_array("array_equal", b)
    if left.shape != right.shape:
        return array(False)
    same = left == right
    if equal_nan:
        same = same | (isnan(left, stream=stream) & isnan(right, stream=stream))
    return all(same, stream=stream)


def _axes_or_value_error(name: str, a: array, axis: Axis) -> tuple[int, ...]:
    """Like `reduced_axes`, but raises ValueError for an axis of a 0-d array."""
    if a.ndim == 0 and axis not in (None, (), []):
        raise ValueError(f"[{name}] an array without axes has no axis {axis}.")
    return reduced_axes(name, a, axis)


def logsumexp(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Logarithm of the sum of exponentials, without overflow.

    Args:
        a: An array with elements.
        axis: The axis or axes to sum over; all if None.
        keepdims: Whether to keep these axes, with length 1.
        stream: The stream or device to run on.
    """
    if require_array("logsumexp", a).size == 0:
        raise ValueError(
            f"[logsumexp] cannot add up no elements: shape {shape_text(a.shape)} is empty."
        )
    axes = _axes_or_value_error("logsumexp", a, axis)
    if not axes:
        return astype(a, _floating(a.dtype), stream)
    wide = astype(a, _work(a.dtype), stream)
    largest = apply(Max(axes), stop_gradient(wide, stream=stream), stream=stream)
    # An infinite shift would turn infinities into NaN.
    shift = where(isfinite(largest, stream=stream), largest, 0)
    sums = total(exp(wide - shift, stream=stream), axes, wide.dtype, True, stream)
    result = astype(log(sums, stream=stream) + shift, _floating(a.dtype), stream)
    return without_axes(result, axes, keepdims, stream)


def softmax(
    a: array,
    /,
    axis: Axis = None,
    *,
    precise: bool = False,
    stream: StreamLike = None,
) -> array:
    """Exponentials divided by their sum.

    Args:
        a: An array.
        axis: The axis or axes along which the results add up to one; all if None.
        precise: Whether half precision is computed in float32; here it always is.
        stream: The stream or device to run on.
    """
    if require_array("softmax", a).size == 0:
        return wrap(a)
    axes = _axes_or_value_error("softmax", a, axis)
    if not axes:
        return ones_like(a, stream=stream)
    wide = astype(a, _work(a.dtype), stream)
    largest = apply(Max(axes), stop_gradient(wide, stream=stream), stream=stream)
    powers = exp(wide - largest, stream=stream)
    shares = powers / total(powers, axes, wide.dtype, True, stream)
    return astype(shares, _floating(a.dtype), stream)
