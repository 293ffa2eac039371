"""Division of half types by constants as multiplication, where that gives the same bits.

A quotient of two numbers of p bits is either a midpoint of two numbers of p bits, or further from
all of them than the relative error of a float32 product with the float32 reciprocal, which is at
most 2^-23: the distance is more than 2^-(2 p + 1), and p is 8 or 11. Midpoints occur where the
result is denormal; they are tried one by one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ingot._native import Dtype
from ingot.graph.dtype import float16

__all__ = ["exact_reciprocal"]

NORMAL = 2.0**-126, 2.0**126  # divisors whose reciprocals are normal too


@lru_cache(maxsize=256)
def exact_reciprocal(dtype: Dtype, divisor: float) -> float | None:
    """A float32 by which to multiply numbers of a half type instead of dividing them by one of
    them: results are equal once they are rounded to the half type. None if there is none.
    """
    if not NORMAL[0] <= abs(divisor) <= NORMAL[1]:
        return None
    mantissa = np.frexp(abs(divisor))[0]
    numbers = np.arange(1.0, 2048.0 if dtype is float16 else 256.0)
    quotients = numbers / mantissa
    found = numbers.astype(np.float32) * (np.float32(1.0) / np.float32(mantissa))
    # the odd number of which a quotient is a multiple by a power of two, if it has few bits
    fractions, exponents = np.frexp(quotients)
    whole = np.rint(fractions * 4096.0)
    is_short = whole * mantissa == np.ldexp(numbers, 12 - exponents)
    odd = whole[is_short].astype(np.int64)
    odd //= odd & -odd
    off = (found - quotients)[is_short]
    # Ties go to the even neighbour: below if the remainder by 4 is 1, above if it is 3.
    is_wrong = np.where(odd % 4 == 1, off > 0, off < 0)
    return None if is_wrong.any() else float(np.float32(1.0) / np.float32(divisor))
