"""Powers and roots, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_
from ingot.graph.kernel import Kernel, Value
from ingot.graph.numerics.complex_arithmetic import product
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementary import Elementary, in_float32
from ingot.graph.roles.elementwise import COMPLEX, FLOATING, lift
from ingot.graph.roles.map import is_zero_of_zero
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.exponential import log

__all__ = ["pow", "power", "rsqrt", "sqrt", "square"]


class Power(Elementwise):
    """x to the power of y. Integers to negative powers give 0; complex numbers, exp(y log(x))."""

    name = "power"
    approximate = FLOATING
    arity = 2

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        kind = x.dtype.kind
        if kind == "b":
            return np.greater_equal(x, y)
        if kind == "i":
            return np.where(y < 0, x.dtype.type(0), np.power(x, np.maximum(y, 0)))
        if kind == "c":
            # The error of the exponent is amplified by its magnitude: double precision keeps it
            # small.
            wide = np.complex128
            return np.exp(y.astype(wide) * np.log(x.astype(wide))).astype(x.dtype)
        return in_float32(_real_power, x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        # The derivative at base 0 is 0 for positive exponents, although log(0) is infinite.
        return lambda: y * _power(x, y - 1), lambda: where(out == 0, 0, out * log(x))

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        if k.dtype(x) is bool_:
            return k.greater_equal(x, y)
        return k.power(x, y)


# NumPy has other loops for these. That for 0.5 takes square roots, also of -inf and -0.0.
_SPECIAL_EXPONENTS = (-1, 0, 1, 2)


def _real_power(x: np.ndarray, y: np.ndarray) -> Any:
    """`np.power`, which takes forty times as long for negative numbers as for their magnitudes."""
    if y.size and not any(y.strides):
        y = y[(0,) * y.ndim]  # one exponent for all
        if y in _SPECIAL_EXPONENTS:
            return np.power(x, y)
    negative = np.signbit(x)
    if not negative.any():
        return np.power(x, y)
    found = np.power(np.abs(x), y)
    found = np.where(negative & (np.abs(np.fmod(y, 2)) == 1), -found, found)
    undefined = np.trunc(y) != y
    if not undefined.any():
        return found
    return np.where((x < 0) & np.isfinite(x) & undefined, x.dtype.type(np.nan), found)


class Square(Elementwise):
    """Each element times itself."""

    name = "square"
    is_zero = is_zero_of_zero

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(_times_itself, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: x * 2,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.multiply(x, x)


class Cube(Elementwise):
    """Each element times itself, twice."""

    name = "power"
    is_zero = is_zero_of_zero

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(_cubed, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: _square(x) * 3,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.multiply(k.multiply(x, x), x)


def _times_itself(x: np.ndarray) -> Any:
    return product(x, x) if x.dtype.kind == "c" else np.multiply(x, x)


def _cubed(x: np.ndarray) -> Any:
    square = _times_itself(x)
    return product(square, x) if x.dtype.kind == "c" else np.multiply(square, x)


class Sqrt(Elementary):
    """Square roots; NaN for negative numbers."""

    name = "sqrt"
    is_zero = is_zero_of_zero
    is_not_negative = True
    approximate = COMPLEX
    operands = "floating"
    function = np.sqrt

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 0.5 / out,)


class Rsqrt(Elementwise):
    """One divided by the square root."""

    name = "rsqrt"
    approximate = COMPLEX
    operands = "floating"

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(_reciprocal_root, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: (out / x) * -0.5,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.rsqrt(x)


def _reciprocal_root(x: np.ndarray) -> Any:
    return np.divide(1, np.sqrt(x))


_power = lift(Power())
_square = lift(Square())
_cube = lift(Cube())
_sqrt = lift(Sqrt())
_rsqrt = lift(Rsqrt())


def power(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise power.

    Args:
        a: The base: an array or a number.
        b: The exponent: an array or a number; the two broadcast against each other.
        stream: The stream or device to run on.

    Returns:
        The powers in the dtype that both promote to; integers to negative powers give 0.
    """
    # By far the most frequent exponents, and much faster as products.
    if b.__class__ is int and 2 <= b <= 3 and isinstance(a, array) and a.dtype is not bool_:
        return (_square if b == 2 else _cube)(a, stream)
    return _power(a, b, stream)


pow = power


def square(a: Any, /, *, stream: StreamLike = None) -> array:
    """Each element times itself."""
    return _square(a, stream)


def sqrt(a: Any, /, *, stream: StreamLike = None) -> array:
    """Square root of each element; NaN for negative ones that are not complex."""
    return _sqrt(a, stream)


def rsqrt(a: Any, /, *, stream: StreamLike = None) -> array:
    """One divided by the square root of each element."""
    return _rsqrt(a, stream)


_native.set_operator("power", power)
