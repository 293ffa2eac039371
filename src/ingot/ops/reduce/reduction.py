"""Reductions: sums, products, extremes and their positions, all and any.

The ops keep the axes they reduce with length 1; the functions drop them unless `keepdims` is set.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import index

import ml_dtypes
import numpy as np

from ingot._native import Dtype, array, make, wrap
from ingot.graph.casts import converted
from ingot.graph.complex_arithmetic import product
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
from ingot.graph.op import Op, apply
from ingot.graph.roles import Host, Reduce
from ingot.graph.shape import Shape, normalize_axes, normalize_axis, shape_text, size_of
from ingot.ops.elementwise.casting import AsType, astype
from ingot.ops.index.along_axis import take_along_axis
from ingot.ops.internal.positions import Positions
from ingot.ops.internal.ranks import Ranked, RankedPlace
from ingot.ops.internal.summation import extreme, ordered_reduction
from ingot.ops.shape.movement import Broadcast, Reshape, require_array, reshape, transpose

__all__ = ["all", "any", "argmax", "argmin", "max", "min", "prod", "sum"]

Axis = int | Sequence[int] | None

_bfloat16 = np.dtype(ml_dtypes.bfloat16)
_float32 = np.dtype(np.float32)
_float64 = np.dtype(np.float64)
_bool = np.dtype(np.bool_)

# Sums and products of narrow integers are made in wider ones.
_WIDENED = {bool_: int32, int8: int32, int16: int32, uint8: uint32, uint16: uint32}


def work_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which elements of `dtype` are computed: half precision is widened."""
    return _float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def without_bfloat16(x: np.ndarray) -> np.ndarray:
    """The same values in a dtype that NumPy knows itself: with bfloat16 it is slow, or wrong."""
    return x.astype(_float32) if x.dtype == _bfloat16 else x


def _in_order(
    x: np.ndarray,
    axes: tuple[int, ...],
    target: np.dtype,
    combine: Callable[..., np.ndarray],
    start: int,
) -> np.ndarray:
    """Floating-point elements, converted to the dtype `target`, combined in the one order."""
    work = work_dtype(target)
    total = _float64 if combine is np.add and work == _float32 else work
    if x.dtype != target:
        x = converted(x, target)
    found = ordered_reduction(x.astype(work, copy=False), axes, combine, start, total)
    return found.astype(work, copy=False).astype(target, copy=False)


class _Reduction(Reduce, abstract=True):
    """What all reductions here share."""

    def expanded(self, build: Callable[..., typing.Any], x: typing.Any) -> typing.Any | None:
        if math.prod(x.shape[axis] for axis in self.axes) != 1:
            return None
        return build(AsType(self.result_dtype(x.dtype)), x)  # each element by itself


@dataclass(frozen=True)
class Sum(_Reduction):
    """Sum of elements that are converted to `dtype` first."""

    axes: tuple[int, ...]
    dtype: Dtype
    identity = 0
    sums = True

    def result_dtype(self, dtype: Dtype) -> Dtype:
        return self.dtype

    def depends_on_order(self) -> bool:
        return is_inexact(self.dtype)

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if not is_inexact(self.dtype):
            return np.add.reduce(x, self.axes, self.dtype.numpy, keepdims=True)
        return _in_order(x, self.axes, self.dtype.numpy, np.add, 0)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array | None]:
        if not is_inexact(x.dtype):
            return (None,)
        shape = x.shape
        return (make(Broadcast(shape), (astype(cotangent, x.dtype),), shape, x.dtype),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0])

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.add(a, b)


