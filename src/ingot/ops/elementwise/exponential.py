"""Exponentials and logarithms, element by element, with sigmoid and the error function."""

from __future__ import annotations

from math import log as scalar_log
from math import pi
from math import sqrt as scalar_sqrt
from typing import Any

import numpy as np

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64
from ingot.graph.kernel import Kernel, Value
from ingot.graph.libraries import scipy_special
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise
from ingot.graph.roles.elementary import Elementary, in_float32
from ingot.graph.roles.elementwise import FLOATING, REAL, lift

__all__ = [
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "sigmoid",
]


class Exp(Elementary):
    """e to the power of each element."""

    name = "exp"
    approximate = FLOATING
    operands = "floating"
    function = np.exp

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (out,)


class Expm1(Elementary):
    """exp(x) - 1, accurate near 0."""

    name = "expm1"
    approximate = FLOATING
    operands = "floating"
    accepts = REAL
    function = np.expm1

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: out + 1,)


class Log(Elementary):
    """Natural logarithm."""

    name = "log"
    approximate = FLOATING
    operands = "floating"
    function = np.log

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / x,)


class Log2(Elementary):
    """Logarithm to base 2."""

    name = "log2"
    approximate = FLOATING
    operands = "floating"
    function = np.log2

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: (1 / scalar_log(2)) / x,)


class Log10(Elementary):
    """Logarithm to base 10."""

    name = "log10"
    approximate = FLOATING
    operands = "floating"
    function = np.log10

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: (1 / scalar_log(10)) / x,)


class Log1p(Elementwise):
    """log(1 + x), accurate near 0."""

    name = "log1p"
    approximate = FLOATING
    operands = "floating"

    def evaluate(self, x: np.ndarray) -> Any:
        return _complex_log1p(x) if x.dtype.kind == "c" else in_float32(np.log1p, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / (x + 1),)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.log1p(x)


def _complex_log1p(x: np.ndarray) -> Any:
    # NumPy adds 1 first, which loses small x. Squares of float32 are exact in float64.
    real = x.real.astype(np.float64)
    imag = x.imag.astype(np.float64)
    result = np.empty(x.shape, x.dtype)
    result.real = np.log1p(real * (real + 2) + imag * imag) / 2
    result.imag = np.arctan2(imag, real + 1)
    return result


class LogAddExp(Elementwise):
    """log(exp(x) + exp(y)), without overflow."""

    name = "logaddexp"
    approximate = FLOATING
    arity = 2
    operands = "floating"

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        if x.dtype.kind == "c":
            larger = np.maximum(x, y)
            ratio = np.exp(np.minimum(x, y) - larger)
            return np.where(np.isinf(larger), larger, larger + _complex_log1p(ratio))
        return in_float32(np.logaddexp, x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        if x.dtype is complex64:
            return lambda: exp(x - out), lambda: exp(y - out)
        return lambda: sigmoid(x - y), lambda: sigmoid(y - x)

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        larger = k.maximum(x, y)
        total = k.add(larger, k.log1p(k.exp(k.subtract(k.minimum(x, y), larger))))
        # Where the larger is infinite, the difference may be NaN.
        modulus = k.absolute(larger)
        return k.select(k.equal(modulus, k.constant(np.inf, modulus)), larger, total)


class Sigmoid(Elementwise):
    """1 / (1 + exp(-x)), accurate at both ends."""

    name = "sigmoid"
    approximate = FLOATING
    operands = "floating"
    accepts = REAL

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(_sigmoid_values, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: out * (1 - out),)

    def emit(self, k: Kernel, x: Value) -> Value:
        small = k.exp(k.negative(k.absolute(x)))
        one = k.constant(1, x)
        numerator = k.select(k.less(x, k.constant(0, x)), small, one)
        return k.divide(numerator, k.add(one, small))


def _sigmoid_values(x: np.ndarray) -> Any:
    small = np.asarray(np.abs(x))
    np.negative(small, out=small)
    np.exp(small, out=small)
    numerator = np.where(x < 0, small, x.dtype.type(1))
    small += 1
    return np.divide(numerator, small, out=small)


class Erf(Elementwise):
    """The error function."""

    name = "erf"
    approximate = FLOATING
    operands = "floating"
    accepts = REAL

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(scipy_special().erf, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: exp(-(x * x)) * (2 / scalar_sqrt(pi)),)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.erf(x)


class ErfInv(Elementwise):
    """The inverse of the error function; NaN outside [-1, 1]."""

    name = "erfinv"
    approximate = FLOATING
    operands = "floating"
    accepts = REAL

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(_erfinv_of, x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: exp(out * out) * (scalar_sqrt(pi) / 2),)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.erfinv(x)


_exp = lift(Exp())
_expm1 = lift(Expm1())
_log = lift(Log())
_log2 = lift(Log2())
_log10 = lift(Log10())
_log1p = lift(Log1p())
_logaddexp = lift(LogAddExp())
_sigmoid = lift(Sigmoid())
_erf = lift(Erf())


def _erfinv_of(x: np.ndarray) -> Any:
    return np.copysign(scipy_special().erfinv(x), x)  # SciPy's loses the sign of zero


_erfinv = lift(ErfInv())


def exp(a: Any, /, *, stream: StreamLike = None) -> array:
    """e to the power of each element."""
    return _exp(a, stream)


def expm1(a: Any, /, *, stream: StreamLike = None) -> array:
    """exp(a) - 1, accurate even where a is near 0."""
    return _expm1(a, stream)


def log(a: Any, /, *, stream: StreamLike = None) -> array:
    """Natural logarithm of each element."""
    return _log(a, stream)


def log2(a: Any, /, *, stream: StreamLike = None) -> array:
    """Logarithm of each element to base 2."""
    return _log2(a, stream)


def log10(a: Any, /, *, stream: StreamLike = None) -> array:
    """Logarithm of each element to base 10."""
    return _log10(a, stream)


def log1p(a: Any, /, *, stream: StreamLike = None) -> array:
    """log(1 + a), accurate even where a is near 0."""
    return _log1p(a, stream)


def logaddexp(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """log(exp(a) + exp(b)), computed so that nothing overflows on the way."""
    return _logaddexp(a, b, stream)


def sigmoid(a: Any, /, *, stream: StreamLike = None) -> array:
    """The logistic function 1 / (1 + exp(-a)) of each element."""
    return _sigmoid(a, stream)


def erf(a: Any, /, *, stream: StreamLike = None) -> array:
    """The error function of each element: the integral of 2 / sqrt(pi) * exp(-t^2) from 0 to it."""
    return _erf(a, stream)


def erfinv(a: Any, /, *, stream: StreamLike = None) -> array:
    """The inverse error function: `erf(erfinv(a))` is `a` for a between -1 and 1."""
    return _erfinv(a, stream)
