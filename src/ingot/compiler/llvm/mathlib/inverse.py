"""Inverse functions: of the circular ones by polynomials, of the hyperbolic ones by logarithms."""

from __future__ import annotations

from math import inf, nan

from ingot.compiler.llvm.mathlib.arithmetic import exact_sum, fast_sum
from ingot.compiler.llvm.mathlib.coefficients import ARCSINE, ARCTANGENT
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.logarithm import logarithm_of_one_plus
from ingot.compiler.llvm.mathlib.number import (
    Condition,
    Number,
    absolute,
    copy_sign,
    fma,
    select,
    square_root,
)

__all__ = ["arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh"]

LOG_2 = 0.6931471805599453


def _arcsine_parts(modulus: Number) -> tuple[Number, Number]:
    """s and arcsin(s) - s, where s is x up to 1/2 and sqrt((1 - x) / 2) beyond."""
    far = modulus > 0.5
    square = select(far, fma(modulus, -0.5, 0.5), modulus * modulus)
    s = select(far, square_root(square), modulus)
    return s, s * square * ARCSINE(square)


def arcsin(x: Number) -> Number:
    """Beyond 1/2, pi / 2 - 2 arcsin(sqrt((1 - x) / 2))."""
    constants = format_of(x)
    modulus = absolute(x)
    s, rest = _arcsine_parts(modulus)
    first, lost = fast_sum(x.constant(constants.half_pi_high), s * -2.0)
    far = first + (lost + fma(rest, -2.0, constants.half_pi_low))
    return copy_sign(select(modulus > 0.5, far, s + rest), x)


def arccos(x: Number) -> Number:
    """pi / 2 - arcsin(x), with the same two cases, and pi - arccos(-x)."""
    constants = format_of(x)
    modulus = absolute(x)
    s, rest = _arcsine_parts(modulus)
    negative = x < 0.0
    low = select(negative, rest + constants.half_pi_low, constants.half_pi_low - rest)
    signed = select(negative, s, -s)
    near = constants.half_pi_high + signed + low
    far = s + rest
    opposite = constants.half_pi_high - (far - constants.half_pi_low)
    far = select(negative, opposite, far) * 2.0
    return select(modulus > 0.5, far, near)


def arctan(x: Number) -> Number:
    """Beyond 1, pi / 2 - arctan(1 / x)."""
    constants = format_of(x)
    modulus = absolute(x)
    far = modulus > 1.0
    ratio = select(far, 1.0 / modulus, modulus)
    found = _arctangent(ratio)
    opposite = constants.half_pi_high - (found - constants.half_pi_low)
    return copy_sign(select(far, opposite, found), x)


def _arctangent(ratio: Number) -> Number:
    """Between 0 and 1."""
    square = ratio * ratio
    return fma(ratio * square, ARCTANGENT(square), ratio)


def arctan2(y: Number, x: Number) -> Number:
    """The angle of a point: arctan of the lesser by the greater coordinate, moved to its octant."""
    constants = format_of(x)
    vertical, horizontal = absolute(y), absolute(x)
    steep = vertical > horizontal
    small, large = select(steep, horizontal, vertical), select(steep, vertical, horizontal)
    diagonal = select(small.equals(0.0), small, 1.0)  # 0 / 0 and infinity / infinity
    angle = _arctangent(select(small.equals(large), diagonal, small / large))
    left = x.is_negative()
    zero = x.constant(0.0)
    turns_high = select(left, x.constant(2.0 * constants.half_pi_high), zero)
    turns_low = select(left, x.constant(2.0 * constants.half_pi_low), zero)
    high = select(steep, x.constant(constants.half_pi_high), turns_high)
    low = select(steep, x.constant(constants.half_pi_low), turns_low)
    angle = select(steep ^ left, -angle, angle)
    return copy_sign(high + (angle + low), y)


def arcsinh(x: Number) -> Number:
    """log(1 + (x + x^2 / (1 + sqrt(1 + x^2)))); for large x, log(x) + log(2)."""
    modulus = absolute(x)
    large = modulus > 2.0**56
    square = modulus * modulus
    rest = square / (square_root(square + 1.0) + 1.0)
    high, low = fast_sum(modulus, rest)
    return copy_sign(_logarithm(modulus, large, high, low), x)


def arccosh(x: Number) -> Number:
    """With t = x - 1, log(1 + (t + sqrt(2 t + t^2))); for large x, log(x) + log(2)."""
    large = x > 2.0**56
    t = x - 1.0
    high, low = exact_sum(t, square_root(fma(t, t, t + t)))
    return select(x < 1.0, x.constant(nan), _logarithm(x, large, high, low))


def _logarithm(x: Number, large: Condition, high: Number, low: Number) -> Number:
    """log(1 + high + low), or log(x) + log(2) where x is so large that 1 + x is x."""
    high = select(large, x, high)
    low = select(large, x.constant(0.0), low)
    found = logarithm_of_one_plus(high, low)
    found = select(large, found + LOG_2, found)
    return select(x < inf, found, x)


def arctanh(x: Number) -> Number:
    """log(1 + 2 x / (1 - x)) / 2, with the quotient in two parts."""
    modulus = absolute(x)
    below, below_low = fast_sum(x.constant(1.0), -modulus)
    inverse = 1.0 / below
    above = modulus + modulus
    quotient = above * inverse
    low = (fma(-quotient, below, above) - quotient * below_low) * inverse
    found = logarithm_of_one_plus(quotient, low) * 0.5
    found = select(modulus.equals(1.0), x.constant(inf), found)
    found = select(modulus > 1.0, x.constant(nan), found)
    return copy_sign(found, x)
