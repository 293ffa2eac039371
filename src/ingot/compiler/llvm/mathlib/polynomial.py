"""Polynomials whose coefficients depend on the precision."""

from __future__ import annotations

from ingot.compiler.llvm.mathlib.number import Number, fma
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Polynomial"]


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
