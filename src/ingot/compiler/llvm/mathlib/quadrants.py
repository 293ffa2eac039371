"""Angles modulo a quarter of a turn, for any argument: what sin, cos and tan begin with.

x = M 2^E with an integer M. Of the product of x and 2 / pi, only the last two bits before the
binary point and the fraction matter. They depend on a window of the bits of 2 / pi, whose position
depends on E and whose length on the precision of the result. That window times M is an exact
integer product (the method of Payne and Hanek). It serves all arguments from 1 on: code without
branches computes the reduction of large arguments anyway, so a cheaper one for moderate arguments
would only add to it.
"""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.arithmetic import fast_sum
from ingot.compiler.llvm.mathlib.formats import format_of
from ingot.compiler.llvm.mathlib.number import Bits, Number, absolute, fma, select, select_bits

__all__ = ["Angle", "reduced_angle"]

# The first 1280 binary digits of 2 / pi behind the point.
TWO_OVER_PI_DIGITS = 1280
TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E0"
    "06492EEA09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F4"
    "9C845F8BBDF9283B1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D"
    "7527BAC7EBE5F17B3D0739F78A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D",
    16,
)


class Angle(NamedTuple):
    """|x| = quadrant * pi / 2 + rest + tail, the quadrant modulo 4 and |rest| <= pi / 4.

    For floats less than 1 the quadrant is 0 and the rest |x| itself.
    """

    quadrant: Bits
    rest: Number
    tail: Number


def reduced_angle(x: Number) -> Angle:
    """The angle of |x|; NaN for infinite x."""
    modulus = absolute(x)
    angle = _double_angle(modulus) if x.is_double else _single_angle(modulus)
    small = modulus < (0.78 if x.is_double else 1.0)
    rest = select(small, modulus, angle.rest)
    return Angle(
        select_bits(small, angle.quadrant.constant(0), angle.quadrant),
        select(modulus < inf, rest, nan),
        select(small, modulus.constant(0.0), angle.tail),
    )


def _window(first: int, count: int) -> int:
    """`count` binary digits of 2 / pi from the one that stands for 2^-first; zeros before 2^-1."""
    return TWO_OVER_PI >> (TWO_OVER_PI_DIGITS - first - count + 1) & ((1 << count) - 1)


def _single_angle(modulus: Number) -> Angle:
    """For floats of at least 1, that is for exponents from 0 to 127.

    The window has 96 digits. It is taken from seven words, selected by the upper two bits of the
    exponent and shifted by the lower five.
    """
    bits = modulus.bits()
    exponent = (bits >> 23) - 127
    mantissa = (bits & 0x7FFFFF) | 0x800000
    words = [bits.constant(_window(32 * i - 24, 32)) for i in range(7)]
    second = (exponent & 64).differs(0)
    words = [select_bits(second, words[i + 2], words[i]) for i in range(5)]
    first = (exponent & 32).differs(0)
    words = [select_bits(first, words[i + 1], words[i]) for i in range(4)]
    shift = exponent & 31
    high, middle, low = (_funnel(words[i], words[i + 1], shift) for i in range(3))
    # The product modulo 2^96, without its lowest word: 2 digits before the point and 62 behind.
    carried = _upper_half(low, mantissa)
    below = middle * mantissa + carried
    above = high * mantissa + _upper_half(middle, mantissa)
    above = select_bits(below.below(carried), above + 1, above)
    # Add half, so that truncation rounds.
    above = above + (1 << 29)
    quadrant = above >> 30
    fraction = (above & 0x3FFFFFFF) - (1 << 29)
    # As the sum of two floats: the nearest of 24 bits, and the signed rest, so that next to a
    # multiple of pi / 2 the first is 0 and the second keeps all the significant bits.
    first_part = (fraction + 32).shift_signed(6).converted()
    second_part = _funnel(fraction, below, fraction.constant(26)).converted()
    constants = format_of(modulus)
    tail = second_part * (constants.half_pi_high * 2.0**-56)
    tail = fma(first_part, constants.half_pi_low * 2.0**-24, tail)
    rest = fma(first_part, constants.half_pi_high * 2.0**-24, tail)
    return Angle(quadrant, rest, rest.constant(0.0))


