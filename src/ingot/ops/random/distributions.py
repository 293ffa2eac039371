"""Continuous distributions: random bits, transformed by ordinary ops.

Input: a key (by default the next one of the state) and the parameters of a distribution. Output:
the same numbers as MLX's for the same key. Derivatives flow to the parameters through the ops that
apply them; the bits have none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.arrays.construct import scalar
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bfloat16,
    complex64,
    float16,
    float32,
    float64,
    is_floating,
    is_inexact,
)
from ingot.graph.errors import type_name
from ingot.graph.shape import Shape, as_lengths, as_shape, broadcast_shapes, shape_text
from ingot.ops.elementwise.arithmetic import abs, add, divide, multiply, negative, sign, subtract
from ingot.ops.elementwise.casting import as_array, astype, view
from ingot.ops.elementwise.extremes import maximum, minimum
from ingot.ops.random.bits import random_bits
from ingot.ops.random.functions import (
    matching_erf,
    matching_erfinv,
    matching_log,
    matching_log1p,
    matching_product,
)
from ingot.ops.random.state import key_or_next
from ingot.ops.shape.movement import squeeze

__all__ = ["gumbel", "laplace", "normal", "truncated_normal", "uniform"]

_BELOW_ONE = {float32: 1 - 2.0**-24, float16: 1 - 2.0**-11, bfloat16: 1 - 2.0**-8}
_ABOVE_MINUS_ONE = -_BELOW_ONE[float32]
_FROM_MINUS_ONE_TO_ONE = 2.0  # 1 - _ABOVE_MINUS_ONE, rounded to float32


def checked_shape(name: str, shape: Sequence[int]) -> Shape:
    """A user's shape, which is not a single int, as a tuple of nonnegative lengths."""
    return as_shape(name, [+length for length in as_lengths(name, shape)])  # a bool becomes an int


def checked_dtype(name: str, dtype: Dtype | None, default: Dtype = float32) -> Dtype:
    """A user's dtype, or the default for None."""
    if dtype is None:
        return default
    if not isinstance(dtype, Dtype):
        raise TypeError(f"[{name}] takes a dtype such as mx.float32, got {type_name(dtype)}.")
    return dtype


def _real_dtype(name: str, dtype: Dtype | None) -> Dtype:
    found = checked_dtype(name, dtype)
    if not is_floating(found):
        raise ValueError(
            f"[{name}] makes real numbers of a floating-point dtype, not of {found.name}."
        )
    return found


def _uniform_dtype(name: str, dtype: Dtype | None) -> Dtype:
    found = _real_dtype(name, dtype)
    if found is float64:
        raise RuntimeError(
            f"[{name}] makes its numbers of 32 bits, too few for float64: cast float32 ones."
        )
    return found


def check_fit(name: str, shape: Shape, *parameters: array) -> None:
    """ValueError unless the parameters broadcast to `shape`."""
    found = broadcast_shapes(name, shape, *(parameter.shape for parameter in parameters))
    if found != shape:
        raise ValueError(
            f"[{name}] parameters of shape {shape_text(found)} do not fit into the shape "
            f"{shape_text(shape)} that is asked for: give shape={shape_text(found)}."
        )


def _fractions(key: array, shape: Shape, dtype: Dtype, stream: StreamLike) -> array:
    """Uniform numbers in [0, 1)."""
    words = astype(random_bits(key, shape, stream), float32, stream)
    # The bits as a float32 may be 2^32, and a number below 1 may round to 1 in a half type.
    inside = minimum(multiply(words, 2.0**-32, stream=stream), _BELOW_ONE[dtype], stream=stream)
    return astype(inside, dtype, stream)


def between(
    key: array, low: array, high: array, shape: Shape, dtype: Dtype, stream: StreamLike
) -> array:
    """Uniform numbers in [low, high), which have the dtype and fit the shape."""
    fractions = _fractions(key, shape, dtype, stream)
    scaled = matching_product(_rounded(subtract, high, low, stream), fractions, stream)
    return _rounded(add, scaled, low, stream)


def _rounded(function: Callable[..., array], x: array, y: array, stream: StreamLike) -> array:
    """A function of numbers of one dtype, rounded to it: native code keeps half types
    in float32.
    """
    dtype = x.dtype
    if dtype is float64:
        return function(x, y, stream=stream)
    wide = function(astype(x, float32, stream), astype(y, float32, stream), stream=stream)
    return astype(wide, dtype, stream)


def _symmetric(key: array, shape: Shape, stream: StreamLike) -> array:
    """Uniform float32 numbers in (-1, 1), for inverse distribution functions."""
    doubled = multiply(
        _fractions(key, shape, float32, stream), _FROM_MINUS_ONE_TO_ONE, stream=stream
    )
    return add(doubled, _ABOVE_MINUS_ONE, stream=stream)


