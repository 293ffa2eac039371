"""Elementwise comparisons, logic and selection, and tests for NaN and infinities.

Comparisons give booleans. NaN is unordered and unequal to everything; complex numbers are ordered
lexicographically by real and imaginary part.
"""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, is_inexact
from ingot.graph.kernel import Kernel, Value
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import lift
from ingot.ops.elementwise.arithmetic import abs
from ingot.ops.elementwise.casting import as_array, only_array
from ingot.ops.elementwise.complex_numbers import imag, real

__all__ = [
    "equal",
    "greater",
    "greater_equal",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "where",
]


class Comparison(Elementary, abstract=True):
    """Comparisons of two arrays: piecewise constant, so without a derivative."""

    arity = 2
    result = "bool"

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return None, None


class Equal(Comparison):
    """Whether elements are equal."""

    name = "equal"
    function = np.equal


class NotEqual(Comparison):
    """Whether elements are different."""

    name = "not_equal"
    function = np.not_equal


class Less(Comparison):
    """Whether elements of the first array are less."""

    name = "less"
    function = np.less


class LessEqual(Comparison):
    """Whether elements of the first array are less or equal."""

    name = "less_equal"
    function = np.less_equal


class Greater(Comparison):
    """Whether elements of the first array are greater."""

    name = "greater"
    function = np.greater


class GreaterEqual(Comparison):
    """Whether elements of the first array are greater or equal."""

    name = "greater_equal"
    function = np.greater_equal


class LogicalNot(Elementary):
    """Whether elements are zero."""

    name = "logical_not"
    operands = "logical"
    function = np.logical_not
    word = "bitwise_invert"

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (None,)


class LogicalAnd(Comparison):
    """Whether elements of both arrays are not zero."""

    name = "logical_and"
    operands = "logical"
    function = np.logical_and
    word = "bitwise_and"


class LogicalOr(Comparison):
    """Whether an element of either array is not zero."""

    name = "logical_or"
    operands = "logical"
    function = np.logical_or
    word = "bitwise_or"


class Select(Elementwise):
    """Elements of the second array where the first is true, else of the third."""

    name = "where"
    arity = 3
    operands = "select"

    def evaluate(self, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> Any:
        return np.where(condition, x, y)

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[Any, ...]:
        condition = inputs[0]
        return (
            None,
            lambda: _select(condition, cotangent, 0),
            lambda: _select(condition, 0, cotangent),
        )

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        _, of_x, of_y = tangents
        if of_x is None and of_y is None:
            return None
        return _select(inputs[0], 0 if of_x is None else of_x, 0 if of_y is None else of_y)

    def interval(self, condition: Any, x: Any, y: Any) -> tuple[int, int] | None:
        return None if x is None or y is None else (min(x[0], y[0]), max(x[1], y[1]))

    def emit(self, k: Kernel, condition: Value, x: Value, y: Value) -> Value:
        return k.select(condition, x, y)


_equal = lift(Equal())
_not_equal = lift(NotEqual())
_less = lift(Less())
_less_equal = lift(LessEqual())
_greater = lift(Greater())
_greater_equal = lift(GreaterEqual())
_logical_not = lift(LogicalNot())
_logical_and = lift(LogicalAnd())
_logical_or = lift(LogicalOr())
_select = lift(Select())


def equal(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are equal, as booleans."""
    return _equal(a, b, stream)


def not_equal(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are different, as booleans."""
    return _not_equal(a, b, stream)


def less(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements of `a` are less than those of `b`."""
    return _less(a, b, stream)


def less_equal(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements of `a` are less than or equal to those of `b`."""
    return _less_equal(a, b, stream)


def greater(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements of `a` are greater than those of `b`."""
    return _greater(a, b, stream)


def greater_equal(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements of `a` are greater than or equal to those of `b`."""
    return _greater_equal(a, b, stream)


def logical_not(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are zero or False."""
    return _logical_not(a, stream)


def logical_and(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements of both arrays are neither zero nor False."""
    return _logical_and(a, b, stream)


def logical_or(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether an element of either array is neither zero nor False."""
    return _logical_or(a, b, stream)


def logical_xor(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Whether an element of just one of the arrays is neither zero nor False."""
    return _not_equal(_logical_not(a, stream), _logical_not(b, stream), stream)


def where(condition: Any, x: Any, y: Any, /, *, stream: StreamLike = None) -> array:
    """Elements of `x` where the condition holds, else of `y`.

    Args:
        condition: An array or a number; what is not zero holds.
        x: An array or a number.
        y: An array or a number; all three broadcast against each other.
        stream: The stream or device to run on.

    Returns:
        The selected elements, in the dtype that `x` and `y` promote to.
    """
    return _select(condition, x, y, stream)


def isnan(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are NaN; complex ones, whether a part is."""
    value = as_array("isnan", a)
    return _not_equal(value, value, stream)


def isinf(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are positive or negative infinity; complex ones, whether a part is."""
    value = as_array("isinf", a)
    if not is_inexact(value.dtype):
        return _not_equal(value, value, stream)
    if value.dtype is complex64:
        parts = real(value, stream=stream), imag(value, stream=stream)
        return _logical_or(*(isinf(part, stream=stream) for part in parts), stream)
    return _equal(abs(value, stream=stream), inf, stream)


def isfinite(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are neither infinite nor NaN; complex ones, whether both parts are so."""
    value = as_array("isfinite", a)
    if not is_inexact(value.dtype):
        return _equal(value, value, stream)
    if value.dtype is complex64:
        parts = real(value, stream=stream), imag(value, stream=stream)
        return _logical_and(*(isfinite(part, stream=stream) for part in parts), stream)
    return _less(abs(value, stream=stream), inf, stream)


def isposinf(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are positive infinity."""
    value = as_array("isposinf", a)
    return _equals(value, inf, stream)


def isneginf(a: Any, /, *, stream: StreamLike = None) -> array:
    """Whether elements are negative infinity."""
    value = as_array("isneginf", a)
    return _equals(value, -inf, stream)


def _equals(value: array, infinity: float, stream: StreamLike) -> array:
    if not is_inexact(value.dtype):
        return _not_equal(value, value, stream)
    return _equal(value, infinity, stream)


def isclose(
    a: array,
    b: array,
    /,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    *,
    equal_nan: bool = False,
    stream: StreamLike = None,
) -> array:
    """Whether elements are close: `abs(a - b) <= atol + rtol * abs(b)`.

    Infinities are close to themselves only.

    Args:
        a: An array.
        b: An array; the two broadcast against each other.
        rtol: The tolerance relative to `b`.
        atol: The tolerance in absolute terms.
        equal_nan: Whether NaN is close to NaN.
        stream: The stream or device to run on.

    Returns:
        An array of booleans.
    """
    only_array("isclose", a)
    only_array("isclose", b)
    # Tolerances are float32, not weakly typed: half types would not hold the defaults.
    tolerance = abs(b, stream=stream) * array(float(rtol)) + array(float(atol))
    close = _less_equal(abs(a - b, stream=stream), tolerance, stream)
    if is_inexact(b.dtype):
        close = _select(isinf(b, stream=stream), _equal(a, b, stream), close, stream)
    if equal_nan:
        both = _logical_and(isnan(a, stream=stream), isnan(b, stream=stream), stream)
        close = _logical_or(close, both, stream)
    return close


_native.set_operator("equal", _equal)
_native.set_operator("not_equal", _not_equal)
_native.set_operator("less", _less)
_native.set_operator("less_equal", _less_equal)
_native.set_operator("greater", _greater)
_native.set_operator("greater_equal", _greater_equal)
