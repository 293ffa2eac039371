"""Arithmetic: sums, products, quotients and remainders, signs and magnitudes, element by element.

The functions take arrays, Python numbers and NumPy arrays, which are promoted and broadcast against
each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import (
    bool_,
    complex64,
    float32,
    is_inexact,
    is_signed_integer,
)
from ingot.graph.kernel import Kernel, Value
from ingot.graph.numerics.complex_arithmetic import modulus, product, quotient
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementary import Elementary, in_float32
from ingot.graph.roles.elementwise import ANY, FLOATING, REAL, dtype_mask, lift
from ingot.graph.roles.map import is_positive, is_single, is_zero_of_zero
from ingot.ops.elementwise.casting import astype, only_array
from ingot.ops.elementwise.complex_numbers import conj, imag

__all__ = [
    "abs",
    "add",
    "divide",
    "divmod",
    "floor_divide",
    "multiply",
    "negative",
    "positive",
    "reciprocal",
    "remainder",
    "sign",
    "subtract",
]


Interval = tuple[int, int]


class Add(Elementary):
    """Sum of two arrays; on bool, or."""

    name = "add"
    arity = 2
    function = np.add
    neutral_at = (0, 1)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return 1, 1

    def interval(self, x: Interval | None, y: Interval | None) -> Interval | None:
        return None if x is None or y is None else (x[0] + y[0], x[1] + y[1])


class Subtract(Elementwise):
    """Difference of two arrays; on bool, exclusive or."""

    name = "subtract"
    arity = 2
    neutral_at = (1,)

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        if x.dtype.kind == "b":
            return np.not_equal(x, y)
        return in_float32(np.subtract, x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return 1, -1

    def interval(self, x: Interval | None, y: Interval | None) -> Interval | None:
        return None if x is None or y is None else (x[0] - y[1], x[1] - y[0])

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        if k.dtype(x) is bool_:
            return k.bitwise_xor(x, y)
        return k.subtract(x, y)


class Multiply(Elementary):
    """Product of two arrays; on bool, and."""

    name = "multiply"
    arity = 2
    function = np.multiply
    neutral = 1

    def is_zero(self, are_zero: Sequence[bool], *inputs: Any) -> bool:
        return all(
            zero or is_single(factor) for zero, factor in zip(are_zero, inputs, strict=True)
        ) and any(are_zero)

    def evaluate(self, *inputs: np.ndarray) -> Any:
        return product(*inputs) if inputs[0].dtype.kind == "c" else super().evaluate(*inputs)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return y, x

    def interval(self, x: Interval | None, y: Interval | None) -> Interval | None:
        if x is None or y is None:
            return None
        products = [a * b for a in x for b in y]
        return min(products), max(products)


class Divide(Elementary):
    """Quotient of two arrays of floating-point or complex numbers."""

    name = "divide"
    arity = 2
    operands = "floating"
    accepts = FLOATING
    function = np.divide

    def is_zero(self, are_zero: Sequence[bool], *inputs: Any) -> bool:
        return are_zero[0] and (is_single(inputs[1]) or is_positive(inputs[1]))

    def evaluate(self, *inputs: np.ndarray) -> Any:
        return quotient(*inputs) if inputs[0].dtype.kind == "c" else super().evaluate(*inputs)

    # Not through `partials`: a quotient is one operation less than a product with 1 / y.
    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[Any, ...]:
        y = inputs[1]
        if y.dtype is complex64:
            by_x = cotangent / conj(y)
            return by_x, lambda: -(by_x * conj(out))
        by_x = cotangent / y
        return by_x, lambda: -(by_x * out)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        of_x, of_y = tangents
        y = inputs[1]
        if of_y is None:
            return None if of_x is None else of_x / y
        change = out * of_y
        return (-change if of_x is None else of_x - change) / y


class FloorDivide(Elementwise):
    """Quotient rounded down; 0 for integers divided by zero.

    Of complex numbers it is the plain quotient, as in MLX.
    """

    name = "floor_divide"
    arity = 2

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        kind = x.dtype.kind
        if kind == "b":
            return np.logical_and(x, y)
        if kind in "iu":
            return np.floor_divide(x, y)
        if kind == "c":
            return quotient(x, y)
        # Round the quotient to its dtype before taking the floor, as in MLX.
        return in_float32(np.floor, np.asarray(in_float32(np.divide, x, y)))

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        if out.dtype is not complex64:
            return None, None
        return lambda: 1 / y, lambda: -out / y

    def interval(self, x: Interval | None, y: Interval | None) -> Interval | None:
        if x is None or y is None or y[0] <= 0:
            return None
        quotients = [a // b for a in x for b in y]
        return min(quotients), max(quotients)

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        dtype = k.dtype(x)
        if dtype is bool_:
            return k.bitwise_and(x, y)
        if dtype is complex64:
            return k.divide(x, y)
        if is_inexact(dtype):
            return k.floor(k.divide(x, y))
        return k.floor_divide(x, y)


class Remainder(Elementwise):
    """The remainder of floor_divide, with the divisor's sign; x for an integer or boolean x % 0."""

    name = "remainder"
    arity = 2
    accepts = REAL

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        kind = x.dtype.kind
        if kind == "b":
            return np.greater(x, y)
        if kind in "iu":
            # NumPy's is 0 where y is
            return np.where(np.equal(y, 0), x, np.remainder(x, y))
        return in_float32(_floating_remainder, x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return 1, lambda: -_floor_divide(x, y)

    def interval(self, x: Interval | None, y: Interval | None) -> Interval | None:
        return None if x is None or y is None or y[0] <= 0 else (0, y[1] - 1)

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        if k.dtype(x) is bool_:
            return k.bitwise_and(x, k.bitwise_invert(y))
        return k.remainder(x, y)


def _floating_remainder(x: np.ndarray, y: np.ndarray) -> Any:
    # np.remainder gives the same in twice the time.
    rest = np.fmod(x, y)
    other_side = np.less(rest, 0) != np.less(y, 0)
    other_side &= rest != 0
    return np.add(rest, y, out=np.asarray(rest), where=other_side)


class Negative(Elementwise):
    """Negated elements."""

    name = "negative"
    accepts = ANY & ~dtype_mask((bool_,))
    is_zero = is_zero_of_zero

    def evaluate(self, x: np.ndarray) -> Any:
        return np.negative(x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (-1,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.negative(x)


class Abs(Elementwise):
    """Magnitudes; of complex numbers, the moduli, which are real."""

    name = "abs"
    result = "real"

    def evaluate(self, x: np.ndarray) -> Any:
        return modulus(x) if x.dtype.kind == "c" else np.absolute(x)

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[array]:
        # For complex x, this is the direction in which the modulus grows: no conjugate.
        return (cotangent * _sign(inputs[0]),)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent = tangents[0]
        if tangent is None:
            return None
        direction = _sign(inputs[0])
        if direction.dtype is complex64:
            return astype(tangent * conj(direction), float32)
        return tangent * direction

    def emit(self, k: Kernel, x: Value) -> Value:
        dtype = k.dtype(x)
        if is_inexact(dtype) or is_signed_integer(dtype):
            return k.absolute(x)
        return x


class Sign(Elementwise):
    """-1, 0 or 1, and 0 for NaN; complex numbers are divided by their moduli."""

    name = "sign"

    def evaluate(self, x: np.ndarray) -> Any:
        kind = x.dtype.kind
        if kind == "b":
            return x
        if kind in "iu":
            return np.sign(x)
        if kind == "c":
            return np.where(x == 0, x, quotient(x, modulus(x).astype(x.dtype)))
        return in_float32(_floating_sign, x)

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[array | None]:
        # The rotation of a complex number is its own adjoint in the real inner product.
        return (_turn(cotangent, out, inputs[0]) if out.dtype is complex64 else None,)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        tangent = tangents[0]
        if tangent is None or out.dtype is not complex64:
            return None
        return _turn(tangent, out, inputs[0])

    def emit(self, k: Kernel, x: Value) -> Value:
        dtype = k.dtype(x)
        zero = k.constant(0, x)
        if dtype is complex64:
            modulus = k.cast(k.absolute(x), complex64)
            return k.select(k.equal(x, zero), x, k.divide(x, modulus))
        if not (is_inexact(dtype) or is_signed_integer(dtype)):
            return k.cast(k.not_equal(x, zero), dtype)
        above = k.cast(k.greater(x, zero), dtype)
        below = k.cast(k.less(x, zero), dtype)
        return k.subtract(above, below)


def _turn(change: array, sign: array, x: array) -> array:
    """How the sign of complex x, a point on the unit circle, rotates when x changes: by the
    component of the change perpendicular to x, divided by the modulus; 0 at x = 0.
    """
    modulus = _abs(x)
    across = imag(change * conj(sign))
    return sign * 1j * (across / (modulus + (modulus == 0)))


def _floating_sign(x: np.ndarray) -> Any:
    return np.subtract(x > 0, x < 0, dtype=x.dtype)


_add = lift(Add())
_subtract = lift(Subtract())
_multiply = lift(Multiply())
_divide = lift(Divide())
_floor_divide = lift(FloorDivide())
_remainder = lift(Remainder())
_negative = lift(Negative())
_abs = lift(Abs())
_sign = lift(Sign())


def add(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise sum.

    Args:
        a: An array or a number.
        b: An array or a number; the two broadcast against each other.
        stream: The stream or device to run on.

    Returns:
        The sum, in the dtype that both operands promote to.
    """
    return _add(a, b, stream)


def subtract(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise difference; of booleans, exclusive or."""
    return _subtract(a, b, stream)


def multiply(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise product."""
    return _multiply(a, b, stream)


def divide(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise quotient; integers are divided as float32."""
    return _divide(a, b, stream)


def floor_divide(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise quotient rounded down, in the operands' dtype; an integer // 0 is 0."""
    return _floor_divide(a, b, stream)


def remainder(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise remainder with the sign of the divisor; an integer modulo zero gives itself."""
    return _remainder(a, b, stream)


def divmod(a: Any, b: Any, /, *, stream: StreamLike = None) -> list[array]:
    """Elementwise quotient and remainder: `[a // b, a % b]`."""
    rest = _remainder(a, b, stream)
    return [_floor_divide(a, b, stream), rest]


def negative(a: Any, /, *, stream: StreamLike = None) -> array:
    """Negated elements; booleans cannot be negated, see `logical_not`."""
    return _negative(a, stream)


def positive(a: array, /, *, stream: StreamLike = None) -> array:
    """The elements unchanged, like `+a`."""
    only_array("positive", a)
    return wrap(a)


def reciprocal(a: Any, /, *, stream: StreamLike = None) -> array:
    """One divided by each element."""
    return _divide(1.0, a, stream)


def abs(a: Any, /, *, stream: StreamLike = None) -> array:
    """Magnitude of each element; of complex elements the modulus, a float32."""
    return _abs(a, stream)


def sign(a: Any, /, *, stream: StreamLike = None) -> array:
    """The sign of each element: -1, 0 or 1; complex elements are divided by their moduli."""
    return _sign(a, stream)


_native.set_operator("add", _add)
_native.set_operator("subtract", _subtract)
_native.set_operator("multiply", _multiply)
_native.set_operator("true_divide", _divide)
_native.set_operator("floor_divide", _floor_divide)
_native.set_operator("remainder", _remainder)
_native.set_operator("divmod", divmod)
_native.set_operator("negative", _negative)
_native.set_operator("absolute", _abs)
