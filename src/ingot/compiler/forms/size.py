"""Sizes: lengths, strides and byte counts that stay symbolic during compilation.

A program for unknown shapes is compiled like any other, with a `Size` for each number that depends
on shapes: a polynomial with integer coefficients in atoms, which are dimensions of a trace,
quotients, remainders and the like. Arithmetic on sizes gives sizes. A comparison whose outcome is
the same for all admissible shapes is decided by proof; any other is decided for the example at
hand, the `hint`, and recorded (`sizes.py`) as a condition on shapes, so that the program is valid
for all shapes that satisfy the conditions. Where a number is required, the size becomes one, which
is a condition too.

Like the dimensions of `graph/dimension.py`, sizes claim to be ints. Dimensions record what a user's
function did with lengths; sizes serve the compiler, which reasons about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any, TypeGuard

__all__ = [
    "Form",
    "Monomial",
    "Number",
    "Size",
    "exact_quotient",
    "hint_of",
    "is_symbolic",
    "largest",
    "polynomial",
    "provably_equal",
    "smallest",
]

Monomial = tuple[int, ...]  # numbers of atoms, sorted; squared if twice in it
Number = Any  # an int or a `Size`
Form = tuple[tuple[Monomial, int], ...]  # a sum of monomials with coefficients, sorted


class Size:
    """A polynomial of atoms, with its value for the hint. Without atoms it is an int instead."""

    __slots__ = ("_key", "constant", "hint", "sizes", "terms")

    __array_ufunc__ = None  # NumPy numbers defer to the operators here

    def __init__(self, sizes: Any, terms: Mapping[Monomial, int], constant: int, hint: int) -> None:
        self.sizes = sizes
        self.terms = terms  # without zeros
        self.constant = constant
        self.hint = hint
        self._key: Form | None = None

    @property
    def key(self) -> Form:
        """A key that is equal for equal polynomials."""
        if self._key is None:
            self._key = (*sorted(self.terms.items()), ((), self.constant))
        return self._key

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return int

    # Arithmetic

    def __add__(self, other: Any) -> Any:
        if type(other) is Size:
            terms = dict(self.terms)
            for monomial, factor in other.terms.items():
                terms[monomial] = terms.get(monomial, 0) + factor
            return polynomial(
                self.sizes, terms, self.constant + other.constant, self.hint + other.hint
            )
        other = _number(other)
        if other is None:
            return NotImplemented
        return Size(self.sizes, self.terms, self.constant + other, self.hint + other)

    def __mul__(self, other: Any) -> Any:
        if type(other) is Size:
            terms: dict[Monomial, int] = {}
            for left, a in (*self.terms.items(), ((), self.constant)):
                for right, b in (*other.terms.items(), ((), other.constant)):
                    both = tuple(sorted((*left, *right)))
                    terms[both] = terms.get(both, 0) + a * b
            constant = terms.pop((), 0)
            return polynomial(self.sizes, terms, constant, self.hint * other.hint)
        other = _number(other)
        if other is None:
            return NotImplemented
        if other == 0:
            return 0
        terms = {monomial: factor * other for monomial, factor in self.terms.items()}
        return Size(self.sizes, terms, self.constant * other, self.hint * other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self.sizes.is_not_negative(self) else -self

    def __sub__(self, other: Any) -> Any:
        other = _operand(other)
        return NotImplemented if other is None else self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __floordiv__(self, other: Any) -> Any:
        other = _operand(other)
        return NotImplemented if other is None else self.sizes.quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        other = _operand(other)
        return NotImplemented if other is None else self.sizes.quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        other = _operand(other)
        return NotImplemented if other is None else self.sizes.remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        other = _operand(other)
        return NotImplemented if other is None else self.sizes.remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __pow__(self, other: Any) -> Any:
        if type(other) is not int or other < 0:
            return self.sizes.pinned(self) ** other
        found: Any = 1
        for _ in range(other):
            found = self * found
        return found

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)

    # Comparisons

    def __eq__(self, other: object) -> Any:
        found = _operand(other)
        if found is None:
            return self.__index__() == other if type(other) is float else NotImplemented
        return self.sizes.is_zero(self - found)

    def __ne__(self, other: object) -> Any:
        found = self.__eq__(other)
        return found if found is NotImplemented else not found

    def __ge__(self, other: Any) -> Any:
        found = _operand(other)
        if found is None:
            return self.__index__() >= other if type(other) is float else NotImplemented
        return self.sizes.is_not_negative(self - found)

    def __le__(self, other: Any) -> Any:
        found = _operand(other)
        if found is None:
            return self.__index__() <= other if type(other) is float else NotImplemented
        return self.sizes.is_not_negative(found - self)

    def __gt__(self, other: Any) -> Any:
        found = self.__le__(other)
        return found if found is NotImplemented else not found

    def __lt__(self, other: Any) -> Any:
        found = self.__ge__(other)
        return found if found is NotImplemented else not found

    def __bool__(self) -> bool:
        return not self.sizes.is_zero(self)

    def __hash__(self) -> int:
        # As keys of dicts and sets, different expressions are different sizes, without a condition.
        return hash(self.key)

    # The number itself

    def __index__(self) -> int:
        return self.sizes.pinned(self)

    __int__ = __trunc__ = __floor__ = __ceil__ = __index__

    def __float__(self) -> float:
        return float(self.sizes.pinned(self))

    def __truediv__(self, other: Any) -> Any:
        return self.sizes.pinned(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.sizes.pinned(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.sizes.pinned(self), name)

    def __copy__(self) -> Size:
        return self

    def __deepcopy__(self, memo: Any) -> Size:
        return self

    # Text

    def text(self, names: Mapping[int, str] | None = None) -> str:
        """The polynomial, with `names` for atoms."""
        parts = []
        for monomial, factor in self.terms.items():
            atoms = [(names or {}).get(number, f"s{number}") for number in monomial]
            parts.append("*".join([str(factor)] * (factor != 1) + atoms))
        parts += [str(self.constant)] * (self.constant != 0)
        return " + ".join(parts).replace("+ -", "- ")

    def __repr__(self) -> str:
        return self.text()

    def __format__(self, specification: str) -> str:
        return self.text()


def largest(sizes: Iterable[int]) -> Any:
    """The largest of some sizes, some of which may be symbolic. Unlike `max`, it adds no condition
    on which one that is.
    """
    found = list(sizes)
    symbolic: Any = next((x for x in found if is_symbolic(x)), None)
    return max(found) if symbolic is None else symbolic.sizes.largest(found)


def smallest(sizes: Iterable[int]) -> Any:
    """The smallest of some sizes, without a condition."""
    return -largest([-size for size in sizes])


def is_symbolic(x: object) -> TypeGuard[Size]:
    """Whether a number depends on shapes."""
    return type(x) is Size


def provably_equal(a: Number, b: Number) -> bool:
    """Whether two numbers are equal for all shapes; adds no condition. False if unknown."""
    difference = a - b
    if not is_symbolic(difference):
        return bool(difference == 0)
    sizes = difference.sizes
    return bool(sizes.proves(difference) and sizes.proves(-difference))


def polynomial(sizes: Any, terms: dict[Monomial, int], constant: int, hint: int) -> Any:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    return Size(sizes, kept, constant, hint) if kept else constant


def hint_of(x: Number) -> int:
    return x.hint if type(x) is Size else x


def exact_quotient(a: Number, b: Number) -> Any:
    """a / b if every term of a is divisible by b; else None."""
    if type(a) is not Size:
        return None if type(b) is Size and a else (0 if type(b) is Size else a // b)
    if type(b) is not Size:
        divisor: Monomial = ()
        by = b
    elif b.constant == 0 and len(b.terms) == 1:
        ((divisor, by),) = b.terms.items()
    else:
        return 1 if a.key == b.key else None
    terms: dict[Monomial, int] = {}
    for monomial, factor in (*a.terms.items(), ((), a.constant)):
        rest = _without(monomial, divisor)
        if factor == 0:
            continue
        if rest is None or factor % by:
            return None
        terms[rest] = factor // by
    constant = terms.pop((), 0)
    return polynomial(a.sizes, terms, constant, a.hint // hint_of(b))


def _without(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    rest = list(monomial)
    for number in divisor:
        if number not in rest:
            return None
        rest.remove(number)
    return tuple(rest)


def _number(x: Any) -> int | None:
    """An int, a bool or a NumPy integer as an int; None for anything else."""
    if type(x) is int:
        return x
    if isinstance(x, float):
        return None
    try:
        return index(x)
    except TypeError:
        return None


def _operand(x: Any) -> Any:
    return x if type(x) is Size else _number(x)
