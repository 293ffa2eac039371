"""Complex functions of generated code: complex64, whose parts are two float registers.

Everything but sums and products is computed in double: squares of floats are exact there and do not
overflow, so that the textbook formulas are accurate enough without rescaling.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from math import log as natural_log
from typing import Any, NamedTuple

from ingot.compiler.llvm import mathlib
from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.number import (
    Condition,
    Number,
    absolute,
    copy_sign,
    select,
    square_root,
)
from ingot.graph.dtype import bool_

# An element of emit.py: `register` and `imaginary`, and a constructor (register, dtype, imaginary).
Element = Any


class Pair(NamedTuple):
    """The two parts, as doubles."""

    real: Number
    imaginary: Number


def _parts(code: Code, x: Element) -> Pair:
    return Pair(Number(code, x.register).double(), Number(code, x.imaginary).double())


def _element(like: Element, x: Pair) -> Element:
    return type(like)(x.real.single().register, like.dtype, x.imaginary.single().register)


def _real_function(name: str) -> Callable[[Number], Number]:
    def function(x: Number) -> Number:
        return Number(x.code, mathlib.function(name)(x.code, x.register))

    return function


_exp, _log, _log1p = _real_function("exp"), _real_function("log"), _real_function("log1p")
_sin, _cos = _real_function("sin"), _real_function("cos")
_sinh, _cosh = _real_function("sinh"), _real_function("cosh")
_real_tan, _real_arcsinh = _real_function("tan"), _real_function("arcsinh")


def _angle(y: Number, x: Number) -> Number:
    return Number(x.code, mathlib.arctan2(x.code, y.register, x.register))


# Arithmetic


def add(code: Code, a: Element, b: Element) -> Element:
    """a + b."""
    real = code.binary("fadd", a.register, b.register)
    return type(a)(real, a.dtype, code.binary("fadd", a.imaginary, b.imaginary))


def subtract(code: Code, a: Element, b: Element) -> Element:
    """a - b."""
    real = code.binary("fsub", a.register, b.register)
    return type(a)(real, a.dtype, code.binary("fsub", a.imaginary, b.imaginary))


def multiply(code: Code, a: Element, b: Element) -> Element:
    """a * b: the textbook formula, in float, as NumPy's."""
    x, y = Number(code, a.register), Number(code, a.imaginary)
    u, v = Number(code, b.register), Number(code, b.imaginary)
    real = x * u - y * v
    imaginary = x * v + y * u
    return type(a)(real.register, a.dtype, imaginary.register)


def divide(code: Code, a: Element, b: Element) -> Element:
    """a / b by Smith's formula, as NumPy's, so that infinite parts mean the same."""
    return _element(a, _quotient(_parts(code, a), _parts(code, b)))


def _quotient(a: Pair, b: Pair) -> Pair:
    upright = absolute(b.real) >= absolute(b.imaginary)
    large, small = select(upright, b.real, b.imaginary), select(upright, b.imaginary, b.real)
    p, q = select(upright, a.real, a.imaginary), select(upright, a.imaginary, a.real)
    by_zero = b.real.equals(0.0) & b.imaginary.equals(0.0)
    ratio = small / large
    scale = 1.0 / (large + small * ratio)
    real = (p + q * ratio) * scale
    imaginary = (q - p * ratio) * scale
    imaginary = select(upright, imaginary, -imaginary)
    zero = absolute(large)
    return Pair(
        select(by_zero, a.real / zero, real), select(by_zero, a.imaginary / zero, imaginary)
    )


def power(code: Code, a: Element, b: Element) -> Element:
    """a to the power of b: exp(b log(a)). For a = 0: 1 if b is 0, and 0 if b is positive."""
    base, exponent = _parts(code, a), _parts(code, b)
    logarithm = _logarithm(base)
    product = _product(exponent, logarithm)
    found = _exponential(product)
    zero = base.real.equals(0.0) & base.imaginary.equals(0.0)
    one = exponent.real.equals(0.0) & exponent.imaginary.equals(0.0)
    nothing = zero & (exponent.real > 0.0)
    constant = base.real.constant
    real = select(one, constant(1.0), select(nothing, constant(0.0), found.real))
    imaginary = select(one | nothing, constant(0.0), found.imaginary)
    return _element(a, Pair(real, imaginary))


def _product(a: Pair, b: Pair) -> Pair:
    real = a.real * b.real - a.imaginary * b.imaginary
    return Pair(real, a.real * b.imaginary + a.imaginary * b.real)


def modulus(code: Code, x: Element) -> Register:
    """The modulus, a float register; infinite if any part is."""
    z = _parts(code, x)
    found = square_root(_squares(z))
    return select(_is_infinite(z), found.constant(inf), found).single().register


def _squares(z: Pair) -> Number:
    """The sum of squares: exact but for one rounding, and far from overflow, in double."""
    return z.real * z.real + z.imaginary * z.imaginary


def _is_infinite(z: Pair) -> Condition:
    return absolute(z.real).equals(inf) | absolute(z.imaginary).equals(inf)


# Order


