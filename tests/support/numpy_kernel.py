"""The kernel vocabulary in NumPy: a reading of graph/kernel.py to test `emit` rules with.

A value is an array of elements. Half types are computed in float32 and rounded after each word.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from ingot.graph.dtype import (
    Dtype,
    bfloat16,
    bool_,
    complex64,
    float16,
    from_numpy,
    is_inexact,
    is_integer,
    is_unsigned_integer,
)

__all__ = ["NumpyKernel"]

HALVES = (float16, bfloat16)


def _dtype(x: np.ndarray) -> Dtype:
    dtype = from_numpy(x.dtype)
    assert dtype is not None, x.dtype
    return dtype


def _word(function: Callable[..., Any], *, integers: bool = True) -> Callable[..., Any]:
    """A word of the vocabulary that is a function of NumPy; it wants operands of equal dtypes."""

    def word(_: NumpyKernel, *values: np.ndarray) -> np.ndarray:
        dtype = _dtype(values[0])
        assert all(_dtype(value) is dtype for value in values), [v.dtype for v in values]
        assert integers or is_inexact(dtype), f"{function.__name__} does not take {dtype}"
        if dtype in HALVES:
            wide = function(*(value.astype(np.float32) for value in values))
            return wide if wide.dtype == np.bool_ else wide.astype(dtype.numpy)
        return np.asarray(function(*values))

    return word


def _real_only(function: Callable[..., Any]) -> Callable[..., Any]:
    word = _word(function, integers=False)

    def checked(kernel: NumpyKernel, *values: np.ndarray) -> np.ndarray:
        assert _dtype(values[0]) is not complex64
        return word(kernel, *values)

    return checked


def _function(function: Callable[..., Any]) -> Callable[..., Any]:
    return _word(function, integers=False)


def _power(a: np.ndarray, b: np.ndarray) -> Any:
    if a.dtype.kind == "c":
        return np.exp(b * np.log(a))
    if a.dtype.kind == "i":
        return np.where(b < 0, a.dtype.type(0), np.power(a, np.where(b < 0, 0, b)))
    return np.power(a, b)


class NumpyKernel:
    """Implements `ingot.graph.kernel.Kernel` on arrays."""

    def constant(self, value: complex | bool, like: np.ndarray) -> np.ndarray:
        return np.full(like.shape, value, like.dtype)

    def cast(self, x: np.ndarray, dtype: Dtype) -> np.ndarray:
        if _dtype(x) is complex64 and dtype is bool_:
            return x != 0
        if _dtype(x) is complex64 and dtype is not complex64:
            x = x.real
        return x.astype(dtype.numpy)

    def dtype(self, x: np.ndarray) -> Dtype:
        return _dtype(x)

    add = _word(np.add)
    multiply = _word(np.multiply)
    maximum = _word(np.maximum)
    minimum = _word(np.minimum)
    # The sum of zeros is -0 only if both are.
    largest = _word(lambda a, b: np.where((a == b) & (a == 0), a + b, np.maximum(a, b)))
    smallest = _word(lambda a, b: np.where((a == b) & (a == 0), -(-a + -b), np.minimum(a, b)))
    divide = _function(np.divide)
    negative = _word(np.negative)
    absolute = _word(np.absolute)
    power = _word(_power)
    subtract = _word(np.subtract)

    def fused_multiply_add(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        assert a.dtype == b.dtype == c.dtype == np.float32
        return (a.astype(np.float64) * b + c).astype(np.float32)

    def bits(self, x: np.ndarray) -> np.ndarray:
        assert x.dtype == np.float32
        return x.view(np.uint32)

    def c_log(self, x: np.ndarray) -> np.ndarray:
        assert x.dtype == np.float32
        return np.log(x)

    def floor_divide(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert is_integer(_dtype(a))
        return np.floor_divide(a, b)

    def remainder(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert _dtype(a) not in (bool_, complex64)
        rest = NumpyKernel._remainder(self, a, b)
        return np.where(b == 0, a, rest) if a.dtype.kind in "iu" else rest

    _remainder = _word(np.remainder)

    equal = _word(np.equal)
    not_equal = _word(np.not_equal)
    less = _word(np.less)
    less_equal = _word(np.less_equal)
    greater = _word(np.greater)
    greater_equal = _word(np.greater_equal)

    def select(self, condition: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert condition.dtype == np.bool_
        assert a.dtype == b.dtype
        return np.where(condition, a, b)

    bitwise_and = _word(np.bitwise_and)
    bitwise_or = _word(np.bitwise_or)
    bitwise_xor = _word(np.bitwise_xor)
    bitwise_invert = _word(np.invert)

    def rotate_left(self, x: np.ndarray, count: int) -> np.ndarray:
        assert is_unsigned_integer(_dtype(x))
        width = 8 * x.itemsize
        assert 0 < count < width
        return x << x.dtype.type(count) | x >> x.dtype.type(width - count)

    def left_shift(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert is_integer(_dtype(a))
        inside = (b >= 0) & (b < 8 * a.itemsize)
        wide = a.astype(np.uint64) << np.where(inside, b, 0).astype(np.uint64)
        return np.where(inside, wide, 0).astype(a.dtype)

    def right_shift(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        assert is_integer(_dtype(a))
        inside = (b >= 0) & (b < 8 * a.itemsize)
        most = 8 * a.itemsize - 1
        wide = a if is_unsigned_integer(_dtype(a)) else a.astype(np.int64)
        shifted = wide >> np.where(inside, b, most).astype(wide.dtype)
        if is_unsigned_integer(_dtype(a)):
            shifted = np.where(inside, shifted, 0)
        return shifted.astype(a.dtype)

    floor = _real_only(np.floor)
    ceil = _real_only(np.ceil)
    round = _real_only(np.rint)
    exp = _function(np.exp)
    log = _function(np.log)
    log2 = _function(np.log2)
    log10 = _function(np.log10)
    log1p = _function(np.log1p)
    sqrt = _function(np.sqrt)
    rsqrt = _function(lambda x: 1 / np.sqrt(x))
    sin = _function(np.sin)
    cos = _function(np.cos)
    tan = _function(np.tan)
    arcsin = _function(np.arcsin)
    arccos = _function(np.arccos)
    arctan = _function(np.arctan)
    sinh = _function(np.sinh)
    cosh = _function(np.cosh)
    tanh = _function(np.tanh)
    arcsinh = _function(np.arcsinh)
    arccosh = _function(np.arccosh)
    arctanh = _function(np.arctanh)
    expm1 = _real_only(np.expm1)
    erf = _real_only(scipy.special.erf)
    erfinv = _real_only(scipy.special.erfinv)
    arctan2 = _real_only(np.arctan2)

    def real(self, x: np.ndarray) -> np.ndarray:
        assert _dtype(x) is complex64
        return x.real

    def imag(self, x: np.ndarray) -> np.ndarray:
        assert _dtype(x) is complex64
        return x.imag

    def conjugate(self, x: np.ndarray) -> np.ndarray:
        assert _dtype(x) is complex64
        return np.conjugate(x)

    def complex(self, real: np.ndarray, imag: np.ndarray) -> np.ndarray:
        assert real.dtype == imag.dtype == np.float32
        return real + np.complex64(1j) * imag
