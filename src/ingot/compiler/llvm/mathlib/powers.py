"""Powers: of floating-point numbers as exp(b log(a)), of integers by squaring.

An error of the logarithm is multiplied by an exponent that may be as large as 709, so the logarithm
needs ten more bits than the type has. For floats all is computed in double; for doubles the
logarithm is a sum of two.
"""

from __future__ import annotations

from math import inf, nan

from ingot.compiler.llvm.code import Code, Register, lane_type, literal
from ingot.compiler.llvm.mathlib.arithmetic import Pair, exact_product, fast_sum
from ingot.compiler.llvm.mathlib.coefficients import (
    EXPONENTIAL,
    LOGARITHM_OF_RATIO_SHORT,
    POWER_LOGARITHM,
)
from ingot.compiler.llvm.mathlib.exponential import exponential_of_pair, power_of_two
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.logarithm import decomposed, whole_number
from ingot.compiler.llvm.mathlib.number import (
    Number,
    absolute,
    clamped,
    floor,
    fma,
    select,
    square_root,
)
from ingot.compiler.llvm.mathlib.polynomial import Polynomial

__all__ = ["integer_power", "power", "rsqrt"]

LOG_2 = 0.6931471805599453
LOG2_E = 1.4426950408889634
# Polynomials that are accurate enough for floats serve in double too, if the result is a float.
SHORT_EXPONENTIAL = Polynomial(double=EXPONENTIAL.single)
TWO_THIRDS = 0.6666666666666666
TWO_THIRDS_REST = 3.700743415417188e-17


def power(a: Number, b: Number) -> Number:
    """a to the power of b, with the special values of C's pow."""
    modulus = absolute(a)
    found = _double_power(modulus, b) if a.is_double else _single_power(modulus, b)
    downward = b < 0.0
    infinity, zero = a.constant(inf), a.constant(0.0)
    found = select(modulus.equals(0.0), select(downward, infinity, zero), found)
    found = select(modulus.equals(inf), select(downward, zero, infinity), found)
    whole = floor(b).equals(b)
    half = b * 0.5
    odd = whole & floor(half).differs(half)
    found = select(odd & a.is_negative(), -found, found)
    # An infinite base has powers of either sign; infinite exponents count as even integers.
    found = select((a < 0.0) & (a > -inf) & ~whole, a.constant(nan), found)
    found = select(a.is_nan() | b.is_nan(), a.constant(nan), found)
    one = a.equals(1.0) | b.equals(0.0) | (a.equals(-1.0) & absolute(b).equals(inf))
    return select(one, a.constant(1.0), found)


def _single_power(modulus: Number, b: Number) -> Number:
    """2^(b log2(a)) in double, where no float is denormal and results do not overflow."""
    exponent, f = decomposed(modulus.double())
    s = f / (f + 2.0)
    square = s * s
    logarithm = fma(s * square, LOGARITHM_OF_RATIO_SHORT(square), s + s)
    logarithm = fma(logarithm, LOG2_E, whole_number(exponent, f))
    product = clamped(logarithm * b.double(), -1000.0, 1000.0)
    rounding = format_of(f).rounding
    shifted = product + rounding
    rest = (product - (shifted - rounding)) * LOG_2
    found = fma(rest * rest, SHORT_EXPONENTIAL(rest), rest) + 1.0
    scale = power_of_two(shifted.bits() - f.constant(rounding).bits(), f)
    return (found * scale).single()


def _double_power(modulus: Number, b: Number) -> Number:
    high, low = _logarithm(modulus)
    product, rest = exact_product(high, b)
    rest = fma(low, b, rest)
    # The low part may be NaN if the exponent is infinite or nearly so.
    return exponential_of_pair(product, select(absolute(product) < 1000.0, rest, 0.0))


def _logarithm(x: Number) -> Pair:
    """log(x) as a sum of two, with an error of about 2^-64.

    With s = f / (2 + f): log(1 + f) = 2 s + s^3 (2/3 + s^2 P). 2 s is at least 100 times the rest,
    and 2/3 at least 50 times s^2 P, so later terms need less precision.
    """
    constants = format_of(x)
    denormal = x < constants.smallest
    exponent, f = decomposed(select(denormal, x * 2.0**54, x))
    e = whole_number(exponent, x)
    e = select(denormal, e - 54.0, e)
    below, below_low = fast_sum(x.constant(2.0), f)
    inverse = 1.0 / below
    s = f * inverse
    s_low = (fma(-s, below, f) - s * below_low) * inverse
    square, square_low = exact_product(s, s)
    square_low = fma(s + s, s_low, square_low)
    factor, factor_low = fast_sum(x.constant(TWO_THIRDS), square * POWER_LOGARITHM(square))
    factor_low = factor_low + TWO_THIRDS_REST
    term, term_low = exact_product(square, factor)
    term_low = fma(square, factor_low, fma(square_low, factor, term_low))
    rest, rest_low = exact_product(s, term)
    rest_low = fma(s, term_low, fma(s_low, term, rest_low))
    high, first = fast_sum(e * constants.log_2_high, s + s)
    high, second = fast_sum(high, rest)
    low = first + second + fma(e, constants.log_2_low, s_low + s_low + rest_low)
    return fast_sum(high, low)


def rsqrt(x: Number) -> Number:
    """1 / sqrt(x). Both operations are correctly rounded: 1.5 ulp together."""
    return 1.0 / square_root(x)


def integer_power(code: Code, a: Register, b: Register, unsigned: bool) -> Register:
    """a to the power of b modulo the width, by squaring; 0 for negative b.

    One step for each bit of b that can matter: odd numbers to the power of 2^(width - 2) are 1, and
    even numbers to a power of at least the width are 0, which repeated squaring gives anyway.
    """
    width = int(lane_type(a.type)[1:])
    one, zero = literal(a.type, 1), literal(a.type, 0)
    result, square = one, a
    for bit in range(width):
        if bit == width - 1 and not unsigned:
            break  # the sign
        selected = code.binary("and", b, code.constant(1 << bit, b))
        taken = code.compare("icmp ne", selected, zero)
        result = code.binary("mul", result, code.select(taken, square, one))
        square = code.binary("mul", square, square)
    if unsigned:
        return result
    return code.select(code.compare("icmp slt", b, zero), zero, result)