def compare(code: Code, predicate: str, a: Element, b: Element) -> Element:
    """LLVM's oeq, une, olt, ole, ogt or oge, by real parts first; no order if a part is NaN."""
    real = code.compare(f"fcmp {predicate}", a.register, b.register)
    imaginary = code.compare(f"fcmp {predicate}", a.imaginary, b.imaginary)
    if predicate == "oeq":
        return type(a)(code.binary("and", real, imaginary), bool_)
    if predicate == "une":
        return type(a)(code.binary("or", real, imaginary), bool_)
    strict = code.compare(f"fcmp {predicate[:2]}t", a.register, b.register)
    comparable = code.compare("fcmp ord", a.imaginary, b.imaginary)
    same = code.compare("fcmp oeq", a.register, b.register)
    first = code.binary("and", strict, comparable)
    second = code.binary("and", same, imaginary)
    return type(a)(code.binary("or", first, second), bool_)


def extreme(kernel: Any, is_maximum: bool, a: Element, b: Element) -> Element:
    """The larger or the smaller in the order of `compare`; an operand with a NaN wins."""
    code = kernel.code
    is_nan = code.compare("fcmp uno", a.register, a.imaginary)
    other_nan = code.compare("fcmp uno", b.register, b.imaginary)
    first = compare(code, "oge" if is_maximum else "ole", a, b).register
    first = code.binary("or", is_nan, first)
    keep = code.select(other_nan, is_nan, first)
    real = code.select(keep, a.register, b.register)
    return type(a)(real, a.dtype, code.select(keep, a.imaginary, b.imaginary))


# Functions: each is written for a pair of doubles


def _square_root(z: Pair) -> Pair:
    half = square_root((square_root(_squares(z)) + absolute(z.real)) * 0.5)
    other = absolute(z.imaginary) / (half + half)
    other = select(half.equals(0.0), half, other)
    right = z.real >= 0.0
    real, imaginary = select(right, half, other), select(right, other, half)
    endless = absolute(z.imaginary).equals(inf)
    real = select(endless, real.constant(inf), real)
    imaginary = select(endless, real.constant(inf), imaginary)
    return Pair(real, copy_sign(imaginary, z.imaginary))


def _reciprocal_root(z: Pair) -> Pair:
    root = _square_root(z)
    one = root.real.constant(1.0)
    return _quotient(Pair(one, root.real.constant(0.0)), root)


def _exponential(z: Pair) -> Pair:
    scale = _exp(z.real)
    real = scale * _cos(z.imaginary)
    imaginary = scale * _sin(z.imaginary)
    # An infinite scale times 0, and 0 times the sine of an infinite angle
    on_axis = z.imaginary.equals(0.0)
    real = select(on_axis, scale, real)
    imaginary = select(on_axis, z.imaginary, imaginary)
    vanishing = z.real.equals(-inf) & (z.imaginary - z.imaginary).is_nan()
    real = select(vanishing, scale, real)
    return Pair(real, select(vanishing, scale, imaginary))


def _log_modulus(squares: Number, squares_less_one: Number) -> Number:
    """log |z| from |z|^2 and, for moduli near 1, |z|^2 - 1."""
    far = squares < 0.5
    return select(far, _log(squares), _log1p(squares_less_one)) * 0.5


def _logarithm(z: Pair) -> Pair:
    x, y = absolute(z.real), absolute(z.imaginary)
    steep = x < y
    large, small = select(steep, y, x), select(steep, x, y)
    less_one = (large - 1.0) * (large + 1.0) + small * small
    found = _log_modulus(_squares(z), less_one)
    found = select(_is_infinite(z), found.constant(inf), found)
    return Pair(found, _angle(z.imaginary, z.real))


def _scaled_logarithm(base: float) -> Callable[[Pair], Pair]:
    factor = 1.0 / natural_log(base)

    def function(z: Pair) -> Pair:
        found = _logarithm(z)
        return Pair(found.real * factor, found.imaginary * factor)

    return function


def _logarithm_of_one_plus(z: Pair) -> Pair:
    moved = Pair(z.real + 1.0, z.imaginary)
    less_one = z.real * (z.real + 2.0) + z.imaginary * z.imaginary
    found = _log_modulus(_squares(moved), less_one)
    found = select(_is_infinite(z), found.constant(inf), found)
    return Pair(found, _angle(z.imaginary, moved.real))


def _sine(z: Pair) -> Pair:
    return _turned_back(_hyperbolic_sine(_turned(z)))


def _cosine(z: Pair) -> Pair:
    return _hyperbolic_cosine(_turned(z))


def _tangent(z: Pair) -> Pair:
    return _turned_back(_hyperbolic_tangent(_turned(z)))


def _turned(z: Pair) -> Pair:
    """i z, which relates circular functions to hyperbolic ones."""
    return Pair(-z.imaginary, z.real)


def _turned_back(z: Pair) -> Pair:
    """-i z."""
    return Pair(z.imaginary, -z.real)


