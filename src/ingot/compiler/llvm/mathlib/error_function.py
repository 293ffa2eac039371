"""The error function and its inverse."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from ingot.compiler.llvm.code import Code, Register, lane_count
from ingot.compiler.llvm.lookup import has_permutations, lookup, lookup_in_memory
from ingot.compiler.llvm.mathlib.coefficients import (
    ERROR_FUNCTION,
    ERROR_FUNCTION_FAR,
    ERROR_FUNCTION_SHORT,
    ERROR_FUNCTION_TABLE,
    INVERSE_ERROR_FUNCTION,
    INVERSE_ERROR_FUNCTION_FAR,
    INVERSE_ERROR_FUNCTION_FARTHEST,
)
from ingot.compiler.llvm.mathlib.number import (
    Number,
    absolute,
    clamped,
    copy_sign,
    fma,
    select,
)
from ingot.compiler.llvm.mathlib.polynomial import chosen
from ingot.graph.deferred import Deferred

if TYPE_CHECKING:
    from ingot.compiler.llvm.mathlib import logarithm
else:
    logarithm = Deferred("ingot.compiler.llvm.mathlib.logarithm")

__all__ = ["erf", "erfinv", "half_erf"]

END_OF_HALVES = 2.65  # from here on, erf rounds to 1
END_OF_TABLE = 3.8749998  # the last float whose nearest quarter is in the table
# A sum with this has no bits below a quarter, and a number of quarters in its lowest bits.
QUARTERS = 3.0 * 2**20
VARIANTS = (16, 8)  # lanes


def erf(x: Number) -> Number:
    """Without exponential or division: gelu over large arrays is memory-bound.

    Floats use a table if the processor looks up coefficients in registers. Otherwise, near 0,
    erf(x) is x times a polynomial in x^2. Beyond that, 1 - erf(x) is the fourth (in double, eighth)
    power of a polynomial of low degree, because the root of a function that falls so quickly is
    nearly linear. One evaluation serves both, with the coefficients of either: selecting constants
    takes less than evaluating the other polynomial as well.
    """
    if not x.is_double and has_permutations():
        if lane_count(x.register.type) > 1:
            return _erf_by_table(x)
        return Number(x.code, x.code.call_of_lanes("ingot_erf", x.register, VARIANTS, _variant))
    modulus = absolute(x)
    border, middle, end = (1.25, 3.5, 6.0) if x.is_double else (1.125, 2.5, 4.0)
    is_near = modulus < border
    distance = select(modulus > end, x.constant(end), modulus) - middle
    found = chosen(is_near, ERROR_FUNCTION, ERROR_FUNCTION_FAR, select(is_near, x * x, distance))
    power = found * found
    if x.is_double:
        power = power * power
    far = fma(-power, power, 1.0)
    return copy_sign(select(is_near, fma(modulus, found, modulus), far), x)


def _variant(code: Code, x: Register) -> Register:
    return _erf_by_table(Number(code, x)).register


def _erf_by_table(x: Number) -> Number:
    """erf of floats by polynomials around multiples of 1/4, of which the one around 0 is x + x P.
    Measured, gelu of float32 on one thread, relative to the two polynomials of `erf`: 0.73.
    """
    modulus = absolute(x)
    modulus = select(modulus > END_OF_TABLE, x.constant(END_OF_TABLE), modulus)
    shifted = modulus + QUARTERS
    rest = modulus - (shifted - QUARTERS)
    index = shifted.bits().register
    find = lookup if lane_count(index.type) > 1 else lookup_in_memory
    columns = zip(*ERROR_FUNCTION_TABLE, strict=True)
    constant, *others = (Number(x.code, find(x.code, index, column)) for column in columns)
    total = others[-1]
    for coefficient in reversed(others[:-1]):
        total = fma(total, rest, coefficient)
    return copy_sign(fma(total, rest, constant + rest), x)


def half_erf(x: Number) -> Number:
    """erf for half types, to which the result is rounded: one polynomial up to where that is 1. The
    error is at most 0.51 ulp of a float16.
    """
    x = clamped(x, -END_OF_HALVES, END_OF_HALVES)
    return x * ERROR_FUNCTION_SHORT(x * x)


def erfinv(x: Number) -> Number:
    """x (c + P) with polynomials in w = -log(1 - x^2).

    c is a power of two near the middle of the range, so that x c is exact and the rounding error of
    P matters little.
    """
    modulus = absolute(x)
    w = -logarithm.log(fma(-x, x, 1.0))
    if x.is_double:
        central, distant = w < 6.0, w > 16.0
        farthest = INVERSE_ERROR_FUNCTION_FARTHEST(w - 26.25)
        rest = select(distant, farthest, INVERSE_ERROR_FUNCTION_FAR(w - 11.0))
        rest = select(central, INVERSE_ERROR_FUNCTION(w - 3.0), rest)
        whole = select(distant, modulus * 4.0, modulus * 2.0)
    else:
        central = w < 5.0
        rest = INVERSE_ERROR_FUNCTION_FAR(w - 10.5)
        rest = select(central, INVERSE_ERROR_FUNCTION(w - 2.5), rest)
        whole = modulus * 2.0
    found = fma(modulus, rest, select(central, modulus, whole))
    return copy_sign(select(modulus.equals(1.0), x.constant(inf), found), x)
