"""Polynomials whose coefficients depend on the precision."""

from __future__ import annotations

from itertools import zip_longest

from ingot.compiler.llvm.mathlib.number import Condition, Number, fma, select
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Polynomial", "chosen"]


@dataclass(frozen=True)
class Polynomial:
    """Coefficients for float and for double, lowest power first. Calling it writes the code."""

    single: tuple[float, ...] = ()
    double: tuple[float, ...] = ()

    def __call__(self, x: Number) -> Number:
        """Horner's rule: the fewest instructions and, with fma, the smallest error.

        Its chain of dependent operations costs nothing in a loop over many elements, where several
        iterations are in flight.
        """
        coefficients = self.double if x.is_double else self.single
        total = x.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            total = fma(total, x, coefficient)
        return total


def chosen(condition: Condition, a: Polynomial, b: Polynomial, x: Number) -> Number:
    """Polynomial `a` of x where the condition is true, else `b`, by one application of Horner's
    rule to the coefficients of either.
    """
    pairs = zip_longest(*((p.double if x.is_double else p.single) for p in (a, b)), fillvalue=0.0)
    *others, highest = (select(condition, x.constant(p), x.constant(q)) for p, q in pairs)
    total = highest
    for coefficient in reversed(others):
        total = fma(total, x, coefficient)
    return total
