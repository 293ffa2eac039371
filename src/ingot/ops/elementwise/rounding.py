"""Rounding to whole numbers and decimals, element by element. Integers are whole already."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

from ingot._native import Dtype, array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, float32, float64, is_inexact
from ingot.graph.kernel import Kernel, Value
from ingot.graph.op import Partial
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import REAL, lift
from ingot.ops.elementwise.casting import as_array, astype, only_array
from ingot.ops.elementwise.comparison import where

__all__ = ["ceil", "floor", "round", "trunc"]


class Rounding(Elementary, abstract=True):
    """Ops that round to whole numbers: piecewise constant, so without a derivative."""

    def is_no_op(self, *inputs: Any) -> bool:
        return not is_inexact(inputs[0].dtype)

    def evaluate(self, *inputs: np.ndarray) -> Any:
        return inputs[0] if inputs[0].dtype.kind in "biu" else super().evaluate(*inputs)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (None,)

    def emit(self, k: Kernel, *values: Value) -> Value:
        return super().emit(k, *values) if is_inexact(k.dtype(values[0])) else values[0]


class Floor(Rounding):
    """The next whole number below."""

    name = "floor"
    accepts = REAL
    function = np.floor


class Ceil(Rounding):
    """The next whole number above."""

    name = "ceil"
    accepts = REAL
    function = np.ceil


class Round(Rounding):
    """The nearest whole number, ties to even; both parts of complex numbers are rounded."""

    name = "round"
    function = np.rint

    def emit(self, k: Kernel, *values: Value) -> Value:
        x = values[0]
        if k.dtype(x) is complex64:
            return k.complex(k.round(k.real(x)), k.round(k.imag(x)))
        return super().emit(k, x)


_floor = lift(Floor())
_ceil = lift(Ceil())
_round = lift(Round())


def floor(a: Any, /, *, stream: StreamLike = None) -> array:
    """The next whole number below each element, in its dtype."""
    return _floor(a, stream)


def ceil(a: Any, /, *, stream: StreamLike = None) -> array:
    """The next whole number above each element, in its dtype."""
    return _ceil(a, stream)


def trunc(a: array, /, *, stream: StreamLike = None) -> array:
    """The next whole number toward zero of each element, in its dtype."""
    only_array("trunc", a)
    if a.dtype is complex64:
        raise ValueError(f"[trunc] does not take arrays of dtype {a.dtype.name}.")
    if not is_inexact(a.dtype):
        return wrap(a)
    return where(a < 0, _ceil(a, stream), _floor(a, stream), stream=stream)


MAX_PLACES = 300  # powers of ten that a float can represent


def round(a: Any, /, decimals: int = 0, *, stream: StreamLike = None) -> array:
    """Elements rounded to a number of decimals, ties to even.

    Args:
        a: An array or a number.
        decimals: How many decimals to keep; negative: how many positions before the point to clear.
        stream: The stream or device to run on.

    Returns:
        The rounded elements, in the dtype of `a`.
    """
    try:
        positions = index(decimals)
    except TypeError:
        raise TypeError(
            f"[round] decimals must be an int, got {type(decimals).__name__} {decimals!r}."
        ) from None
    value = as_array("round", a)
    positions = max(-MAX_PLACES, min(positions, MAX_PLACES))
    if positions == 0:
        return _round(value, stream)
    whole = not is_inexact(value.dtype)
    if positions > 0 and whole:
        return wrap(value)
    wide = astype(value, _wide(value.dtype), stream) if whole else value
    if positions > 0:
        scale = 10.0**positions
        rounded = _round(wide * scale, stream) / scale
    else:
        scale = 10.0**-positions
        rounded = _round(wide / scale, stream) * scale
    return astype(rounded, value.dtype, stream)


def _wide(dtype: Dtype) -> Dtype:
    """A floating-point dtype that holds integers of `dtype` (64-bit ones only below 2**53)."""
    return float64 if dtype.size >= 4 else float32
