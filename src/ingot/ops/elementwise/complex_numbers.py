"""Real and imaginary parts and conjugates. Real arrays have no imaginary part: zeros."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import array, set_callbacks, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64
from ingot.graph.kernel import Kernel, Value
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementwise import lift
from ingot.ops.elementwise.casting import as_array, astype

__all__ = ["conj", "conjugate", "imag", "real"]


class Real(Elementwise):
    """Real parts."""

    name = "real"
    result = "real"

    def is_no_op(self, *inputs: Any) -> bool:
        return inputs[0].dtype is not complex64

    def evaluate(self, x: np.ndarray) -> Any:
        return x.real

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[array]:
        return (astype(cotangent, inputs[0].dtype),)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent = tangents[0]
        return None if tangent is None else _real(tangent)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.real(x) if k.dtype(x) is complex64 else x


class Imag(Elementwise):
    """Imaginary parts; zeros for real arrays."""

    name = "imag"
    result = "real"

    def evaluate(self, x: np.ndarray) -> Any:
        if x.dtype.kind == "c":
            return x.imag
        return np.zeros(x.shape, x.dtype)

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[array | None]:
        return (cotangent * 1j if inputs[0].dtype is complex64 else None,)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent = tangents[0]
        if tangent is None or tangent.dtype is not complex64:
            return None
        return _imag(tangent)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.imag(x) if k.dtype(x) is complex64 else k.constant(0, x)


class Conjugate(Elementwise):
    """Elements with negated imaginary parts."""

    name = "conjugate"

    def is_no_op(self, *inputs: Any) -> bool:
        return inputs[0].dtype is not complex64

    def evaluate(self, x: np.ndarray) -> Any:
        return np.conjugate(x) if x.dtype.kind == "c" else x

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[array]:
        return (conj(cotangent),)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent = tangents[0]
        return None if tangent is None else conj(tangent)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.conjugate(x) if k.dtype(x) is complex64 else x


_real = lift(Real())
_imag = lift(Imag())
_conjugate = lift(Conjugate())


def real(a: Any, /, *, stream: StreamLike = None) -> array:
    """Real parts: float32 for complex arrays; real arrays as they are."""
    return _real(a, stream)


def imag(a: Any, /, *, stream: StreamLike = None) -> array:
    """Imaginary parts: float32 for complex arrays; zeros for real ones."""
    return _imag(a, stream)


def conj(a: Any, /, *, stream: StreamLike = None) -> array:
    """Complex conjugates; real arrays as they are."""
    value = as_array("conj", a)
    return _conjugate(value, stream) if value.dtype is complex64 else wrap(value)


conjugate = conj
set_callbacks(conjugate=conj)
