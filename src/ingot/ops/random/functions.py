"""The functions behind random numbers, computed step by step as MLX computes them.

The same seed gives bit-identical numbers to MLX's only if the logarithms, the error function and
its inverse round as MLX's do, which the public ones need not. So they are implemented here again:
logarithms by C's math library; erf by formula 7.1.26 of Abramowitz and Stegun with the exponential
of Cephes; erfinv by N. Juffa's polynomials in log(1 - x * x). They use float32 with FMA. NumPy has
none: polynomials are native, and float64 emulates the rest, where the product of two float32 is
exact and double rounding of the sum affects fewer than one number in 10^7.

Native code has FMA and a logarithm with the bits of the GNU C library's, so there they are the same
step by step. log1p and erf, which are rarely used, stay outside kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import numpy as np

from ingot._native import array, polynomial
from ingot.graph.dtype import bfloat16, float16, float32, float64
from ingot.graph.kernel import Kernel, Value
from ingot.graph.numerics.c_library import c_function
from ingot.graph.op import Partial
from ingot.graph.roles import Elementwise, Host, Pointwise
from ingot.graph.roles.elementary import in_float32
from ingot.graph.roles.elementwise import dtype_mask, lift
from ingot.ops.elementwise.exponential import exp
from ingot.tuning import RANDOM_SLAB

__all__ = [
    "matching_erf",
    "matching_erfinv",
    "matching_log",
    "matching_log1p",
    "matching_product",
]


def _rounded(*coefficients: float) -> tuple[float, ...]:
    """Coefficients of a polynomial, highest power first, rounded to float32."""
    return tuple(float(np.float32(value)) for value in coefficients)


_EXP = _rounded(
    1.535336188319500e-4,
    1.339887440266574e-3,
    9.618437357674640e-3,
    5.550332471162809e-2,
    2.402264791363012e-1,
    6.931472028550421e-1,
    1.0,
)
_LOG2_E = np.float32(1.442695)
_ERF = _rounded(1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)
_ERF_SCALE = _rounded(0.3275911, 1.0)
_ERFINV = _rounded(
    5.43877832e-9,
    1.43285448e-7,
    1.22774793e-6,
    1.12963626e-7,
    -5.61530760e-5,
    -1.47697632e-4,
    2.31468678e-3,
    1.15392581e-2,
    -2.32015476e-1,
    8.86226892e-1,
)
_ERFINV_TAIL = _rounded(
    3.03697567e-10,
    2.93243101e-8,
    1.22150334e-6,
    2.84108955e-5,
    3.93552968e-4,
    3.02698812e-3,
    4.83185798e-3,
    -2.64646143e-1,
    8.40016484e-1,
)
_OUTSIDE = "native code would round it otherwise than MLX does"
_TAIL = 6.125  # where -log(1 - x * x) is larger, the other polynomial applies


def _polynomial(x: np.ndarray, coefficients: tuple[float, ...]) -> np.ndarray:
    """The polynomial's values in float32, each step rounded once."""
    values = np.empty(x.shape, np.float32)
    polynomial(np.ascontiguousarray(x), np.array(coefficients, np.float32), values)
    return values


def _emitted_polynomial(k: Kernel, x: Value, coefficients: tuple[float, ...]) -> Value:
    value = k.constant(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = k.fused_multiply_add(value, x, k.constant(coefficient, x))
    return value


def _exp_values(x: np.ndarray) -> Any:
    scaled = x * _LOG2_E
    whole = np.floor(scaled.astype(np.float64) + 0.5).astype(np.float32)
    power = np.ldexp(_polynomial(scaled - whole, _EXP), np.clip(whole, -150, 150).astype(np.int32))
    return np.where(x < -88, np.float32(0), power)


def _erf_values(x: np.ndarray) -> Any:
    inverse = np.float32(1) / _polynomial(np.abs(x), _ERF_SCALE)
    factor = -_exp_values(-x * x) * inverse
    products = factor.astype(np.float64) * _polynomial(inverse, _ERF)
    result = (products + 1).astype(np.float32)
    return np.where(x > 0, result, -result)


def _erfinv_values(x: np.ndarray) -> Any:
    wide = x.astype(np.float64)
    logarithm = c_function("log")((1 - wide * wide).astype(np.float32))
    factor = _polynomial(logarithm, _ERFINV)
    tail = np.abs(logarithm) > _TAIL
    factor[tail] = _polynomial(logarithm[tail], _ERFINV_TAIL)
    return x * factor


def _in_slabs(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(x).reshape(-1)
    result = np.empty(flat.shape, np.float32)
    for start in range(0, flat.size, RANDOM_SLAB):
        part = slice(start, start + RANDOM_SLAB)
        result[part] = function(flat[part])
    return result.reshape(x.shape)


_SINGLE = dtype_mask((float16, bfloat16, float32))


class _Matching(Elementwise, abstract=True):
    """Functions that are bit-identical to MLX's. Half types are computed in float32."""

    accepts = _SINGLE

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.cast(self.emit_single(k, k.cast(x, float32)), k.dtype(x))

    emit_single: Callable[[Kernel, Value], Value]  # the rule for float32


class MatchingProduct(_Matching):
    """The product of two elements, rounded even where native code could contract it with a sum."""

    name = "multiply"
    arity = 2
    accepts = dtype_mask((float16, bfloat16, float32, float64))

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> Any:
        return in_float32(np.multiply, x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return y, x

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:  # type: ignore[override]
        return k.multiply(x, y)


class MatchingLog(_Matching):
    """The natural logarithm."""

    name = "log"

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(c_function("log"), x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / x,)

    def emit_single(self, k: Kernel, x: Value) -> Value:
        return k.c_log(x)


class MatchingLog1p(Pointwise, Host):
    """log(1 + x)."""

    why_host = _OUTSIDE
    name = "log1p"
    accepts = dtype_mask((float32, float64))

    def evaluate(self, x: np.ndarray) -> Any:
        return c_function("log1p")(x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / (x + 1),)


class MatchingErf(Pointwise, Host):
    """The error function, with an error of up to 5e-7."""

    why_host = _OUTSIDE
    name = "erf"
    accepts = _SINGLE

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(lambda values: _in_slabs(_erf_values, values), x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: exp(-(x * x)) * (2 / sqrt(pi)),)


class MatchingErfInv(_Matching):
    """The inverse of the error function."""

    name = "erfinv"

    def evaluate(self, x: np.ndarray) -> Any:
        return in_float32(lambda values: _in_slabs(_erfinv_values, values), x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: exp(out * out) * (sqrt(pi) / 2),)

    def emit_single(self, k: Kernel, x: Value) -> Value:
        one = k.constant(1.0, x)
        logarithm = k.c_log(k.fused_multiply_add(k.negative(x), x, one))
        tail = k.greater(k.absolute(logarithm), k.constant(_TAIL, x))
        factor = k.select(
            tail,
            _emitted_polynomial(k, logarithm, _ERFINV_TAIL),
            _emitted_polynomial(k, logarithm, _ERFINV),
        )
        return k.multiply(x, factor)


matching_erf = lift(MatchingErf())
matching_erfinv = lift(MatchingErfInv())
matching_log = lift(MatchingLog())
matching_log1p = lift(MatchingLog1p())
matching_product = lift(MatchingProduct())
