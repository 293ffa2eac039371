"""Reductions: sums, products, all and any.

The ops keep the axes they reduce with length 1; the functions drop them unless `keepdims` is set.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ingot._native import Dtype, array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bool_,
    int8,
    int16,
    int32,
    is_complex,
    is_inexact,
    uint8,
    uint16,
    uint32,
)
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.complex_arithmetic import product
from ingot.graph.op import apply, zero_jvp, zero_vjp
from ingot.graph.roles import Reduce
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.internal.adjoints import Reduction, Sum, cached_op
from ingot.ops.internal.summation import in_order, reduced
from ingot.ops.reduce.axes import Axis, joined_axes, reduced_axes, without_axes
from ingot.ops.reduce.scan import cumprod

__all__ = ["all", "any", "prod", "sum"]


_float32 = np.dtype(np.float32)
_float64 = np.dtype(np.float64)
_bool = np.dtype(np.bool_)

# Sums and products of narrow integers accumulate in wider ones.
_WIDENED = {bool_: int32, int8: int32, int16: int32, uint8: uint32, uint16: uint32}


@dataclass(frozen=True)
class Prod(Reduction):
    """Product of elements that are converted to `dtype` first."""

    axes: tuple[int, ...]
    dtype: Dtype
    identity = 1

    def result_dtype(self, dtype: Dtype) -> Dtype:
        return self.dtype

    def depends_on_order(self) -> bool:
        return is_inexact(self.dtype)

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        target = self.dtype.numpy
        if not is_inexact(self.dtype):
            return reduced(x.astype(target, copy=False), self.axes, np.multiply)
        combine = product if is_complex(self.dtype) else np.multiply
        return in_order(x, self.axes, target, combine, 1)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent * conj(self.product_of_others(x)),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        terms = tangents[0] * self.product_of_others(x)
        return apply(Sum(self.axes, terms.dtype), terms)

    def product_of_others(self, x: array) -> array:
        """For each element the product of all others, without division, so that zeros
        are handled.
        """
        together, restore = joined_axes(astype(x, self.dtype), self.axes)
        before = cumprod(together, -1, inclusive=False)
        after = cumprod(together, -1, reverse=True, inclusive=False)
        return restore(before * after)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.multiply(a, b)


class _Logical(Reduction, abstract=True):
    """Shared by All and Any: zero is false."""

    def result_dtype(self, dtype: Dtype) -> Dtype:
        return bool_

    vjp = zero_vjp
    jvp = zero_jvp


@dataclass(frozen=True)
class All(_Logical):
    """Whether no element is zero."""

    axes: tuple[int, ...]
    identity = 1

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return reduced(x.astype(_bool, copy=False), self.axes, np.logical_and)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_and(a, b)


@dataclass(frozen=True)
class Any(_Logical):
    """Whether some element is not zero."""

    axes: tuple[int, ...]
    identity = 0

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return reduced(x.astype(_bool, copy=False), self.axes, np.logical_or)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_or(a, b)


def total(
    a: array, axes: tuple[int, ...], dtype: Dtype, keepdims: bool, stream: StreamLike
) -> array:
    """The sum over `axes` in `dtype`."""
    result = apply(cached_op(Sum, axes, dtype), a, stream=stream)
    return without_axes(result, axes, keepdims, stream)


def sum(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Sum of the elements.

    Args:
        a: An array.
        axis: The axis or axes to sum over; all if None.
        keepdims: Whether to keep these axes, with length 1.
        stream: The stream or device to run on.

    Returns:
        The sums, of integers narrower than 32 bits and bool in 32 bits.
    """
    axes = reduced_axes("sum", a, axis)
    if not axes:
        return wrap(a)
    return total(a, axes, _WIDENED.get(a.dtype, a.dtype), keepdims, stream)


def prod(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Product of the elements along the given axes; dtypes as for `sum`."""
    axes = reduced_axes("prod", a, axis)
    if not axes:
        return wrap(a)
    dtype = _WIDENED.get(a.dtype, a.dtype)
    return without_axes(
        apply(cached_op(Prod, axes, dtype), a, stream=stream), axes, keepdims, stream
    )


def all(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Whether all elements along the given axes are nonzero; true if there are none."""
    return _logical("all", All, a, axis, keepdims, stream)


def any(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Whether some element along the given axes is nonzero; false if there are none."""
    return _logical("any", Any, a, axis, keepdims, stream)


def _logical(
    name: str, kind: Callable[..., Reduce], a: array, axis: Axis, keepdims: bool, stream: StreamLike
) -> array:
    axes = reduced_axes(name, a, axis)
    if not axes:
        return astype(a, bool_, stream)
    return without_axes(apply(cached_op(kind, axes), a, stream=stream), axes, keepdims, stream)
