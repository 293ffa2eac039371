"""The natural logarithm of a float with the bits of the GNU C library, for random numbers that are
MLX's to the last bit.

The library's logf (since 2.27; from ARM's optimized routines) divides the numbers between two
powers of 2 into 16 intervals. With an approximate inverse of a number c of the interval, log(x) is
log(c) and a cubic in r = x / c - 1, all in double precision, rounded to a float at the end. Since
its error exceeds half a unit in the last place, only the same table and the same coefficients give
the same bits; a test compares them with the library's own.
"""

from __future__ import annotations

from math import inf, log, nan

from ingot.compiler.llvm.code import Code, Register, float_bits
from ingot.compiler.llvm.mathlib.number import Bits, Number, fma, select

__all__ = ["c_log"]

# LLVM chooses as many lanes as there are doubles in a register; all that is computed in floats
# around the logarithm then takes half of the width.
_LANES = 32
_FIRST = 0x3F330000  # the bits of the float at which the intervals begin, about 0.7
_INVERSES = tuple(
    float.fromhex(digits)
    for digits in (
        "0x1.661ec79f8f3bep+0 0x1.571ed4aaf883dp+0 0x1.49539f0f010bp+0 0x1.3c995b0b80385p+0 "
        "0x1.30d190c8864a5p+0 0x1.25e227b0b8eap+0 0x1.1bb4a4a1a343fp+0 0x1.12358f08ae5bap+0 "
        "0x1.0953f419900a7p+0 0x1p+0 0x1.e608cfd9a47acp-1 0x1.ca4b31f026aap-1 "
        "0x1.b2036576afce6p-1 0x1.9c2d163a1aa2dp-1 0x1.886e6037841edp-1 0x1.767dcf5534862p-1"
    ).split()
)
_LOGARITHMS = tuple(
    float.fromhex(digits)
    for digits in (
        "-0x1.57bf7808caadep-2 -0x1.2bef0a7c06ddbp-2 -0x1.01eae7f513a67p-2 -0x1.b31d8a68224e9p-3 "
        "-0x1.6574f0ac07758p-3 -0x1.1aa2bc79c81p-3 -0x1.a4e76ce8c0e5ep-4 -0x1.1973c5a611cccp-4 "
        "-0x1.252f438e10c1ep-5 0x0p+0 0x1.aa5aa5df25984p-5 0x1.c5e53aa362eb4p-4 "
        "0x1.526e57720db08p-3 0x1.bc2860d22477p-3 0x1.1058bc8a07ee1p-2 0x1.4043057b6ee09p-2"
    ).split()
)
_CUBIC, _SQUARE, _LINEAR = (
    float.fromhex(digits)
    for digits in ("-0x1.00ea348b88334p-2", "0x1.5575b0be00b6ap-2", "-0x1.ffffef20a4123p-2")
)


def c_log(code: Code, x: Register) -> Register:
    """logf(x)."""
    code.lanes = _LANES
    argument = Number(code, x)
    denormal = argument < 2.0**-126
    normal = select(denormal, argument * 2.0**23, argument)
    bits = normal.bits()
    above = bits - _FIRST
    interval = (above >> 19) & 15
    exponent = above.shift_signed(23)
    mantissa = (bits - (exponent << 23)).number().double()
    r = fma(mantissa, _entry(code, "inverses", _INVERSES, interval), -1.0)
    whole = exponent.converted().double()
    whole = select(denormal, whole - 23.0, whole)
    base = fma(whole, log(2), _entry(code, "logarithms", _LOGARITHMS, interval))
    square = r * r
    series = fma(square, _CUBIC, fma(r, _SQUARE, _LINEAR))
    found = fma(series, square, base + r).single()
    found = select(argument < inf, found, argument)
    found = select(argument < 0.0, argument.constant(nan), found)
    return select(argument.equals(0.0), argument.constant(-inf), found).register


def _entry(code: Code, name: str, table: tuple[float, ...], index: Bits) -> Number:
    """An entry of a table, which the module holds as a constant."""
    entries = ", ".join(f"double {float_bits(value)}" for value in table)
    symbol = f"@c_log_{name}"
    code.declarations[symbol] = (
        f"{symbol} = private unnamed_addr constant [{len(table)} x double] [{entries}], align 64"
    )
    address = code.element("double", Register(symbol, "ptr"), index.widened().register)
    return Number(code, code.load("double", address))
