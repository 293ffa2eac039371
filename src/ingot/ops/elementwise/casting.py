"""Casts and identity ops: conversions of dtype, copies, bitcasts.

Also the checks of arguments that must be arrays, which later modules share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, make, wrap
from ingot.graph.arrays.construct import coerce
from ingot.graph.boundary import attach
from ingot.graph.device import StreamLike
from ingot.graph.dtype import ALL_DTYPES
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.casts import converted
from ingot.graph.op import Op, apply, no_rule, zero_jvp, zero_vjp
from ingot.graph.roles import Host, Map
from ingot.graph.roles.map import is_zero_of_zero
from ingot.graph.shape import Shape, shape_text

__all__ = ["astype", "contiguous", "stop_gradient", "view"]


def only_array(name: str, value: Any) -> None:
    """Reject everything but arrays, for functions that do not take numbers in MLX."""
    if not isinstance(value, array):
        raise TypeError(f"[{name}] takes an array, got {type(value).__name__}.")


def as_array(name: str, value: Any) -> array:
    """Convert an array, a number or what other libraries have for them to an array."""
    if isinstance(value, array):
        return value
    if isinstance(value, (int, float, complex)):
        return array(value)
    converted: array = coerce(value)
    if converted is NotImplemented:
        refusal = TypeError if value is None else ValueError
        raise refusal(f"[{name}] takes arrays and numbers, got {type(value).__name__}.")
    return converted


def _no_dtype(name: str, dtype: Any) -> TypeError:
    return TypeError(
        f"[{name}] takes a dtype such as mx.float32, got {type(dtype).__name__} {dtype!r}."
    )


@dataclass(frozen=True)
class AsType(Map):
    """Elements converted to `dtype`. Complex to real drops the imaginary part."""

    dtype: Dtype

    is_zero = is_zero_of_zero

    def is_no_op(self, x: Any) -> bool:
        return x.dtype is self.dtype

    def upcasts(self, x: Any) -> bool:
        return bool(x.dtype.size < self.dtype.size)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, self.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return converted(x, self.dtype.numpy)

    # A cast has derivative 1, that to integers too: so it is in MLX.
    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (astype(cotangent, x.dtype),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return None if tangents[0] is None else astype(tangents[0], self.dtype)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)

    def interval(self, x: tuple[int, int] | None) -> tuple[int, int] | None:
        return x

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.cast(x, self.dtype)


_casts = {dtype: AsType(dtype) for dtype in ALL_DTYPES}
_cast_op = _casts.__getitem__
_native.set_callbacks(cast=_cast_op)


def astype(a: array, dtype: Dtype, stream: StreamLike = None) -> array:
    """Elements converted to `dtype`; the array itself if it has that dtype already.

    Args:
        a: The array.
        dtype: The dtype to convert to.
        stream: The stream or device to run on.

    Returns:
        The converted array. Floating-point numbers are rounded toward zero to integers; those that
        an integer dtype cannot hold, infinities and NaN become what MLX on x86 gives, the same in
        every way in which a cast can run (the table is in docs/guide/numerics.md).
    """
    only_array("astype", a)
    if a.dtype is dtype:
        return wrap(a)
    cast = _casts.get(dtype)
    if cast is None:
        raise _no_dtype("astype", dtype)
    return make(cast, (a,), a.shape, dtype, stream)


class _Identity(Op, abstract=True):
    """Ops that return their input unchanged."""

    def is_no_op(self, x: Any) -> bool:
        return True

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)

    def emit(self, k: Kernel, x: Value) -> Value:
        return x


class Copy(_Identity, Map):
    """Its input as a new node: transforms wrap their inputs in it to track them."""

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return tangents[0]


@dataclass(frozen=True)
class Stored(_Identity, Map):
    """Its input in separate memory, for results of loop bodies. `number` distinguishes outputs with
    the same value.
    """

    number: int

    def is_no_op(self, x: Any) -> bool:
        return False

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return x.copy()

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return tangents[0]


class StopGradient(_Identity, Map):
    """Its input, treated as a constant by differentiation."""

    vjp = zero_vjp
    jvp = zero_jvp


@dataclass(frozen=True)
class Contiguous(_Identity, Host):
    """Its input in row-major order; with `allow_col_major`, column-major will do too."""

    allow_col_major: bool

    why_host = "it arranges memory"

    def is_no_op(self, x: Any) -> bool:
        return False

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if self.allow_col_major and x.flags.f_contiguous:
            return x
        return np.asarray(x, order="C")

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return tangents[0]


@dataclass(frozen=True)
class Bitcast(Host):
    """The same bits as elements of `dtype`; a different element size changes the last axis."""

    dtype: Dtype

    why_host = "elements of another size have other strides"
    takes_bits = True

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        old, new = x.dtype.size, self.dtype.size
        if old == new:
            return x.shape, self.dtype
        return (*x.shape[:-1], x.shape[-1] * old // new), self.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.asarray(x, order="C").view(self.dtype.numpy)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)

    vjp = no_rule("bits are not a smooth function of the number they stand for")
    jvp = no_rule("bits are not a smooth function of the number they stand for")


def stop_gradient(a: array, /, *, stream: StreamLike = None) -> array:
    """The same values, through which no gradient flows."""
    only_array("stop_gradient", a)
    return make(_stop_gradient_op, (a,), a.shape, a.dtype, stream)


_stop_gradient_op = StopGradient()


def contiguous(a: array, /, allow_col_major: bool = False, *, stream: StreamLike = None) -> array:
    """The same values in row-major order, copied if necessary.

    Args:
        a: The array.
        allow_col_major: Whether column by column is good enough.
        stream: The stream or device to run on.

    Returns:
        The contiguous array.
    """
    only_array("contiguous", a)
    return make(Contiguous(allow_col_major), (a,), a.shape, a.dtype, stream)


def view(a: Any, dtype: Dtype, *, stream: StreamLike = None) -> array:
    """The same bits read as elements of another dtype.

    Args:
        a: An array or a number.
        dtype: How to read the bits.
        stream: The stream or device to run on.

    Returns:
        The array; if the elements have another size, its last axis has another length.
    """
    value = as_array("view", a)
    if not isinstance(dtype, Dtype):
        raise _no_dtype("view", dtype)
    if value.dtype is dtype:
        return wrap(value)
    old, new = value.dtype.size, dtype.size
    if old != new and value.ndim == 0:
        raise ValueError(
            f"[view] a scalar of dtype {value.dtype} ({old} bytes) cannot be viewed as {dtype} "
            f"({new} bytes): the sizes must be equal. Reshape it to one axis first."
        )
    if old < new and value.shape[-1] * old % new:
        raise ValueError(
            f"[view] an array of shape {shape_text(value.shape)} and dtype {value.dtype} cannot be "
            f"viewed as {dtype}: the {value.shape[-1] * old} bytes of its last axis do not "
            f"divide by {new}."
        )
    return apply(Bitcast(dtype), value, stream=stream)


attach(_cast=astype)  # for the constructor, which is in a lower layer
