"""Circular functions: sin, cos, tan."""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.arithmetic import Pair, divided, fast_sum
from ingot.compiler.llvm.mathlib.coefficients import COSINE, SINE
from ingot.compiler.llvm.mathlib.number import Bits, Number, fma, select
from ingot.compiler.llvm.mathlib.quadrants import Angle, reduced_angle

__all__ = ["cos", "sin", "tan"]


def sin(x: Number) -> Number:
    """The sine, for any argument."""
    angle = reduced_angle(x)
    return _turned(angle, angle.quadrant, x.bits())


def cos(x: Number) -> Number:
    """The cosine, for any argument: the sine a quarter of a turn further."""
    angle = reduced_angle(x)
    return _turned(angle, angle.quadrant + 1, angle.quadrant.constant(0))


def _turned(angle: Angle, quadrant: Bits, sign: Bits) -> Number:
    """The sine in a quadrant, with the sign of a number whose bits are given."""
    width = 64 if angle.rest.is_double else 32
    if angle.rest.is_double:
        sine, cosine = _total(_sine(angle)), _total(_cosine(angle))
    else:
        sine, cosine = _single_sine(angle.rest), _single_cosine(angle.rest)
    found = select((quadrant & 1).differs(0), cosine, sine)
    # The second bit of the quadrant becomes the sign.
    flip = ((quadrant << (width - 2)) ^ sign) & (1 << (width - 1))
    return (found.bits() ^ flip).number()


def tan(x: Number) -> Number:
    """The tangent, for any argument: sine / cosine, or -cosine / sine in the odd quadrants."""
    angle = reduced_angle(x)
    odd = (angle.quadrant & 1).differs(0)
    if x.is_double:
        first, second = fast_sum(*_sine(angle)), fast_sum(*_cosine(angle))
        above = select(odd, second[0], first[0]), select(odd, second[1], first[1])
        below = select(odd, first[0], second[0]), select(odd, first[1], second[1])
        found = divided(*above, *below)
    else:
        sine, cosine = _single_sine(angle.rest), _single_cosine(angle.rest)
        found = select(odd, cosine, sine) / select(odd, sine, cosine)
    width = 64 if x.is_double else 32
    flip = ((angle.quadrant << (width - 1)) ^ x.bits()) & (1 << (width - 1))
    return (found.bits() ^ flip).number()


def _sine(angle: Angle) -> Pair:
    """The sine of the rest, as a sum of two numbers of which the second is small."""
    square = angle.rest * angle.rest
    return angle.rest, fma(angle.rest * square, SINE(square), angle.tail)


def _cosine(angle: Angle) -> Pair:
    """The cosine of the rest, as a sum of two numbers of which the second is small."""
    square = angle.rest * angle.rest
    half = square * 0.5
    first = 1.0 - half
    lost = (1.0 - first) - half
    return first, lost + fma(square * square, COSINE(square), -(angle.rest * angle.tail))


def _single_sine(x: Number) -> Number:
    square = x * x
    return fma(x * square, SINE(square), x)


def _single_cosine(x: Number) -> Number:
    square = x * x
    return fma(square, fma(square, COSINE(square), -0.5), 1.0)


def _total(pair: Pair) -> Number:
    return pair[0] + pair[1]
