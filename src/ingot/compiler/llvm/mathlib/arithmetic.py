"""Arithmetic with more precision than the type has: numbers as sums of a high and a low part."""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.number import Number, fma

__all__ = ["divided", "exact_product", "exact_sum", "fast_sum"]

Pair = tuple[Number, Number]


def fast_sum(large: Number, small: Number) -> Pair:
    """a + b and its rounding error, for |a| >= |b|."""
    total = large + small
    return total, small - (total - large)


def exact_sum(a: Number, b: Number) -> Pair:
    """a + b and its rounding error."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def exact_product(a: Number, b: Number) -> Pair:
    """a * b and its rounding error."""
    product = a * b
    return product, fma(a, b, -product)


def divided(above: Number, above_low: Number, below: Number, below_low: Number) -> Number:
    """The quotient of two pairs, rounded: one division, and one Newton correction of its
    rounding.
    """
    inverse = 1.0 / below
    quotient = above * inverse
    rest = fma(-quotient, below, above) + fma(-quotient, below_low, above_low)
    return fma(rest, inverse, quotient)
