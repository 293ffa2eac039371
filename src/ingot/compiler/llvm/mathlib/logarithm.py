"""Logarithms: log, log2, log10, log1p.

x is 2^e (1 + f) with a whole e; log(1 + f) is a polynomial in f for floats, and in f / (2 + f) for
doubles, where that needs fewer terms than a division costs.
"""

from __future__ import annotations

from math import inf, nan

from ingot.compiler.llvm.mathlib.arithmetic import exact_sum
from ingot.compiler.llvm.mathlib.coefficients import LOGARITHM, LOGARITHM_OF_RATIO
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.number import Bits, Number, absolute, fma, select

__all__ = ["decomposed", "log", "log1p", "log2", "log10", "whole_number"]


def decomposed(x: Number) -> tuple[Bits, Number]:
    """e and f of a positive normal number 2^e (1 + f); 1 + f is between 2/3 and 4/3 for floats,
    sqrt(1/2) and sqrt(2) for doubles.
    """
    constants = format_of(x)
    first = x.constant(0.7071067811865476 if x.is_double else 0.6666667).bits()
    above = x.bits() - first
    exponent = above.shift_signed(constants.mantissa)
    mantissa = (above & ((1 << constants.mantissa) - 1)) + first
    return exponent, mantissa.number() - 1.0


def whole_number(integer: Bits, like: Number) -> Number:
    """A small integer as a number.

    It is added to the lowest bits of a large number, which is subtracted again: doubles have no
    conversion that is an instruction everywhere.
    """
    if not like.is_double:
        return integer.converted()
    rounding = like.constant(format_of(like).rounding)
    return (integer + rounding.bits()).number() - rounding


def log_rest(f: Number) -> Number:
    """log(1 + f) - f, accurate relative to log(1 + f)."""
    if not f.is_double:
        return f * f * fma(f, LOGARITHM(f), -0.5)
    # With s = f / (2 + f), log(1 + f) = 2 s + s^3 P, and 2 s = f - f^2 / 2 + s f^2 / 2.
    s = f / (f + 2.0)
    square = s * s
    half = f * f * 0.5
    return fma(s, fma(square, LOGARITHM_OF_RATIO(square), half), -half)


def _with_special_values(x: Number, found: Number) -> Number:
    """A logarithm with its special values: at 0, for negative numbers, infinity and NaN."""
    found = select(x < inf, found, x)
    found = select(x < 0.0, x.constant(nan), found)
    return select(x.equals(0.0), x.constant(-inf), found)


def _parts(x: Number) -> tuple[Number, Number, Number]:
    """e, f and log(1 + f) - f of a positive number, which may be denormal."""
    constants = format_of(x)
    steps = constants.mantissa
    denormal = x < constants.smallest
    exponent, f = decomposed(select(denormal, x * 2.0**steps, x))
    e = whole_number(exponent, x)
    e = select(denormal, e - float(steps), e)
    return e, f, log_rest(f)


def log(x: Number) -> Number:
    """The natural logarithm."""
    constants = format_of(x)
    e, f, rest = _parts(x)
    found = fma(e, constants.log_2_high, f + fma(e, constants.log_2_low, rest))
    return _with_special_values(x, found)


def log2(x: Number) -> Number:
    """The logarithm to base 2."""
    constants = format_of(x)
    e, f, rest = _parts(x)
    low = fma(f, constants.log2_e_low, rest * constants.log2_e_high)
    return _with_special_values(x, fma(f, constants.log2_e_high, low) + e)


def log10(x: Number) -> Number:
    """The logarithm to base 10."""
    constants = format_of(x)
    e, f, rest = _parts(x)
    low = fma(f, constants.log10_e_low, rest * constants.log10_e_high)
    low = fma(e, constants.log10_2_low, low)
    found = fma(e, constants.log10_2_high, fma(f, constants.log10_e_high, low))
    return _with_special_values(x, found)


def log1p(x: Number) -> Number:
    """log(1 + x)."""
    found = logarithm_of_one_plus(x, x.constant(0.0))
    found = select(x < inf, found, x)
    found = select(x < -1.0, x.constant(nan), found)
    found = select(x.equals(-1.0), x.constant(-inf), found)
    return select(absolute(x) < 2.0 ** -(format_of(x).mantissa + 2), x, found)


def logarithm_of_one_plus(high: Number, low: Number) -> Number:
    """log(1 + high + low) for finite high > -1 and |low| much less than |high|.

    The sum with 1 is kept in two parts. The lower one, brought to the scale of f, is added to f,
    which then is exact for high near 0.
    """
    constants = format_of(high)
    one = high.constant(1.0)
    total, rest = exact_sum(one, high)
    exponent, f = decomposed(total)
    # 2^-e, where e is not so large that the rest does not count
    inverse = ((constants.bias - exponent.minimum(100)) << constants.mantissa).number()
    f, f_low = exact_sum(f, (rest + low) * inverse)
    e = whole_number(exponent, high)
    # log(1 + f + f_low) = log(1 + f) + f_low / (1 + f), nearly
    small = fma(e, constants.log_2_low, log_rest(f)) + fma(-f, f_low, f_low)
    return fma(e, constants.log_2_high, f + small)
