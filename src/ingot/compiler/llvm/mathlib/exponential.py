"""Exponentials: exp, expm1, and the hyperbolic functions.

x is n log(2) + r with a whole n and |r| <= log(2) / 2; exp(r) is a polynomial, and 2^n is made from
the bits of n.
"""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.arithmetic import divided, fast_sum
from ingot.compiler.llvm.mathlib.coefficients import (
    EXPONENTIAL,
    EXPONENTIAL_MINUS_ONE,
    EXPONENTIAL_SHORT,
    HYPERBOLIC_SINE,
    HYPERBOLIC_TANGENT,
)
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.number import (
    Bits,
    Number,
    absolute,
    clamped,
    copy_sign,
    fma,
    scale,
    select,
)
from ingot.graph.lazy_dataclass import dataclass
from ingot.runtime.processor import processor_features

__all__ = [
    "cosh",
    "exp",
    "expm1",
    "exponential_of_pair",
    "half_exp",
    "scaled",
    "scaled_in_two_steps",
    "sinh",
    "tanh",
]

LOG2_E = 1.4426950408889634
LOG_2 = 0.6931471805599453


@dataclass(frozen=True)
class Reduced:
    """n as an integer, and r = `rest` + `tail`."""

    integer: Bits
    rest: Number
    tail: Number


def reduced(x: Number) -> Reduced:
    """Subtracts multiples of log(2).

    n is rounded by adding a constant so large that the sum has no fraction bits; its lowest bits
    are then n. Conversions would be undefined for NaN and slow for doubles.
    """
    constants = format_of(x)
    shifted = fma(x, LOG2_E, constants.rounding)
    whole = shifted - constants.rounding
    integer = shifted.bits() - x.constant(constants.rounding).bits()
    high = fma(whole, -constants.log_2_high, x)
    rest = fma(whole, -constants.log_2_low, high)
    tail = fma(whole, -constants.log_2_low, high - rest)
    return Reduced(integer, rest, tail)


def power_of_two(exponent: Bits, like: Number) -> Number:
    """2^exponent, which must be a normal number."""
    constants = format_of(like)
    return ((exponent + constants.bias) << constants.mantissa).number()


def scaled(x: Number, exponent: Bits) -> Number:
    """x times 2^exponent, which may overflow or be denormal: rounded once either way."""
    if "avx512f" in processor_features():
        return scale(x, exponent)
    return scaled_in_two_steps(x, exponent)


def scaled_in_two_steps(x: Number, exponent: Bits) -> Number:
    """The same by two multiplications, of which the first is exact."""
    half = exponent.shift_signed(1)
    return x * power_of_two(half, x) * power_of_two(exponent - half, x)


def exp(x: Number) -> Number:
    """e^x. Error: 0.5 ulp of the last addition, and about 0.4 ulp before it."""
    constants = format_of(x)
    x = clamped(x, constants.lowest_exponential, constants.highest_exponential)
    parts = reduced(x)
    r = parts.rest
    return scaled(fma(r * r, EXPONENTIAL(r), r) + 1.0, parts.integer)


def half_exp(x: Number) -> Number:
    """e^x for half types, to which the result is rounded: error at most 0.51 ulp of a float16. That
    of log(2) as a float32 counts up to 150 times, but for float16, whose exponentials overflow or
    vanish before, up to 25 times.
    """
    constants = format_of(x)
    x = clamped(x, constants.lowest_exponential, constants.highest_exponential)
    shifted = fma(x, LOG2_E, constants.rounding)
    integer = shifted.bits() - x.constant(constants.rounding).bits()
    r = fma(shifted - constants.rounding, -LOG_2, x)
    return scaled(fma(fma(EXPONENTIAL_SHORT(r), r, 1.0), r, 1.0), integer)


def exponential_of_pair(high: Number, low: Number) -> Number:
    """e^(high + low), where low is small."""
    constants = format_of(high)
    parts = reduced(clamped(high, constants.lowest_exponential, constants.highest_exponential))
    r, tail = fast_sum(parts.rest, parts.tail + low)
    return scaled(r + fma(r * r, EXPONENTIAL(r), tail) + 1.0, parts.integer)


def expm1(x: Number) -> Number:
    """e^x - 1 = 2^n (expm1(r) + 1) - 1, where only the last addition loses accuracy.

    Half of it is computed, because 2^n may overflow. Where x^2 / 2 is below the precision, the
    result is x.
    """
    constants = format_of(x)
    parts = reduced(clamped(x, -40.0, constants.highest_exponential))
    half = power_of_two(parts.integer - 1, x)
    r = parts.rest
    rest = fma(r * r, EXPONENTIAL_MINUS_ONE(r), parts.tail)
    found = fma(half, rest, fma(half, r, half - 0.5)) * 2.0
    return select(absolute(x) < 2.0 ** -(constants.mantissa + 2), x, found)


def _half_exponential(x: Number) -> Number:
    """e^x / 2 for x >= 0, which overflows only where the result does."""
    constants = format_of(x)
    parts = reduced(clamped(x, 0.0, constants.highest_exponential + 1.0))
    r = parts.rest
    found = r + fma(r * r, EXPONENTIAL_MINUS_ONE(r), parts.tail) + 1.0
    return scaled(found, parts.integer - 1)


def sinh(x: Number) -> Number:
    """(e^x - e^-x) / 2; near 0, where that cancels, a polynomial."""
    modulus = absolute(x)
    half = _half_exponential(modulus)
    far = half - 0.25 / half
    square = x * x
    near = fma(modulus * square, HYPERBOLIC_SINE(square), modulus)
    return copy_sign(select(modulus < 1.0, near, far), x)


def cosh(x: Number) -> Number:
    """(e^x + e^-x) / 2."""
    half = _half_exponential(absolute(x))
    return half + 0.25 / half


def tanh(x: Number) -> Number:
    """The hyperbolic tangent."""
    return _double_tanh(x) if x.is_double else _single_tanh(x)


def _single_tanh(x: Number) -> Number:
    """1 - 2 / (e^2x + 1); near 0, where that cancels, a polynomial. Beyond 10, 1."""
    modulus = absolute(x)
    parts = reduced(clamped(modulus + modulus, 0.0, 20.0))
    r = parts.rest
    exponential = fma(r * r, EXPONENTIAL(r), r) + 1.0
    exponential = exponential * power_of_two(parts.integer, x)
    far = 1.0 - 2.0 / (exponential + 1.0)
    square = x * x
    near = fma(modulus * square, HYPERBOLIC_TANGENT(square), modulus)
    return copy_sign(select(modulus < 0.625, near, far), x)


def _double_tanh(x: Number) -> Number:
    """t / (t + 2) with t = expm1(2x), a sum of two numbers, as is the divisor. Beyond 20, 1."""
    modulus = absolute(x)
    parts = reduced(clamped(modulus + modulus, 0.0, 40.0))
    scale = power_of_two(parts.integer, x)
    r = parts.rest
    rest = fma(r * r, EXPONENTIAL_MINUS_ONE(r), parts.tail)
    first = fma(scale, r, scale - 1.0)
    above, above_low = fast_sum(first, scale * rest)
    below, below_low = fast_sum(above.constant(2.0), above)
    found = divided(above, above_low, below, below_low + above_low)
    return copy_sign(select(modulus < 1e-9, modulus, found), x)
