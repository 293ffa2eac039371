"""Exponentials of the differences of scores from the largest, which are not positive.

x is n log(2) + r with a whole n and |r| <= log(2) / 2; e^r is a polynomial, and 2^n is made from
the bits of n, as in the math library. Because the results are at most 1, one multiplication scales
them without overflow; those below 2^-126, which would be denormal, are 0. That takes two thirds of
the instructions.
"""

from __future__ import annotations

from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant, Repeated, Value
from ingot.graph.dtype import float32, uint32

__all__ = ["power"]

LOG2_E = 1.4426950408889634
# log(2) as a sum, of which whole numbers times the first are exact
LOG_2_HIGH, LOG_2_LOW = 0.693145751953125, 1.428606765330187e-06
LOWEST = -88.0296919311130  # -127 log(2): 2^-127 is the bits 0
ROUNDING = 1.5 * 2.0**23  # adding it leaves a whole number in the lowest bits
MANTISSA, BIAS = 23, 127
# exp(r) = 1 + r + r^2 P(r): error 2^-28.3
COEFFICIENTS = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166825860738754,
    0.00836867094039917,
    0.0013821360189467669,
)


def power(builder: NestBuilder, x: Value) -> Value:
    """e^x of a bundle of numbers that are not much larger than 0. NaN stays NaN."""
    words = builder.words
    if x.dtype is not float32:
        return words.exp(x)

    def all_lanes(value: float) -> Repeated:
        return Repeated(float32, Constant(float32, value), x.lanes)

    def whole_lanes(value: int) -> Repeated:
        return Repeated(uint32, Constant(uint32, value), x.lanes)

    lowest = all_lanes(LOWEST)
    x = words.select(words.less(x, lowest), lowest, x)
    shifted = words.fused_multiply_add(x, all_lanes(LOG2_E), all_lanes(ROUNDING))
    whole = words.subtract(shifted, all_lanes(ROUNDING))
    rest = words.fused_multiply_add(whole, all_lanes(-LOG_2_HIGH), x)
    rest = words.fused_multiply_add(whole, all_lanes(-LOG_2_LOW), rest)
    total: Value = all_lanes(COEFFICIENTS[-1])
    for coefficient in reversed(COEFFICIENTS[:-1]):
        total = words.fused_multiply_add(total, rest, all_lanes(coefficient))
    square = words.multiply(rest, rest)
    value = words.add(words.fused_multiply_add(square, total, rest), all_lanes(1.0))
    # n is in the lowest bits, and what is above them is shifted out
    exponent = words.left_shift(words.bits(shifted), whole_lanes(MANTISSA))
    scale = words.from_bits(words.add(exponent, whole_lanes(BIAS << MANTISSA)))
    return words.multiply(value, scale)
