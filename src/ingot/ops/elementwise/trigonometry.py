"""Trigonometric and hyperbolic functions and their inverses, element by element.

Angles are in radians.
"""

from __future__ import annotations

from math import pi
from typing import Any

import numpy as np

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64
from ingot.graph.op import Partial
from ingot.graph.roles.elementary import Elementary
from ingot.graph.roles.elementwise import FLOATING, REAL, lift
from ingot.ops.elementwise.arithmetic import multiply
from ingot.ops.elementwise.powers import rsqrt

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "degrees",
    "radians",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


class Sin(Elementary):
    """Sine."""

    name = "sin"
    approximate = FLOATING
    operands = "floating"
    function = np.sin

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: cos(x),)


class Cos(Elementary):
    """Cosine."""

    name = "cos"
    approximate = FLOATING
    operands = "floating"
    function = np.cos

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: -sin(x),)


class Tan(Elementary):
    """Tangent."""

    name = "tan"
    approximate = FLOATING
    operands = "floating"
    function = np.tan

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: out * out + 1,)


class ArcSin(Elementary):
    """Inverse of the sine."""

    name = "arcsin"
    approximate = FLOATING
    operands = "floating"
    function = np.arcsin

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: rsqrt(1 - x * x),)


class ArcCos(Elementary):
    """Inverse of the cosine."""

    name = "arccos"
    approximate = FLOATING
    operands = "floating"
    function = np.arccos

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: -rsqrt(1 - x * x),)


class ArcTan(Elementary):
    """Inverse of the tangent."""

    name = "arctan"
    approximate = FLOATING
    operands = "floating"
    function = np.arctan

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / (x * x + 1),)


class ArcTan2(Elementary):
    """The angle of the point (y, x), the arctangent of x / y."""

    name = "arctan2"
    approximate = FLOATING
    arity = 2
    operands = "floating"
    accepts = REAL
    function = np.arctan2

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return lambda: y / (x * x + y * y), lambda: -x / (x * x + y * y)


class Sinh(Elementary):
    """Hyperbolic sine."""

    name = "sinh"
    approximate = FLOATING
    operands = "floating"
    function = np.sinh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: cosh(x),)


class Cosh(Elementary):
    """Hyperbolic cosine."""

    name = "cosh"
    approximate = FLOATING
    operands = "floating"
    function = np.cosh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: sinh(x),)


class Tanh(Elementary):
    """Hyperbolic tangent."""

    name = "tanh"
    approximate = FLOATING
    operands = "floating"
    function = np.tanh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 - out * out,)


class ArcSinh(Elementary):
    """Inverse of the hyperbolic sine."""

    name = "arcsinh"
    approximate = FLOATING
    operands = "floating"
    function = np.arcsinh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: rsqrt(x * x + 1),)


class ArcCosh(Elementary):
    """Inverse of the hyperbolic cosine."""

    name = "arccosh"
    approximate = FLOATING
    operands = "floating"
    function = np.arccosh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        if x.dtype is complex64:
            # The root of the product would be on the wrong branch in the left half-plane.
            return (lambda: rsqrt(x - 1) * rsqrt(x + 1),)
        return (lambda: rsqrt(x * x - 1),)


class ArcTanh(Elementary):
    """Inverse of the hyperbolic tangent."""

    name = "arctanh"
    approximate = FLOATING
    operands = "floating"
    function = np.arctanh

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (lambda: 1 / (1 - x * x),)


_sin = lift(Sin())
_cos = lift(Cos())
_tan = lift(Tan())
_arcsin = lift(ArcSin())
_arccos = lift(ArcCos())
_arctan = lift(ArcTan())
_arctan2 = lift(ArcTan2())
_sinh = lift(Sinh())
_cosh = lift(Cosh())
_tanh = lift(Tanh())
_arcsinh = lift(ArcSinh())
_arccosh = lift(ArcCosh())
_arctanh = lift(ArcTanh())


def sin(a: Any, /, *, stream: StreamLike = None) -> array:
    """Sine of each element."""
    return _sin(a, stream)


def cos(a: Any, /, *, stream: StreamLike = None) -> array:
    """Cosine of each element."""
    return _cos(a, stream)


def tan(a: Any, /, *, stream: StreamLike = None) -> array:
    """Tangent of each element."""
    return _tan(a, stream)


def arcsin(a: Any, /, *, stream: StreamLike = None) -> array:
    """The angle between -pi/2 and pi/2 with this sine."""
    return _arcsin(a, stream)


def arccos(a: Any, /, *, stream: StreamLike = None) -> array:
    """The angle between 0 and pi with this cosine."""
    return _arccos(a, stream)


def arctan(a: Any, /, *, stream: StreamLike = None) -> array:
    """The angle between -pi/2 and pi/2 with this tangent."""
    return _arctan(a, stream)


def arctan2(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """The angle of the point (b, a): the arctangent of `a / b` in the right quadrant."""
    return _arctan2(a, b, stream)


def sinh(a: Any, /, *, stream: StreamLike = None) -> array:
    """Hyperbolic sine of each element."""
    return _sinh(a, stream)


def cosh(a: Any, /, *, stream: StreamLike = None) -> array:
    """Hyperbolic cosine of each element."""
    return _cosh(a, stream)


def tanh(a: Any, /, *, stream: StreamLike = None) -> array:
    """Hyperbolic tangent of each element."""
    return _tanh(a, stream)


def arcsinh(a: Any, /, *, stream: StreamLike = None) -> array:
    """The number with this hyperbolic sine."""
    return _arcsinh(a, stream)


def arccosh(a: Any, /, *, stream: StreamLike = None) -> array:
    """The number, not negative, with this hyperbolic cosine."""
    return _arccosh(a, stream)


def arctanh(a: Any, /, *, stream: StreamLike = None) -> array:
    """The number with this hyperbolic tangent."""
    return _arctanh(a, stream)


def degrees(a: Any, /, *, stream: StreamLike = None) -> array:
    """Angles in radians as angles in degrees."""
    return multiply(a, 180 / pi, stream=stream)


def radians(a: Any, /, *, stream: StreamLike = None) -> array:
    """Angles in degrees as angles in radians."""
    return multiply(a, pi / 180, stream=stream)


asin = arcsin
acos = arccos
atan = arctan
atan2 = arctan2
asinh = arcsinh
acosh = arccosh
atanh = arctanh