def _upper_half(a: Bits, b: Bits) -> Bits:
    """The upper 32 bits of a product of 32-bit integers."""
    return ((a.widened() * b.widened()) >> 32).narrowed()


def _funnel(high: Bits, low: Bits, shift: Bits) -> Bits:
    """The upper word of two, shifted left."""
    code = high.code
    return Bits(code, code.intrinsic("fshl", high.register, low.register, shift.register))


# Doubles: the window has 192 digits and is read from a table, from a whole byte on. What is left to
# shift, up to 7 positions, is done to the mantissa, which then has up to 60 digits.
_ZEROS = 7  # bytes before the point
_BYTES = 160
_TABLE = "ingot_two_over_pi"


def _table(code: Code) -> Register:
    """The address of the digits as one little-endian integer: loads at any byte are windows."""
    number = _window(1 - 8 * _ZEROS, 8 * _BYTES)
    text = "".join(f"\\{byte:02X}" for byte in number.to_bytes(_BYTES, "little"))
    code.declarations[_TABLE] = (
        f'@{_TABLE} = private unnamed_addr constant [{_BYTES} x i8] c"{text}"'
    )
    return Register(f"@{_TABLE}", "ptr")


def _double_angle(modulus: Number) -> Angle:
    """For doubles of at least 1/2."""
    bits = modulus.bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # x = mantissa * 2^(exponent - 53): the exponent is that of what is less than 1
    exponent = (bits >> 52).maximum(1022) - 1022
    position = exponent + 1
    shifted = mantissa << (position & 7)
    start = (_BYTES - 24) - (position >> 3)
    low, middle, high = (_loaded(start + 8 * i) for i in range(3))
    below = shifted * middle
    carried = _upper_product(shifted, low)
    below = below + carried
    above = shifted * high + _upper_product(shifted, middle)
    above = select_bits(below.below(carried), above + 1, above)
    # 128 digits, of which 2 before the point. Adding halves makes cutting off rounding, to whole
    # quadrants and to the 52 digits of the first part.
    above = above + ((1 << 61) + (1 << 9))
    quadrant = above >> 62
    first = (above << 2) | (below >> 62)
    second = below << 2
    # Digits put behind those of 1 make a double between 1 and 2. The first two parts have a half
    # too much, by the rounding: they have either sign, and are 0 next to a multiple of pi / 2.
    one = 1023 << 52
    a = ((first >> 12) | one).number() - 1.5
    b = (((first & 0xFFF) << 40) | (second >> 24) | one).number() - 1.5
    c = (((second & 0xFFFFFF) << 28) | one).number() - 1.0
    high_part, low_part = fast_sum(a, fma(c, 2.0**-52, b) * 2.0**-52)
    constants = format_of(modulus)
    rest = high_part * constants.half_pi_high
    tail = fma(high_part, constants.half_pi_high, -rest)
    tail = tail + fma(high_part, constants.half_pi_low, low_part * constants.half_pi_high)
    return Angle(quadrant, rest, tail)


def _loaded(position: Bits) -> Bits:
    code = position.code
    address = code.offset(_table(code), position.register)
    return Bits(code, code.load("i64", address, ", align 1"))


def _upper_product(a: Bits, b: Bits) -> Bits:
    """The upper 64 bits of a product of 64-bit integers, by products of 32-bit ones."""
    mask = (1 << 32) - 1
    a_high, a_low, b_high, b_low = a >> 32, a & mask, b >> 32, b & mask
    first, second = a_high * b_low, a_low * b_high
    middle = ((a_low * b_low) >> 32) + (first & mask) + (second & mask)
    return a_high * b_high + (first >> 32) + (second >> 32) + (middle >> 32)
