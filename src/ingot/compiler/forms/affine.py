"""Affine expressions of loop indices and of numbers that a kernel takes as arguments."""

from __future__ import annotations

from operator import index
from typing import Any

from ingot.compiler.forms.size import Number, Size, is_symbolic

__all__ = ["Affine", "Extent", "Index", "Symbol", "Variable", "affine", "extent", "size_of_extent"]


class Index:
    """The index variable of a loop."""

    __slots__ = ()


class Symbol:
    """A non-negative number that the kernel takes as an argument: a product of lengths. `size` is
    its value for the program: a symbolic size, or a number.
    """

    __slots__ = ("name", "size")

    def __init__(self, name: str, size: Number | None = None) -> None:
        self.name = name
        self.size = size


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
        if is_symbolic(factor):
            if not self.terms:
                return affine(factor * self.constant)
            factor = index(factor)  # the product of two variables is not affine
        if factor == 0:
            return Affine({})
        return Affine({v: c * factor for v, c in self.terms.items()}, self.constant * factor)

    def key(self) -> tuple[Any, ...]:
        """Equal for equal expressions."""
        return (frozenset(self.terms.items()), self.constant)


Extent = int | Symbol | Affine  # a length, or a bound of a loop


def affine(x: Extent | Index | Size) -> Affine:
    """A number, variable or affine expression as an affine expression."""
    if isinstance(x, Affine):
        return x
    if is_symbolic(x):
        return Affine({_symbol(x, m): factor for m, factor in x.terms.items()}, x.constant)
    if isinstance(x, int):
        return Affine({}, x)
    assert isinstance(x, (Index, Symbol))
    return Affine({x: 1})


def extent(x: Any) -> Extent:
    """A number or symbolic size as an extent."""
    return affine(x) if is_symbolic(x) else x


def _symbol(x: Size, monomial: tuple[int, ...]) -> Symbol:
    """The symbol of a product of atoms, the same each time."""
    found: Symbol | None = x.sizes.symbols.get(monomial)
    if found is None:
        size = x.sizes.product(monomial)
        found = x.sizes.symbols[monomial] = Symbol(size.text(), size)
    return found


def size_of_extent(x: Extent) -> Number:
    """An extent as a number or symbolic size: the inverse of `extent`."""
    if type(x) is int:
        return x
    found = affine(x)
    total: Number = found.constant
    for symbol, factor in found.terms.items():
        assert isinstance(symbol, Symbol), "an extent has no index of a loop in it"
        assert symbol.size is not None, "a symbol that no program knows"
        total = symbol.size * factor + total
    return total
