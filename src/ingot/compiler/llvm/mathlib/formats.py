"""Constants that depend on the precision: the layout of floats and doubles, and split constants."""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.number import Number
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Format", "format_of"]


@dataclass(frozen=True)
class Format:
    """Constants that are `high` + `low`: where it says so, a whole number times high is exact."""

    mantissa: int  # bits after the leading one
    bias: int  # of the exponent
    smallest: float  # normal number
    rounding: float  # 1.5 * 2^mantissa: adding it leaves a whole number in the lowest bits
    log_2_high: float  # exact
    log_2_low: float
    log10_2_high: float  # exact
    log10_2_low: float
    log2_e_high: float
    log2_e_low: float
    log10_e_high: float
    log10_e_low: float
    half_pi_high: float
    half_pi_low: float
    lowest_exponential: float  # exp of less is 0
    highest_exponential: float  # exp of more is infinite


SINGLE = Format(
    mantissa=23,
    bias=127,
    smallest=2.0**-126,
    rounding=1.5 * 2.0**23,
    log_2_high=0.693145751953125,
    log_2_low=1.428606765330187e-06,
    log10_2_high=0.301025390625,
    log10_2_low=4.605039066518657e-06,
    log2_e_high=1.4426950216293335,
    log2_e_low=1.925963033500011e-08,
    log10_e_high=0.4342944920063019,
    log10_e_low=-1.0103049952192578e-08,
    half_pi_high=1.5707963705062866,
    half_pi_low=-4.371138828673793e-08,
    lowest_exponential=-104.5,
    highest_exponential=88.8,
)

DOUBLE = Format(
    mantissa=52,
    bias=1023,
    smallest=2.0**-1022,
    rounding=1.5 * 2.0**52,
    log_2_high=0.6931471805598903,
    log_2_low=5.497923018708371e-14,
    log10_2_high=0.30102999566395283,
    log10_2_low=2.8363394551044964e-14,
    log2_e_high=1.4426950408889634,
    log2_e_low=2.0355273740931033e-17,
    log10_e_high=0.4342944819032518,
    log10_e_low=1.098319650216765e-17,
    half_pi_high=1.5707963267948966,
    half_pi_low=6.123233995736766e-17,
    lowest_exponential=-746.0,
    highest_exponential=709.85,
)


def format_of(x: Number) -> Format:
    """The constants for the precision of x."""
    return DOUBLE if x.is_double else SINGLE