def _times(a: Number, b: Number) -> Number:
    """a * b, where a 0 wins over an infinite or NaN factor."""
    product = a * b
    zero = select(b.equals(0.0), b, select(a.equals(0.0), a, product))
    return select(product.is_nan(), zero, product)


def _hyperbolic_sine(z: Pair) -> Pair:
    real = _times(_sinh(z.real), _cos(z.imaginary))
    return Pair(real, _times(_cosh(z.real), _sin(z.imaginary)))


def _hyperbolic_cosine(z: Pair) -> Pair:
    real = _times(_cosh(z.real), _cos(z.imaginary))
    return Pair(real, _times(_sinh(z.real), _sin(z.imaginary)))


def _hyperbolic_tangent(z: Pair) -> Pair:
    """With t = tan(y) and s = sinh(x): (s sqrt(1 + s^2) (1 + t^2) + i t) / (1 + s^2 (1 + t^2)).

    There is no cancellation near the poles. Beyond |x| = 60 the real part is 1 and the imaginary
    one less than any float.
    """
    limit = copy_sign(z.real.constant(60.0), z.real)
    s = _sinh(select(absolute(z.real) > 60.0, limit, z.real))
    t = _real_tan(z.imaginary)
    slope = 1.0 + t * t
    below = 1.0 + slope * s * s
    real, imaginary = slope * square_root(1.0 + s * s) * s / below, t / below
    endless = absolute(z.real).equals(inf)
    real = select(endless, copy_sign(real.constant(1.0), z.real), real)
    return Pair(real, select(endless & t.is_nan(), real.constant(0.0), imaginary))


def _square_roots_around(z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z), the terms of Kahan's formulas for the inverse functions."""
    below = Pair(1.0 - z.real, -z.imaginary)
    above = Pair(1.0 + z.real, z.imaginary)
    return _square_root(below), _square_root(above)


def _inverse_sine(z: Pair) -> Pair:
    below, above = _square_roots_around(z)
    real = below.real * above.real - below.imaginary * above.imaginary
    imaginary = below.real * above.imaginary - below.imaginary * above.real
    real = select(_is_infinite(z), absolute(z.imaginary), real)
    return Pair(_angle(z.real, real), _real_arcsinh(imaginary))


def _inverse_cosine(z: Pair) -> Pair:
    below, above = _square_roots_around(z)
    imaginary = above.real * below.imaginary - above.imaginary * below.real
    real = _angle(below.real, above.real) * 2.0
    endless = _angle(absolute(z.imaginary), z.real)
    return Pair(select(_is_infinite(z), endless, real), _real_arcsinh(imaginary))


def _inverse_tangent(z: Pair) -> Pair:
    return _turned_back(_inverse_hyperbolic_tangent(_turned(z)))


def _inverse_hyperbolic_sine(z: Pair) -> Pair:
    return _turned_back(_inverse_sine(_turned(z)))


def _inverse_hyperbolic_cosine(z: Pair) -> Pair:
    below = _square_root(Pair(z.real - 1.0, z.imaginary))
    above = _square_root(Pair(z.real + 1.0, z.imaginary))
    real = below.real * above.real + below.imaginary * above.imaginary
    imaginary = _angle(below.imaginary, above.real) * 2.0
    endless = _angle(z.imaginary, z.real)
    return Pair(_real_arcsinh(real), select(_is_infinite(z), endless, imaginary))


def _inverse_hyperbolic_tangent(z: Pair) -> Pair:
    x = absolute(z.real)
    square = z.imaginary * z.imaginary
    real = _log1p(4.0 * x / ((1.0 - x) * (1.0 - x) + square)) * 0.25
    imaginary = _angle(z.imaginary * 2.0, (1.0 - x) * (1.0 + x) - square) * 0.5
    endless = _is_infinite(z)
    real = select(endless, real.constant(0.0), real)
    quarter = copy_sign(real.constant(pi / 2), z.imaginary)
    imaginary = select(endless & ~z.imaginary.is_nan(), quarter, imaginary)
    return Pair(copy_sign(real, z.real), imaginary)


def _word(function: Callable[[Pair], Pair]) -> Callable[[Code, Element], Element]:
    def word(code: Code, x: Element) -> Element:
        return _element(x, function(_parts(code, x)))

    return word


sqrt = _word(_square_root)
rsqrt = _word(_reciprocal_root)
exp = _word(_exponential)
log = _word(_logarithm)
log2 = _word(_scaled_logarithm(2.0))
log10 = _word(_scaled_logarithm(10.0))
log1p = _word(_logarithm_of_one_plus)
sin = _word(_sine)
cos = _word(_cosine)
tan = _word(_tangent)
sinh = _word(_hyperbolic_sine)
cosh = _word(_hyperbolic_cosine)
tanh = _word(_hyperbolic_tangent)
arcsin = _word(_inverse_sine)
arccos = _word(_inverse_cosine)
arctan = _word(_inverse_tangent)
arcsinh = _word(_inverse_hyperbolic_sine)
arccosh = _word(_inverse_hyperbolic_cosine)
arctanh = _word(_inverse_hyperbolic_tangent)
