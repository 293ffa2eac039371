"""Extremes along axes and their positions: max, min, argmax, argmin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np

from ingot._native import Dtype, array, make, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import uint32
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply, zero_jvp, zero_vjp
from ingot.graph.roles import Host, Reduce
from ingot.graph.shape import Shape, normalize_axis, shape_text, size_of
from ingot.ops.index.along_axis import take_along_axis
from ingot.ops.internal.adjoints import Reduction, Reshape, Sum, cached_op
from ingot.ops.internal.positions import Positions
from ingot.ops.internal.ranks import Ranked, RankedPlace
from ingot.ops.internal.summation import extreme, without_halves
from ingot.ops.reduce.axes import Axis, as_int, flattened, joined_axes, reduced_axes, without_axes
from ingot.ops.shape.movement import require_array, reshape

__all__ = ["argmax", "argmin", "max", "min", "minmax"]


class _Extreme(Reduction, abstract=True):
    """Shared by Max and Min."""

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        # Tied elements share the cotangent.
        hits = x == out
        count = apply(Sum(self.axes, x.dtype), hits)
        return (hits * (cotangent / count),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        joined, _ = joined_axes(x, self.axes)
        moving, _ = joined_axes(tangents[0], self.axes)
        position = apply(self.position_op(joined.ndim - 1), joined)
        return reshape(take_along_axis(moving, position, -1), out.shape)

    position_op: Callable[
        [int], ArgReduce
    ]  # the op that finds the position of the extreme along an axis


@dataclass(frozen=True)
class Max(_Extreme):
    """Largest element; NaN if there is one."""

    axes: tuple[int, ...]
    identity = -math.inf
    order = "largest"

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = extreme(without_halves(x), self.axes, np.maximum)
        return found.astype(x.dtype, copy=False)

    def position_op(self, axis: int) -> ArgReduce:
        return ArgMax(axis)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.largest(a, b)


@dataclass(frozen=True)
class Min(_Extreme):
    """Smallest element; NaN if there is one."""

    axes: tuple[int, ...]
    identity = math.inf
    order = "smallest"

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = extreme(without_halves(x), self.axes, np.minimum)
        return found.astype(x.dtype, copy=False)

    def position_op(self, axis: int) -> ArgReduce:
        return ArgMin(axis)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.smallest(a, b)


class ArgReduce(Host, abstract=True):
    """Positions of extremes along `axis`, which is kept with length 1; the first of equal ones."""

    axis: int

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return (*x.shape[: self.axis], 1, *x.shape[self.axis + 1 :]), uint32

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        shifted: ArgReduce = replace(cast(Any, self), axis=self.axis + 1)
        return apply(shifted, x)

    largest: ClassVar[bool]  # or the smallest
    why_host = "its elements and their positions do not fit into 64 bits together"

    def expanded(self, build: Callable[..., Any], x: Any) -> Any | None:
        if x.dtype.size > 4 or size_of(x.shape) == 0:
            return None
        positions = build(Positions(x.shape, (self.axis,), uint32))
        ranks = build(Ranked(self.largest), x, positions)
        return build(RankedPlace(), build(Max((self.axis,)), ranks))


@dataclass(frozen=True)
class ArgMax(ArgReduce):
    """Position of the largest element, or of the first NaN."""

    axis: int
    largest = True

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.argmax(without_halves(x), self.axis, keepdims=True).astype(np.uint32)


@dataclass(frozen=True)
class ArgMin(ArgReduce):
    """Position of the smallest element, or of the first NaN."""

    axis: int
    largest = False

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.argmin(without_halves(x), self.axis, keepdims=True).astype(np.uint32)


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


def minmax(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> tuple[array, array]:
    """Smallest and largest element along the given axes: `min` and `max`, read in one pass."""
    smallest = _extreme("minmax", Min, a, axis, keepdims, stream)
    return smallest, _extreme("minmax", Max, a, axis, keepdims, stream)


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
    return without_axes(apply(cached_op(kind, axes), a, stream=stream), axes, keepdims, stream)


def argmax(
    a: array, /, axis: int | None = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Position of the largest element.

    Args:
        a: An array with elements.
        axis: The axis to search along; the flattened array if None.
        keepdims: Whether this axis stays, or all do, with length 1.
        stream: The stream or device to run on.

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
    along = None if axis is None else normalize_axis(name, axis, ndim)
    if along is None:
        found = apply(cached_op(kind, 0), flattened(a, stream), stream=stream)
        shape = (1,) * ndim if keepdims else ()
        return make(Reshape(shape), (found,), shape, uint32, stream)
    found = apply(cached_op(kind, along), a, stream=stream)
    return without_axes(found, (along,), keepdims, stream)
