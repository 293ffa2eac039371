"""Affine expressions of loop variables and of numbers that a kernel is given when it is called."""

from __future__ import annotations

from typing import Any

__all__ = ["Affine", "Extent", "Index", "Symbol", "Variable", "affine"]


class Index:
    """The variable of a loop."""

    __slots__ = ()


class Symbol:
    """A length or a stride that is known when the kernel is called. Lengths are not negative."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


Variable = Index | Symbol


class Affine:
    """A sum of variables with integer coefficients, and a constant."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[Variable, int], constant: int = 0) -> None:
        self.terms = terms  # without zeros
        self.constant = constant

    def __add__(self, other: Extent | Index) -> Affine:
        other = affine(other)
        if not other.terms:
            return Affine(self.terms, self.constant + other.constant)
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            total = terms.get(variable, 0) + factor
            if total:
                terms[variable] = total
            else:
                del terms[variable]
        return Affine(terms, self.constant + other.constant)

    def __sub__(self, other: Extent | Index) -> Affine:
        return self + affine(other) * -1

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return Affine({})
        return Affine({v: c * factor for v, c in self.terms.items()}, self.constant * factor)

    def key(self) -> tuple[Any, ...]:
        """Equal for equal expressions."""
        return (frozenset(self.terms.items()), self.constant)


Extent = int | Symbol | Affine  # a length, or where a loop begins or ends


def affine(x: Extent | Index) -> Affine:
    """A number, a variable or an affine expression as the latter."""
    if isinstance(x, Affine):
        return x
    if isinstance(x, int):
        return Affine({}, x)
    return Affine({x: 1})