@dataclass(frozen=True)
class Prod(_Reduction):
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
            return np.multiply.reduce(x, self.axes, target, keepdims=True)
        combine = product if is_complex(self.dtype) else np.multiply
        return _in_order(x, self.axes, target, combine, 1)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array | None]:
        if not is_inexact(x.dtype):
            return (None,)
        others = self.product_of_others(x)
        return (cotangent * (others.conj() if is_complex(x.dtype) else others),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        return apply(Sum(self.axes, self.dtype), tangents[0] * self.product_of_others(x))

    def product_of_others(self, x: array) -> array:
        """For each element the product of all others; no division, so zeros are right."""
        together, restore = joined_axes(x, self.axes)
        before = together.cumprod(-1, inclusive=False)
        after = together.cumprod(-1, reverse=True, inclusive=False)
        return restore(before * after)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.multiply(a, b)


def joined_axes(x: array, axes: tuple[int, ...]) -> tuple[array, Callable[[array], array]]:
    """`x` with the given axes moved to the end and joined into one, and the way back."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = kept + axes
    moved = transpose(x, order)
    lengths = moved.shape
    joined = reshape(moved, (*lengths[: len(kept)], math.prod(lengths[len(kept) :])))
    inverse = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return joined, lambda y: transpose(reshape(y, lengths), inverse)


class _Extreme(_Reduction, abstract=True):
    """What Max and Min share."""

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array | None]:
        if not is_inexact(x.dtype):
            return (None,)
        # Elements that tie share the cotangent.
        hits = x == out
        count = apply(Sum(self.axes, x.dtype), hits)
        return (hits * (cotangent / count),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        joined, _ = joined_axes(x, self.axes)
        moving, _ = joined_axes(tangents[0], self.axes)
        place = apply(self.place(joined.ndim - 1), joined)
        return reshape(take_along_axis(moving, place, -1), out.shape)

    place: Callable[[int], ArgReduce]  # the op that finds where the extreme along an axis is


@dataclass(frozen=True)
class Max(_Extreme):
    """Largest element; NaN if there is one."""

    axes: tuple[int, ...]
    identity = -math.inf

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = extreme(without_bfloat16(x), self.axes, np.maximum)
        return found.astype(x.dtype, copy=False)

    def place(self, axis: int) -> ArgReduce:
        return ArgMax(axis)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.largest(a, b)


@dataclass(frozen=True)
class Min(_Extreme):
    """Smallest element; NaN if there is one."""

    axes: tuple[int, ...]
    identity = math.inf

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = extreme(without_bfloat16(x), self.axes, np.minimum)
        return found.astype(x.dtype, copy=False)

    def place(self, axis: int) -> ArgReduce:
        return ArgMin(axis)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.smallest(a, b)


class _Logical(_Reduction, abstract=True):
    """What All and Any share: elements count as false where they are zero."""

    def result_dtype(self, dtype: Dtype) -> Dtype:
        return bool_

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[None]:
        return (None,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> None:
        return None


@dataclass(frozen=True)
class All(_Logical):
    """Whether no element is zero."""

    axes: tuple[int, ...]
    identity = 1

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.logical_and.reduce(x.astype(_bool, copy=False), self.axes, keepdims=True)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_and(a, b)


@dataclass(frozen=True)
class Any(_Logical):
    """Whether some element is not zero."""

    axes: tuple[int, ...]
    identity = 0

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.logical_or.reduce(x.astype(_bool, copy=False), self.axes, keepdims=True)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_or(a, b)


class ArgReduce(Host, abstract=True):
    """Positions of extremes along `axis`, which stays with length 1; of equal ones the first."""

    axis: int

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return (*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :]), uint32

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[None]:
        return (None,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> None:
        return None

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        shifted: ArgReduce = replace(typing.cast(typing.Any, self), axis=self.axis + 1)
        return apply(shifted, x)

    largest: typing.ClassVar[bool]  # or the smallest
    why_host = "its elements and their positions do not fit into 64 bits together"

    def expanded(self, build: Callable[..., typing.Any], x: typing.Any) -> typing.Any | None:
        if x.dtype.size > 4 or size_of(x.shape) == 0:
            return None
        places = build(Positions(x.shape, (self.axis,), uint32))
        ranks = build(Ranked(self.largest), x, places)
        return build(RankedPlace(), build(Max((self.axis,)), ranks))


@dataclass(frozen=True)
class ArgMax(ArgReduce):
    """Position of the largest element, or of the first NaN."""

    axis: int
    largest = True

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.argmax(x, self.axis, keepdims=True).astype(np.uint32)


@dataclass(frozen=True)
class ArgMin(ArgReduce):
    """Position of the smallest element, or of the first NaN."""

    axis: int
    largest = False

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.argmin(x, self.axis, keepdims=True).astype(np.uint32)


@lru_cache(maxsize=4096)
def _op(kind: Callable[..., Op], *parameters: Hashable) -> Op:
    """An op by class and parameters: programs reduce the same axes again and again."""
    return kind(*parameters)


def as_int(name: str, what: str, value: int) -> int:
    """A user's int; `name` and `what` it stands for are what the error sentence blames."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"[{name}] {what} must be an int, got {value!r}.") from None


def reduced_axes(name: str, a: array, axis: Axis) -> tuple[int, ...]:
    """The axes that a user's `axis` names, sorted; checks that `a` is an array."""
    ndim = require_array(name, a).ndim
    if axis is None or type(axis) is int:
        return _usual_axes(name, axis, ndim)
    return normalize_axes(name, axis, ndim)


# One axis or all, the usual cases, in a tenth of the time.
_usual_axes = lru_cache(maxsize=1024)(normalize_axes)


def without_axes(a: array, axes: tuple[int, ...], keepdims: bool, stream: StreamLike) -> array:
    """A result of a reduction, with the reduced axes removed unless they are to be kept."""
    if keepdims:
        return a
    lengths = list(a.shape)
    for axis in reversed(axes):
        del lengths[axis]
    shape = tuple(lengths)
    return make(Reshape(shape), (a,), shape, a.dtype, stream)


def flattened(a: array, stream: StreamLike) -> array:
    """The elements along one axis."""
    shape = (a.size,)
    return make(Reshape(shape), (a,), shape, a.dtype, stream)


def total(
    a: array, axes: tuple[int, ...], dtype: Dtype, keepdims: bool, stream: StreamLike
) -> array:
    """The sum over `axes` in `dtype`."""
    result = apply(_op(Sum, axes, dtype), a, stream=stream)
    return without_axes(result, axes, keepdims, stream)


def sum_kept(a: array, axes: tuple[int, ...]) -> array:
    """The sum over `axes` (sorted), which stay with length 1: `array._sum_kept`, for rules."""
    dtype = a.dtype
    lengths = list(a.shape)
    for axis in axes:
        lengths[axis] = 1
    return make(_op(Sum, axes, dtype), (a,), tuple(lengths), dtype)


def sum(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Sum of the elements.

    Args:
        a: An array.
        axis: The axis or axes to sum over; all if None.
        keepdims: Whether these axes stay, with length 1.
        stream: Where the work belongs.

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
    return without_axes(apply(_op(Prod, axes, dtype), a, stream=stream), axes, keepdims, stream)


def max(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Largest element along the given axes; NaN where there is one."""
    return _extreme("max", Max, a, axis, keepdims, stream)


def min(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Smallest element along the given axes; NaN where there is one."""
    return _extreme("min", Min, a, axis, keepdims, stream)


def _extreme(
    name: str, kind: Callable[..., Reduce], a: array, axis: Axis, keepdims: bool, stream: StreamLike
) -> array:
    axes = reduced_axes(name, a, axis)
    if not axes:
        return wrap(a)
    for reduced in axes:
        if a.shape[reduced] == 0:
            raise ValueError(
                f"[{name}] cannot choose from no elements: "
                f"axis {reduced} of shape {shape_text(a.shape)} is empty."
            )
    return without_axes(apply(_op(kind, axes), a, stream=stream), axes, keepdims, stream)


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
    return without_axes(apply(_op(kind, axes), a, stream=stream), axes, keepdims, stream)


def argmax(
    a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Position of the largest element.

    Args:
        a: An array with elements.
        axis: The axis to search along; the flattened array if None.
        keepdims: Whether this axis stays, or all do, with length 1.
        stream: Where the work belongs.

    Returns:
        The positions as uint32: of equal elements the first, and the first NaN if there is one.
    """
    return _position("argmax", ArgMax, a, axis, keepdims, stream)


def argmin(
    a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Position of the smallest element; ties, NaN and dtype as for `argmax`."""
    return _position("argmin", ArgMin, a, axis, keepdims, stream)


def _position(
    name: str,
    kind: Callable[..., ArgReduce],
    a: array,
    axis: int | None,
    keepdims: bool,
    stream: StreamLike,
) -> array:
    ndim = require_array(name, a).ndim
    if axis is not None:
        axis = as_int(name, "axis", axis)
    if a.size == 0:
        raise ValueError(
            f"[{name}] cannot choose from no elements: shape {shape_text(a.shape)} is empty."
        )
    place = None if axis is None else normalize_axis(name, axis, ndim)
    if place is None:
        found = apply(_op(kind, 0), flattened(a, stream), stream=stream)
        shape = (1,) * ndim if keepdims else ()
        return make(Reshape(shape), (found,), shape, uint32, stream)
    found = apply(_op(kind, place), a, stream=stream)
    return without_axes(found, (place,), keepdims, stream)
