"""Casts and no-ops: AsType, Copy, StopGradient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, make
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, is_inexact
from ingot.graph.kernel import Kernel, Value
from ingot.graph.op import Op, apply
from ingot.graph.shape import Shape

__all__ = ["astype", "stop_gradient"]


@dataclass(frozen=True)
class AsType(Op):
    """Elements converted to `dtype`. Complex numbers lose their imaginary part."""

    dtype: Dtype

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, self.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "c" and self.dtype is not complex64:
            x = x.real
        return x.astype(self.dtype.numpy)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array | None]:
        return (astype(cotangent, x.dtype) if is_inexact(x.dtype) else None,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        tangent = tangents[0]
        if tangent is None or not is_inexact(self.dtype):
            return None
        return astype(tangent, self.dtype)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.cast(x, self.dtype)


_cast_op = lru_cache(maxsize=None)(AsType)
_native.set_hook("astype", _cast_op)


def astype(a: array, dtype: Dtype, stream: StreamLike = None) -> array:
    """Convert the elements of `a` to `dtype`; the array itself if it has that dtype already."""
    if a.dtype is dtype:
        return a
    return make(_cast_op(dtype), (a,), a.shape, dtype, stream)


class _Identity(Op, abstract=True):
    """Ops that give their input unchanged."""

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)

    def emit(self, k: Kernel, x: Value) -> Value:
        return x


@dataclass(frozen=True)
class Copy(_Identity):
    """Its input under another identity: what transforms make of their inputs to follow them."""

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return tangents[0]


@dataclass(frozen=True)
class StopGradient(_Identity):
    """Its input, but constant to derivatives."""

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[None]:
        return (None,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> None:
        return None


def stop_gradient(a: array, stream: StreamLike = None) -> array:
    """The same values, through which no derivative flows."""
    return apply(StopGradient(), a, stream=stream)
