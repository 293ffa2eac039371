"""Views and sums: ops that are each other's adjoints.

The VJP of a broadcast is a sum, that of a sum a broadcast; reshapes and transpositions have
adjoints of their own kind. Each view shares the memory of its input where strides can express the
result; only a `Reshape` of non-contiguous elements copies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, make, wrap
from ingot.graph import shape as shapes
from ingot.graph.device import StreamLike
from ingot.graph.dtype import is_inexact, promote
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, apply
from ingot.graph.roles import Linear, Reduce, View
from ingot.graph.shape import Shape, same_shape
from ingot.ops.elementwise.casting import AsType, astype
from ingot.ops.internal.summation import in_order, reduced

__all__ = [
    "Broadcast",
    "Reduction",
    "Reshape",
    "Sum",
    "Transpose",
    "cached_op",
    "op_for_shape",
    "reshaped",
    "sum_kept",
]


@dataclass(frozen=True)
class Broadcast(Linear, View):
    """Repeats elements along new axes in front and along axes of length 1, without copying."""

    shape: Shape

    broadcasts = True

    def is_no_op(self, x: Any) -> bool:
        return bool(x.shape == self.shape)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return self.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if not x.flags.c_contiguous:
            return np.broadcast_to(x, self.shape)
        # The same in a third of the time.
        repeated = tuple(
            0 if length == 1 else stride for length, stride in zip(x.shape, x.strides, strict=True)
        )
        strides = (0,) * (len(self.shape) - x.ndim) + repeated
        view: np.ndarray = np.ndarray(self.shape, x.dtype, x, 0, strides)
        # A broadcast view, which all arrays of zeros share: it must be read-only.
        view.flags.writeable = False
        return view

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape]:
        repeated = tuple(
            0 if length == 1 else stride for length, stride in zip(shape, strides, strict=True)
        )
        return 0, (0,) * (len(self.shape) - len(shape)) + repeated

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        shape = x.shape
        for length in (*shape, *self.shape):
            if type(length) is not int:
                axes = _repeated_axes(shape, self.shape)
                return (reshaped(sum_kept(cotangent, axes) if axes else cotangent, shape, None),)
        dtype = cotangent.dtype
        for op, lengths in _adjoint_steps(shape, self.shape, dtype):
            cotangent = make(op, (cotangent,), lengths, dtype)
        return (cotangent,)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        missing = len(self.shape) - (x.ndim - 1)
        aligned = reshaped(x, (size, *(1,) * missing, *x.shape[1:]), None) if missing else x
        shape = (size, *self.shape)
        return make(op_for_shape(Broadcast, shape), (aligned,), shape, x.dtype)


def _repeated_axes(old: Shape, new: Shape) -> tuple[int, ...]:
    """The axes of `new` along which a broadcast of `old` repeats elements."""
    missing = len(new) - len(old)
    if old == new[missing:]:
        return tuple(range(missing))
    repeated = (
        axis
        for axis, length in enumerate(new)
        if length != 1 and (axis < missing or old[axis - missing] == 1)
    )
    return tuple(repeated)


@lru_cache(maxsize=4096)
def _adjoint_steps(old: Shape, new: Shape, dtype: Dtype) -> tuple[tuple[Op, Shape], ...]:
    """The ops that sum an array of shape `new` over what a broadcast repeated, each with the shape
    of its result. Biases have the same few shapes in every step of training.
    """
    steps: list[tuple[Op, Shape]] = []
    kept = new
    axes = _repeated_axes(old, new)
    if axes:
        kept = tuple(1 if axis in axes else length for axis, length in enumerate(new))
        steps.append((Sum(axes, dtype), kept))
    if kept != old:
        steps.append((Reshape(old), old))
    return tuple(steps)


@dataclass(frozen=True)
class Reshape(Linear, View):
    """The same elements in the same order under another shape."""

    shape: Shape

    keeps_order = True

    def is_no_op(self, x: Any) -> bool:
        return bool(x.shape == self.shape)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return self.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.shape)

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape] | None:
        found = shapes.reshaped_strides(shape, strides, self.shape)
        return None if found is None else (0, found)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (reshaped(cotangent, x.shape, None),)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return reshaped(x, (size, *self.shape), None)


@dataclass(frozen=True)
class Transpose(Linear, View):
    """Axis i of the result is axis `axes[i]` of the input."""

    axes: tuple[int, ...]

    def is_no_op(self, x: Any) -> bool:
        return self.axes == tuple(range(len(self.axes)))

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        shape = x.shape
        return tuple(shape[axis] for axis in self.axes), x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x.transpose(self.axes)

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape]:
        return 0, tuple(strides[axis] for axis in self.axes)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (make(_inverse(self.axes), (cotangent,), x.shape, cotangent.dtype),)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(Transpose((0, *(axis + 1 for axis in self.axes))), x)


@lru_cache(maxsize=1024)
def _inverse(axes: tuple[int, ...]) -> Transpose:
    """The inverse permutation."""
    return Transpose(tuple(sorted(range(len(axes)), key=axes.__getitem__)))


def reshaped(a: array, shape: Shape, stream: StreamLike) -> array:
    """`a` reshaped; the number of elements must match."""
    if same_shape(a.shape, shape):
        return wrap(a)
    return make(op_for_shape(Reshape, shape), (a,), shape, a.dtype, stream)


class Reduction(Reduce, abstract=True):
    """Reductions that are only a cast where there is nothing to reduce."""

    def expanded(self, build: Callable[..., Any], x: Any) -> Any | None:
        if math.prod(x.shape[axis] for axis in self.axes) != 1:
            return None
        return build(AsType(self.result_dtype(x.dtype)), x)  # elementwise


@dataclass(frozen=True)
class Sum(Reduction):
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
            return reduced(x.astype(self.dtype.numpy, copy=False), self.axes, np.add)
        return in_order(x, self.axes, self.dtype.numpy, np.add, 0)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        shape = x.shape
        return (
            make(op_for_shape(Broadcast, shape), (astype(cotangent, x.dtype),), shape, x.dtype),
        )

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        return apply(Sum(self.axes, promote(self.dtype, tangents[0].dtype)), tangents[0])

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.add(a, b)


@lru_cache(maxsize=4096)
def cached_op(kind: Callable[..., Op], *parameters: Hashable) -> Op:
    """An op by class and parameters, cached: programs reduce over the same axes again and again."""
    return kind(*parameters)


def op_for_shape(kind: Callable[..., Op], shape: Shape) -> Op:
    """The op that produces this shape, cached for shapes of plain ints."""
    for length in shape:
        if type(length) is not int:
            return kind(shape)  # comparing dimensions adds guards
    return cached_op(kind, shape)


def sum_kept(a: array, axes: tuple[int, ...]) -> array:
    """The sum over `axes` (sorted), which are kept with length 1."""
    dtype = a.dtype
    lengths = list(a.shape)
    for axis in axes:
        lengths[axis] = 1
    return make(cached_op(Sum, axes, dtype), (a,), tuple(lengths), dtype)


_native.set_callbacks(broadcast=Broadcast, broadcast_shapes=shapes.broadcast_shapes)
