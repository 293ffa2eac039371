"""Elementwise functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.array_api.array import Array, common, kind_of, unwrap, wrap

__all__ = """
    abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_invert bitwise_left_shift
    bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide equal exp
    expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal
    log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
    multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit
    sin sinh sqrt square subtract tan tanh trunc
""".split()

_FLOATING = ("real floating", "complex floating")
_INTEGRAL = ("signed integer", "unsigned integer")
_REAL = (*_INTEGRAL, "real floating")
_NUMERIC = (*_REAL, "complex floating")
_ALL = ("bool", *_NUMERIC)


def _check(name: str, kinds: tuple[str, ...], *arrays: mx.array) -> None:
    for x in arrays:
        if kind_of(x.dtype) not in kinds:
            raise TypeError(
                f"[{name}] takes arrays of these kinds: {', '.join(kinds)}; got {x.dtype.name}."
            )


def _unary(
    name: str, function: Callable[..., mx.array], kinds: tuple[str, ...]
) -> Callable[[Array], Array]:
    def elementwise(x: Array, /) -> Array:
        core = unwrap(x)
        _check(name, kinds, core)
        return wrap(function(core))

    elementwise.__name__ = elementwise.__qualname__ = name
    elementwise.__doc__ = f"`{name}` of each element."
    return elementwise


def _binary(
    name: str, function: Callable[..., mx.array], kinds: tuple[str, ...]
) -> Callable[[Any, Any], Array]:
    def elementwise(x1: Any, x2: Any, /) -> Array:
        a, b = common(x1, x2)
        _check(name, kinds, a)
        return wrap(function(a, b))

    elementwise.__name__ = elementwise.__qualname__ = name
    elementwise.__doc__ = f"`{name}` of two elements each, broadcast against each other."
    return elementwise


def _unless_integral(function: Callable[[mx.array], mx.array]) -> Callable[[mx.array], mx.array]:
    def rounded(x: mx.array) -> mx.array:
        return x if kind_of(x.dtype) in _INTEGRAL else function(x)

    return rounded


def _truncated(x: mx.array) -> mx.array:
    return mx.where(x < 0, mx.ceil(x), mx.floor(x))


def _round(x: mx.array) -> mx.array:
    return mx.round(x)


def _sign(x: mx.array) -> mx.array:
    if x.dtype is mx.complex64:
        size = mx.abs(x)
        return mx.where(size == 0, 0 * x, x / mx.where(size == 0, 1, size))
    return (
        mx.where(mx.isnan(x), x, mx.sign(x)) if kind_of(x.dtype) == "real floating" else mx.sign(x)
    )


def _sign_bit(x: mx.array) -> mx.array:
    return x.view(mx.int64 if x.dtype is mx.float64 else mx.int32) < 0


def _copied_sign(x: mx.array, y: mx.array) -> mx.array:
    size = mx.abs(x)
    return mx.where(_sign_bit(y), -size, size)


def _hypotenuse(x: mx.array, y: mx.array) -> mx.array:
    """Scaled by the larger one, so that squares do not overflow."""
    a, b = mx.abs(x), mx.abs(y)
    large, small = mx.maximum(a, b), mx.minimum(a, b)
    ratio = small / mx.where(large == 0, 1, large)
    found = large * mx.sqrt(1 + ratio * ratio)
    infinite = mx.isinf(a) | mx.isinf(b)
    return mx.where(infinite, mx.array(np.inf, x.dtype), found)


def _next(x: mx.array, y: mx.array) -> mx.array:
    """The neighbour in the direction of another number, in terms of the bits of the numbers."""
    kind, one = (mx.int64, 1) if x.dtype is mx.float64 else (mx.int32, 1)
    bits = x.view(kind)
    away = mx.where(x > 0, y > x, y < x)  # from zero
    stepped = mx.where(away, bits + one, bits - one).view(x.dtype)
    tiny = mx.array(1, kind).view(x.dtype)
    from_zero = mx.where(y > 0, tiny, -tiny)
    found = mx.where(x == 0, from_zero, stepped)
    found = mx.where(x == y, y, found)
    return mx.where(mx.isnan(x) | mx.isnan(y), mx.array(np.nan, x.dtype), found)


def _complex(real: mx.array, imaginary: mx.array) -> mx.array:
    return real.astype(mx.complex64) + imaginary * mx.array(1j)


def _expm1(x: mx.array) -> mx.array:
    """exp(x) - 1 without cancellation, also of complex numbers."""
    if x.dtype is not mx.complex64:
        return mx.expm1(x)
    a, b = mx.real(x), mx.imag(x)
    half = mx.sin(b / 2)
    return _complex(mx.expm1(a) * mx.cos(b) - 2 * half * half, mx.exp(a) * mx.sin(b))


def _logical_xor(x: mx.array, y: mx.array) -> mx.array:
    return x != y


def _real(x: mx.array) -> mx.array:
    return mx.real(x) if x.dtype is mx.complex64 else x


abs = _unary("abs", mx.abs, _NUMERIC)
acos = _unary("acos", mx.arccos, _FLOATING)
acosh = _unary("acosh", mx.arccosh, _FLOATING)
asin = _unary("asin", mx.arcsin, _FLOATING)
asinh = _unary("asinh", mx.arcsinh, _FLOATING)
atan = _unary("atan", mx.arctan, _FLOATING)
atanh = _unary("atanh", mx.arctanh, _FLOATING)
bitwise_invert = _unary("bitwise_invert", mx.bitwise_invert, ("bool", *_INTEGRAL))
ceil = _unary("ceil", _unless_integral(mx.ceil), _REAL)
conj = _unary("conj", mx.conjugate, _NUMERIC)
cos = _unary("cos", mx.cos, _FLOATING)
cosh = _unary("cosh", mx.cosh, _FLOATING)
exp = _unary("exp", mx.exp, _FLOATING)
expm1 = _unary("expm1", _expm1, _FLOATING)
floor = _unary("floor", _unless_integral(mx.floor), _REAL)
imag = _unary("imag", mx.imag, ("complex floating",))
isfinite = _unary("isfinite", mx.isfinite, _NUMERIC)
isinf = _unary("isinf", mx.isinf, _NUMERIC)
isnan = _unary("isnan", mx.isnan, _NUMERIC)
log = _unary("log", mx.log, _FLOATING)
log10 = _unary("log10", mx.log10, _FLOATING)
log1p = _unary("log1p", mx.log1p, _FLOATING)
log2 = _unary("log2", mx.log2, _FLOATING)
logical_not = _unary("logical_not", mx.logical_not, ("bool",))
negative = _unary("negative", mx.negative, _NUMERIC)
positive = _unary("positive", lambda x: x, _NUMERIC)
real = _unary("real", _real, _NUMERIC)
reciprocal = _unary("reciprocal", mx.reciprocal, _FLOATING)
round = _unary("round", _unless_integral(_round), _NUMERIC)
sign = _unary("sign", _sign, _NUMERIC)
signbit = _unary("signbit", _sign_bit, ("real floating",))
sin = _unary("sin", mx.sin, _FLOATING)
sinh = _unary("sinh", mx.sinh, _FLOATING)
sqrt = _unary("sqrt", mx.sqrt, _FLOATING)
square = _unary("square", mx.square, _NUMERIC)
tan = _unary("tan", mx.tan, _FLOATING)
tanh = _unary("tanh", mx.tanh, _FLOATING)
trunc = _unary("trunc", _unless_integral(_truncated), _REAL)

add = _binary("add", mx.add, _NUMERIC)
atan2 = _binary("atan2", mx.arctan2, ("real floating",))
bitwise_and = _binary("bitwise_and", mx.bitwise_and, ("bool", *_INTEGRAL))
bitwise_left_shift = _binary("bitwise_left_shift", mx.left_shift, _INTEGRAL)
bitwise_or = _binary("bitwise_or", mx.bitwise_or, ("bool", *_INTEGRAL))
bitwise_right_shift = _binary("bitwise_right_shift", mx.right_shift, _INTEGRAL)
bitwise_xor = _binary("bitwise_xor", mx.bitwise_xor, ("bool", *_INTEGRAL))
copysign = _binary("copysign", _copied_sign, ("real floating",))
equal = _binary("equal", mx.equal, _ALL)
floor_divide = _binary("floor_divide", mx.floor_divide, _REAL)
greater = _binary("greater", mx.greater, _REAL)
greater_equal = _binary("greater_equal", mx.greater_equal, _REAL)
hypot = _binary("hypot", _hypotenuse, ("real floating",))
less = _binary("less", mx.less, _REAL)
less_equal = _binary("less_equal", mx.less_equal, _REAL)
logaddexp = _binary("logaddexp", mx.logaddexp, ("real floating",))
logical_and = _binary("logical_and", mx.logical_and, ("bool",))
logical_or = _binary("logical_or", mx.logical_or, ("bool",))
logical_xor = _binary("logical_xor", _logical_xor, ("bool",))
maximum = _binary("maximum", mx.maximum, _REAL)
minimum = _binary("minimum", mx.minimum, _REAL)
multiply = _binary("multiply", mx.multiply, _NUMERIC)
nextafter = _binary("nextafter", _next, ("real floating",))
not_equal = _binary("not_equal", mx.not_equal, _ALL)
pow = _binary("pow", mx.power, _NUMERIC)
remainder = _binary("remainder", mx.remainder, _REAL)
subtract = _binary("subtract", mx.subtract, _NUMERIC)


def divide(x1: Any, x2: Any, /) -> Array:
    """Quotients; those of integers are float64."""
    a, b = common(x1, x2)
    if kind_of(a.dtype) not in _FLOATING:
        a, b = a.astype(mx.float64), b.astype(mx.float64)
    return wrap(mx.divide(a, b))


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """Elements that are less than `min` or more than `max` become those."""
    core = unwrap(x)
    for bound, function in ((min, mx.maximum), (max, mx.minimum)):
        if bound is not None:
            limit = bound.core if isinstance(bound, Array) else mx.array(bound, core.dtype)
            core = function(core, limit.astype(core.dtype))
    return wrap(core)
