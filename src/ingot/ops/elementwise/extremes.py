"""Elementwise maximum and minimum, clipping, and replacement of NaN and infinities."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, float16, float32, is_inexact
from ingot.graph.op import Partial
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import lift
from ingot.ops.elementwise.casting import as_array, astype, only_array
from ingot.ops.elementwise.comparison import isnan, isneginf, isposinf, where

__all__ = ["clip", "maximum", "minimum", "nan_to_num"]

# Finite replacements of infinities: MLX has them for these dtypes only.
LARGEST = {float16: 65504.0, bfloat16: 2.0**128 - 2.0**120, float32: 2.0**128 - 2.0**104}


class Maximum(Elementary):
    """The larger of two elements; NaN if either is."""

    name = "maximum"
    arity = 2
    function = np.maximum

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return lambda: x > y, lambda: x <= y

    def interval(self, x: Any, y: Any) -> tuple[int, int] | None:
        return None if x is None or y is None else (max(x[0], y[0]), max(x[1], y[1]))


class Minimum(Elementary):
    """The smaller of two elements; NaN if either is."""

    name = "minimum"
    arity = 2
    function = np.minimum

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return lambda: x < y, lambda: x >= y

    def interval(self, x: Any, y: Any) -> tuple[int, int] | None:
        return None if x is None or y is None else (min(x[0], y[0]), min(x[1], y[1]))


_maximum = lift(Maximum())
_minimum = lift(Minimum())


def maximum(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """The larger of the elements of `a` and `b`; NaN where one of them is.

    Args:
        a: An array or a number.
        b: An array or a number; the two broadcast against each other.
        stream: The stream or device to run on.

    Returns:
        The maxima; where the operands are equal, derivatives flow to `b`.
    """
    return _maximum(a, b, stream)


def minimum(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """The smaller of the elements of `a` and `b`; NaN where one of them is."""
    return _minimum(a, b, stream)


def clip(a: array, /, a_min: Any, a_max: Any, *, stream: StreamLike = None) -> array:
    """Elements clamped to the limits.

    Args:
        a: The array.
        a_min: The lower limit, an array or a number; None for no limit.
        a_max: The upper limit, which wins where it is below the lower one; None for no limit.
        stream: The stream or device to run on.

    Returns:
        The limited elements, in the dtype that all operands promote to.
    """
    only_array("clip", a)
    if a_min is None and a_max is None:
        raise ValueError("[clip] a_min and a_max cannot both be None: there would be no limit.")
    if a_min is not None:
        a = _maximum(a, a_min, stream)
    if a_max is not None:
        a = _minimum(a, a_max, stream)
    return a


def nan_to_num(
    a: Any,
    /,
    nan: float = 0,
    posinf: float | None = None,
    neginf: float | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """Elements with NaN and infinities replaced by finite numbers.

    Args:
        a: An array or a number.
        nan: What replaces NaN.
        posinf: What replaces infinity; by default the largest finite number of the dtype, which
            float64 and complex64 do not have.
        neginf: What replaces negative infinity; by default the lowest finite number, likewise.
        stream: The stream or device to run on.

    Returns:
        An array of the same dtype.
    """
    value = as_array("nan_to_num", a)
    if not is_inexact(value.dtype):
        return wrap(value)
    if value.dtype not in LARGEST and (posinf is None or neginf is None):
        raise ValueError(
            f"[nan_to_num] needs posinf and neginf for arrays of dtype {value.dtype}, "
            "for which there are no defaults."
        )
    above = LARGEST[value.dtype] if posinf is None else posinf
    below = -LARGEST[value.dtype] if neginf is None else neginf
    finite = where(isnan(value, stream=stream), nan, value, stream=stream)
    finite = where(isposinf(value, stream=stream), above, finite, stream=stream)
    finite = where(isneginf(value, stream=stream), below, finite, stream=stream)
    return astype(finite, value.dtype, stream)
