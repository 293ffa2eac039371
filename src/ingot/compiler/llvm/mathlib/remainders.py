"""The remainder of a division, exactly, whatever the sizes.

With integers A and B, |a| = A 2^i and |b| = B 2^j, the remainder of |a| by |b| for i >= j is 2^j
times A 2^(i - j) modulo B. The power of two modulo B is found by squaring, a few steps even where
the quotient has hundreds of digits.
"""

from __future__ import annotations

from math import inf, nan

from ingot.compiler.llvm.mathlib.exponential import power_of_two, scaled
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.number import (
    Bits,
    Number,
    absolute,
    copy_sign,
    floor,
    fma,
    nearest,
    select,
    select_bits,
)

__all__ = ["remainder"]


def remainder(a: Number, b: Number) -> Number:
    """a - floor(a / b) b, with b's sign; NaN for b = 0. If b is infinite, a or b."""
    above, below = absolute(a), absolute(b)
    rest = _double_rest(above, below) if a.is_double else _single_rest(above, below)
    rest = select(above < below, above, rest)
    rest = copy_sign(rest, a)
    different = a.is_negative() ^ b.is_negative()
    found = select(different, rest + b, rest)
    found = select(rest.equals(0.0), rest, found)  # a zero has the sign of a, as C's fmod gives it
    valid = (above < inf) & (below > 0.0)
    return select(valid, found, a.constant(nan))


def _mantissa(x: Number) -> Number:
    """The mantissa of a positive normal double, as a whole number of 53 bits."""
    digits = (1 << 52) - 1
    return ((x.bits() & digits) | ((1023 + 52) << 52)).number()


def _single_rest(a: Number, b: Number) -> Number:
    """The remainder of positive floats with a >= b, in double.

    Mantissas have 24 bits there, products of two 48, and remainders by rounded quotients are exact
    but may lie a little outside 0 to B, which does no harm before the last one.
    """
    above, below = a.double(), b.double()
    # As numbers of 24 bits, the lower 29 of doubles that were floats being 0
    first, modulus = _mantissa(above) * 2.0**-29, _mantissa(below) * 2.0**-29
    position = below.bits() >> 52
    distance = ((above.bits() >> 52) - position).maximum(0)
    inverse = 1.0 / modulus

    def reduced(x: Number) -> Number:
        return fma(-floor(x * inverse), modulus, x)

    power = reduced(power_of_two(distance >> 3, above))
    for bit in (2, 1, 0):
        power = reduced(power * power)
        power = select((distance & (1 << bit)).differs(0), power + power, power)
    rest = reduced(first * power)
    rest = select(rest < 0.0, rest + modulus, rest)
    rest = select(rest >= modulus, rest - modulus, rest)
    return (rest * power_of_two(position - (1023 + 23), above)).single()


def _normal(x: Number) -> tuple[Number, Bits]:
    """The mantissa of a positive double as a whole number of 53 bits, and the exponent to it."""
    denormal = x < format_of(x).smallest
    x = select(denormal, x * 2.0**54, x)
    position = (x.bits() >> 52) - (1023 + 52)
    return _mantissa(x), select_bits(denormal, position - 54, position)


def _double_rest(a: Number, b: Number) -> Number:
    """The remainder of positive doubles with a >= b.

    Numbers modulo B are kept between -B / 2 and B / 2, and B has at most 53 bits. A product of two
    is the sum of two doubles; the quotient by B is at most 2^51 and, with an inverse in two parts,
    wrong by less than 3/4: what is left after subtracting is less than 2^53, hence exact.
    """
    first, place_a = _normal(a)
    modulus, place_b = _normal(b)
    distance = (place_a - place_b).maximum(0)
    inverse = 1.0 / modulus
    inverse_low = fma(-inverse, modulus, 1.0) * inverse

    def centred(x: Number) -> Number:
        return fma(-nearest(x * inverse), modulus, x)

    def product(x: Number, y: Number) -> Number:
        """x y modulo B, between -B and B."""
        high = x * y
        low = fma(x, y, -high)
        quotient = nearest(fma(high, inverse, high * inverse_low))
        return fma(-quotient, modulus, high) + low

    power = power_of_two(distance >> 6, a)
    for bit in (5, 4, 3, 2, 1, 0):
        power = product(power, power)
        doubled = (distance & (1 << bit)).differs(0)
        power = centred(select(doubled, power + power, power))
    rest = centred(product(centred(first), power))
    rest = select(rest < 0.0, rest + modulus, rest)
    return scaled(rest, place_b)
