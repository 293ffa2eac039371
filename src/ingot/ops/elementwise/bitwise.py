"""Bitwise logic and shifts of integers and booleans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Lift, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_, uint8
from ingot.graph.kernel import Kernel, Value
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import INTEGRAL, dtype_mask, lift
from ingot.ops.elementwise.casting import as_array, astype

__all__ = [
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "left_shift",
    "right_shift",
]


class NoBitsError(ValueError, RuntimeError):
    """Operands that are not integers: in MLX operators raise ValueError, functions RuntimeError."""


class BitwiseBinary(Elementary, abstract=True):
    """Ops on the bits of two arrays of integers or booleans."""

    arity = 2
    accepts = INTEGRAL
    refusal = NoBitsError

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return None, None


class BitwiseAnd(BitwiseBinary):
    """Bits that are set in both."""

    name = "bitwise_and"
    function = np.bitwise_and


class BitwiseOr(BitwiseBinary):
    """Bits that are set in either."""

    name = "bitwise_or"
    function = np.bitwise_or


class BitwiseXor(BitwiseBinary):
    """Bits that are set in exactly one."""

    name = "bitwise_xor"
    function = np.bitwise_xor


class Shift(BitwiseBinary, abstract=True):
    """Shifts of integers: a count that is negative or too large shifts all bits out."""

    accepts = INTEGRAL & ~dtype_mask((bool_,))


class LeftShift(Shift):
    """Bits shifted left; zeros are shifted in."""

    name = "left_shift"
    function = np.left_shift


class RightShift(Shift):
    """Bits shifted right; copies of the sign are shifted in."""

    name = "right_shift"
    function = np.right_shift


class BitwiseInvert(Elementwise):
    """All bits inverted; logical not for booleans."""

    name = "bitwise_invert"
    accepts = INTEGRAL

    def evaluate(self, x: np.ndarray) -> Any:
        return np.invert(x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (None,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.bitwise_invert(x)


_and = lift(BitwiseAnd())
_or = lift(BitwiseOr())
_xor = lift(BitwiseXor())
_left_shift = lift(LeftShift())
_right_shift = lift(RightShift())
_invert = lift(BitwiseInvert())


def _shift(shift: Lift) -> Callable[..., array]:
    """Like `shift`, but booleans are converted to uint8, which can hold the result."""

    def shifted(a: Any, b: Any, stream: StreamLike = None) -> array:
        if _is_boolean(a) and _is_boolean(b):
            name = shift.op.name
            return shift(astype(as_array(name, a), uint8), astype(as_array(name, b), uint8), stream)
        return shift(a, b, stream)

    return shifted


def _is_boolean(value: Any) -> bool:
    if isinstance(value, array):
        return value.dtype is bool_
    return isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", None) == np.bool_


_shift_left = _shift(_left_shift)
_shift_right = _shift(_right_shift)


def bitwise_and(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise bitwise and of integers or booleans."""
    return _and(a, b, stream)


def bitwise_or(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise bitwise or of integers or booleans."""
    return _or(a, b, stream)


def bitwise_xor(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise bitwise exclusive or of integers or booleans."""
    return _xor(a, b, stream)


def bitwise_invert(a: Any, /, *, stream: StreamLike = None) -> array:
    """All bits of each integer inverted; of booleans, not."""
    return _invert(a, stream)


def left_shift(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise `a << b` of integers.

    Args:
        a: The integers to shift: an array or a number.
        b: By how many bits: an array or a number. A count that is negative or not less than the
            number of bits shifts all bits out.
        stream: The stream or device to run on.

    Returns:
        The shifted integers in the dtype that both promote to; for booleans, uint8.
    """
    return _shift_left(a, b, stream)


def right_shift(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise `a >> b` of integers; signed ones keep their sign. See `left_shift`."""
    return _shift_right(a, b, stream)


bitwise_left_shift = left_shift
bitwise_right_shift = right_shift

_native.set_operator("and", _and)
_native.set_operator("or", _or)
_native.set_operator("xor", _xor)
_native.set_operator("left_shift", _shift_left)
_native.set_operator("right_shift", _shift_right)
_native.set_operator("invert", _invert)