def uniform(
    low: Any = 0,
    high: Any = 1,
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Numbers from `low` up to `high`, all equally likely; `high` itself is not one of them.

    Args:
        low: A number or an array that broadcasts to `shape`.
        high: A number or an array that broadcasts to `shape`.
        shape: The shape of the result.
        dtype: float32, float16 or bfloat16.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    lengths = checked_shape("uniform", shape)
    wanted = _uniform_dtype("uniform", dtype)
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and (low, high) == (0, 1):
        return _fractions(key_or_next("uniform", key), lengths, wanted, stream)
    start, end = (astype(as_array("uniform", bound), wanted, stream) for bound in (low, high))
    check_fit("uniform", lengths, start, end)
    return between(key_or_next("uniform", key), start, end, lengths, wanted, stream)


def normal(
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    loc: Any = None,
    scale: Any = None,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Normally distributed numbers. Of complex ones, each part has the variance 1/2.

    Args:
        shape: The shape of the result, unless those of `loc` and `scale` broadcast it to another.
        dtype: A floating-point dtype or complex64.
        loc: The mean, a number or an array; by default 0.
        scale: The standard deviation, a number or an array; by default 1.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    lengths = checked_shape("normal", shape)
    wanted = checked_dtype("normal", dtype)
    if not is_inexact(wanted):
        raise ValueError(
            f"[normal] makes numbers of a floating-point dtype or complex64, not of {wanted.name}."
        )
    mean = None if loc is None else _parameter("normal", loc, wanted)
    deviation = None if scale is None else _parameter("normal", scale, wanted)
    used = key_or_next("normal", key)
    if wanted is complex64:
        parts = matching_erfinv(_symmetric(used, (*lengths, 2), stream), stream)
        samples = squeeze(view(parts, complex64, stream=stream), -1, stream=stream)
        if deviation is not None:
            samples = multiply(deviation, samples, stream=stream)
        return samples if mean is None else add(mean, samples, stream=stream)
    samples = astype(matching_erfinv(_symmetric(used, lengths, stream), stream), wanted, stream)
    factor = scalar(sqrt(2), wanted)
    if deviation is not None:
        factor = multiply(factor, astype(deviation, wanted, stream), stream=stream)
    samples = matching_product(factor, samples, stream)
    return samples if mean is None else _rounded(add, astype(mean, wanted, stream), samples, stream)


def _parameter(name: str, value: Any, dtype: Dtype) -> array:
    """A user's parameter as an array, in full precision for float64."""
    found = as_array(name, value)
    return array(value, float64) if dtype is float64 and found is not value else found


def truncated_normal(
    lower: Any,
    upper: Any,
    shape: Sequence[int] | None = None,
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Normally distributed numbers of which only those between two bounds are taken.

    Args:
        lower: The lower bound, a number or an array that broadcasts to `shape`.
        upper: The upper bound, likewise.
        shape: The shape of the result; by default that to which the bounds broadcast.
        dtype: float32, float16 or bfloat16.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    wanted = _uniform_dtype("truncated_normal", dtype)
    low, high = (
        astype(as_array("truncated_normal", bound), wanted, stream) for bound in (lower, upper)
    )
    if shape is None:
        lengths = broadcast_shapes("truncated_normal", low.shape, high.shape)
    else:
        lengths = checked_shape("truncated_normal", shape)
        check_fit("truncated_normal", lengths, low, high)
    root = scalar(sqrt(2), wanted)
    used = key_or_next("truncated_normal", key)
    start, end = (matching_erf(divide(bound, root, stream=stream), stream) for bound in (low, high))
    samples = matching_erfinv(between(used, start, end, lengths, wanted, stream), stream)
    samples = matching_product(root, samples, stream)
    return maximum(minimum(high, samples, stream=stream), low, stream=stream)


def laplace(
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    loc: float = 0.0,
    scale: float = 1.0,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Numbers of the Laplace distribution.

    Args:
        shape: The shape of the result.
        dtype: A floating-point dtype.
        loc: The mean, a number.
        scale: The scale, a number.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    lengths = checked_shape("laplace", shape)
    wanted = _real_dtype("laplace", dtype)
    mean, factor = _number("laplace", loc), _number("laplace", scale)
    samples = _symmetric(key_or_next("laplace", key), lengths, stream)
    distance = abs(samples, stream=stream)
    if wanted is float64:
        distance = astype(distance, float64, stream)
    logarithm = matching_log1p(negative(distance, stream=stream), stream)
    samples = multiply(sign(samples, stream=stream), logarithm, stream=stream)
    samples = astype(samples, wanted, stream)
    if factor != 1:
        samples = matching_product(scalar(factor, wanted), samples, stream)
    return samples if mean == 0 else _rounded(add, scalar(mean, wanted), samples, stream)


def gumbel(
    shape: Sequence[int] = (),
    dtype: Dtype | None = float32,
    key: array | None = None,
    stream: StreamLike = None,
) -> array:
    """Numbers of the standard Gumbel distribution, whose distribution function is exp(-exp(-x)).

    Args:
        shape: The shape of the result.
        dtype: float32, float16 or bfloat16.
        key: A key; by default the next one of the state.
        stream: The stream or device to run on.
    """
    lengths = checked_shape("gumbel", shape)
    wanted = _uniform_dtype("gumbel", dtype)
    return gumbel_noise(key_or_next("gumbel", key), lengths, wanted, stream)


def gumbel_noise(key: array, shape: Shape, dtype: Dtype, stream: StreamLike) -> array:
    """The implementation of `gumbel`, for checked arguments."""
    fractions = _fractions(key, shape, dtype, stream)
    inner = negative(matching_log(fractions, stream), stream=stream)
    return negative(matching_log(inner, stream), stream=stream)


def _number(name: str, value: Any) -> float:
    """A user's number, rounded to float32 as MLX takes it."""
    if isinstance(value, (str, complex)):
        raise TypeError(f"[{name}] takes real numbers, got {value!r}.")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"[{name}] takes real numbers, got {value!r}.") from None
    with np.errstate(over="ignore"):
        return float(np.float32(number))
