"""Facts about symbolic sizes, and the conditions on shapes under which a program is valid.

For each sum of monomials that was compared with a number, the range is kept in which all
comparisons so far have the same outcome; so the conditions on shapes are few and short.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import gcd
from typing import Any

from ingot.compiler.forms.size import (
    Form,
    Monomial,
    Number,
    Size,
    exact_quotient,
    hint_of,
)

__all__ = ["Atom", "Range", "Sizes"]


class Atom:
    """A number that sizes are made of: the dimension of a trace with the number `operands[0]`, or a
    "floordiv", "mod", or "max" of sizes, or one that is defined "later".
    """

    __slots__ = ("hint", "kind", "number", "operands")

    def __init__(self, number: int, kind: str, operands: tuple[Any, ...], hint: int) -> None:
        self.number = number
        self.kind = kind
        self.operands = operands
        self.hint = hint


class Range:
    """The known range of a sum of monomials, and whether it is a condition on shapes."""

    __slots__ = ("excluded", "high", "is_condition", "low", "why")

    def __init__(self) -> None:
        self.low: int | None = None
        self.high: int | None = None
        self.excluded: set[int] = set()
        self.is_condition = False
        self.why = ""  # what needed the number itself

    def allows(self, number: int) -> bool:
        """Whether the range contains a number."""
        if self.low is not None and number < self.low:
            return False
        return number not in self.excluded and (self.high is None or number <= self.high)

    def copy(self) -> Range:
        """An independent copy."""
        made = Range()
        made.low, made.high, made.excluded = self.low, self.high, set(self.excluded)
        made.is_condition, made.why = self.is_condition, self.why
        return made


class Sizes:
    """The atoms of one symbolic program, the facts about them, and the conditions on shapes."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self.ranges: dict[Form, Range] = {}
        self.numbers: dict[int, Any] = {}  # dimensions that must have a value
        self.symbols: dict[Monomial, Any] = {}  # the nests' symbols for products of atoms
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._least: dict[Form, int | None] = {}  # bounds from the current facts

    # Making sizes

    def dimension(self, number: int, hint: int) -> Size:
        """The dimension of a trace with that number."""
        return self._atom("dimension", (number,), hint)

    def _atom(
        self, kind: str, operands: tuple[Any, ...], hint: int, low: int | None = None
    ) -> Size:
        key = (kind, *(x.key if type(x) is Size else x for x in operands))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.atoms)
            self.atoms.append(Atom(number, kind, operands, hint))
        if low is not None:
            known = self._range((((number,), 1),))
            if known.low is None or known.low < low:
                known.low = low
                self._least.clear()
        return Size(self, {(number,): 1}, 0, hint)

    def later(self, hint: int) -> Size:
        """A non-negative number that `define` sets later."""
        return self._atom("later", (len(self.atoms),), hint, 0)

    def define(self, later: Size, value: Number) -> None:
        """Sets the value of a number from `later`."""
        ((number,),) = later.terms
        self.atoms[number].operands = (value,)

    def product(self, monomial: Monomial) -> Size:
        """A product of atoms."""
        hint = 1
        for number in monomial:
            hint *= self.atoms[number].hint
        return Size(self, {monomial: 1}, 0, hint)

    def quotient(self, a: Number, b: Number) -> Any:
        """`a // b`."""
        self._require_divisor(b)
        exact = exact_quotient(a, b)
        if exact is not None:
            return exact
        if type(b) is int and b < 0:
            return self.quotient(-a, -b)
        if type(b) is int and type(a) is Size and _falls(a):
            return -self.quotient(-a + (b - 1), b)
        low = None
        if self.proves(a) and self._is_positive(b):
            least = self.least(a)
            low = max(0, least // b) if type(b) is int and least is not None else 0
        return self._atom("floordiv", (a, b), hint_of(a) // hint_of(b), low)

    def remainder(self, a: Number, b: Number) -> Any:
        """`a % b`."""
        self._require_divisor(b)
        if exact_quotient(a, b) is not None:
            return 0
        if type(b) is int and b > 0 and type(a) is Size:
            rest: Number = a.constant % b
            for monomial, factor in a.terms.items():
                rest = rest + self.product(monomial) * (factor % b)
            if type(rest) is int:
                return rest % b
            a = rest
        low = 0 if self._is_positive(b) else None
        found = self._atom("mod", (a, b), hint_of(a) % hint_of(b), low)
        if type(b) is int and b > 0:
            known = self._range(_form(found)[0])
            if known.high is None or known.high >= b:
                known.high = b - 1
                self._least.clear()
        return found

    def _require_divisor(self, b: Number) -> None:
        if hint_of(b) == 0:
            raise ZeroDivisionError("division by a size that is zero")
        if type(b) is Size:
            self.is_zero(b)

    def largest(self, sizes: Sequence[Number]) -> Any:
        """The largest of some sizes; adds no condition."""
        kept: list[Any] = []
        for size in sizes:
            if any(self.proves(other - size) for other in kept):
                continue
            kept = [other for other in kept if not self.proves(size - other)]
            kept.append(size)
        if len(kept) == 1:
            return kept[0]
        kept.sort(key=lambda size: size.key if type(size) is Size else ())
        lows = [low for low in map(self.least, kept) if low is not None]
        return self._atom("max", tuple(kept), max(map(hint_of, kept)), max(lows, default=None))

    def number(self, x: Number, values: Sequence[Any]) -> int:
        """The value of x for these values of the dimensions."""
        if type(x) is not Size:
            return int(x)
        return _value({n: self._atom_number(n, values) for m in x.terms for n in m}, x)

    def allow(self, values: Sequence[Any]) -> bool:
        """Whether these values of the dimensions satisfy the conditions."""
        if any(values[number] != value for number, value in self.numbers.items()):
            return False
        conditions = [(form, x) for form, x in self.ranges.items() if x.is_condition]
        try:
            numbers = [self.number(Size(self, dict(form), 0, 0), values) for form, _ in conditions]
        except ZeroDivisionError:
            return False
        return all(x.allows(number) for (_, x), number in zip(conditions, numbers, strict=True))

    def _atom_number(self, number: int, values: Sequence[Any]) -> int:
        atom = self.atoms[number]
        if atom.kind == "dimension":
            return int(values[atom.operands[0]])
        operands = [self.number(operand, values) for operand in atom.operands]
        if atom.kind == "later":
            return operands[0]
        if atom.kind == "max":
            return max(operands)
        return operands[0] // operands[1] if atom.kind == "floordiv" else operands[0] % operands[1]

    # What is known

    def least(self, x: Number) -> int | None:
        """A lower bound of x for all shapes; None if there is none."""
        if type(x) is int:
            return x
        if x.key not in self._least:
            self._least[x.key] = self._bound(x)
        return self._least[x.key]

    def _bound(self, x: Size) -> int | None:
        form, factor, constant = _form(x)
        least = self._least_by_atoms(x)
        found = self.ranges.get(form)
        if found is not None:
            bound = found.low if factor > 0 else found.high
            if bound is not None:
                known = bound * factor + constant
                return known if least is None else max(known, least)
        return least

    def _least_by_atoms(self, x: Size) -> int | None:
        """The lower bound that follows from the lower bounds of atoms: each atom is its bound plus
        something non-negative, whose terms must have no negative coefficients.
        """
        shifted: dict[Monomial, int] = {}
        for monomial, factor in x.terms.items():
            lows = []
            for number in monomial:
                low = self._low(number)
                if low is None:
                    return None
                lows.append(low)
            for count in range(len(monomial) + 1):
                for kept in combinations(range(len(monomial)), count):
                    part = factor
                    for position, low in enumerate(lows):
                        if position not in kept:
                            part *= low
                    key = tuple(monomial[position] for position in kept)
                    shifted[key] = shifted.get(key, 0) + part
        total = x.constant + shifted.pop((), 0)
        for monomial, factor in shifted.items():
            if factor >= 0:
                continue
            high = self._high(monomial)
            if high is None:
                return None
            total += factor * high
        return total

    def _low(self, number: int) -> int | None:
        found = self.ranges.get((((number,), 1),))
        return None if found is None else found.low

    def _high(self, monomial: Monomial) -> int | None:
        """How far a single atom can be above its lower bound."""
        if len(monomial) != 1:
            return None
        found = self.ranges.get(((monomial, 1),))
        if found is None or found.high is None or found.low is None:
            return None
        return found.high - found.low

    def proves(self, x: Number) -> bool:
        """Whether x >= 0 for all admissible shapes."""
        least = self.least(x)
        if least is None or least < 0:
            least = self._least_without_quotients(x)
        return least is not None and least >= 0

    def _least_without_quotients(self, x: Number) -> int | None:
        """A lower bound of x with each quotient q = a // c replaced by one of its bounds:
        a - c + 1 <= c * q <= a.
        """
        if type(x) is not Size:
            return None
        for monomial, factor in x.terms.items():
            if len(monomial) != 1:
                continue
            atom = self.atoms[monomial[0]]
            if atom.kind != "floordiv" or type(atom.operands[1]) is not int:
                continue
            a, c = atom.operands
            # the inequality times c, with c * q replaced by its bound
            rest = (x - Size(self, {monomial: factor}, 0, factor * atom.hint)) * c
            bound = a if factor < 0 else a - (c - 1)
            without = rest + bound * factor
            least = self.least(without)
            if least is None or least < 0:
                least = self._least_without_quotients(without)
            if least is not None and least >= 0:
                return 0
        return None

    # Asking

    def is_zero(self, x: Number) -> bool:
        """Whether x == 0: for all shapes, or else a condition."""
        if type(x) is not Size:
            return x == 0
        form, factor, constant = _form(x)
        if constant % factor:
            return False
        wanted = -constant // factor
        found = self._range(form)
        if found.low == found.high == wanted:
            return True
        if wanted in found.excluded or self._is_positive(x) or self._is_positive(-x):
            return False
        found.is_condition = True
        self._least.clear()
        if x.hint == 0:
            found.low = found.high = wanted
            return True
        if wanted == found.low:
            found.low += 1
        elif wanted == found.high:
            found.high -= 1
        else:
            found.excluded.add(wanted)
        return False

    def _is_positive(self, x: Number) -> bool:
        least = self.least(x)
        return least is not None and least > 0

    def is_not_negative(self, x: Number) -> bool:
        """Whether x >= 0: for all shapes, or else a condition."""
        if type(x) is not Size:
            return x >= 0
        if self.proves(x):
            return True
        if self.proves(-x - 1):
            return False
        outcome = x.hint >= 0
        self.assume(x if outcome else -x - 1).is_condition = True
        return outcome

    def assume(self, x: Size) -> Range:
        """Records that x >= 0 for all shapes."""
        form, factor, constant = _form(x)
        found = self._range(form)
        self._least.clear()
        if factor > 0:
            bound = -(constant // factor)
            found.low = bound if found.low is None else max(found.low, bound)
        else:
            bound = constant // -factor
            found.high = bound if found.high is None else min(found.high, bound)
        return found

    def pinned(self, x: Size) -> int:
        """The value of a size for the hint, which becomes a condition."""
        form, _, _ = _form(x)
        if not self.is_zero(x - x.hint):
            raise AssertionError("a size is its own hint")
        found = self.ranges[form]
        if not found.why:
            found.why = _caller()
        return x.hint

    def with_hints(self, values: Sequence[Any]) -> Sizes:
        """The same atoms and facts, with these values of the dimensions as hints; they have to
        satisfy the conditions.
        """
        made = Sizes()
        for atom in self.atoms:
            operands = tuple([self.moved(x, made, values) for x in atom.operands])
            hint = self._atom_number(atom.number, values)
            made.atoms.append(Atom(atom.number, atom.kind, operands, hint))
        made.ranges = {form: known.copy() for form, known in self.ranges.items()}
        made.numbers = dict(self.numbers)
        made._numbers = dict(self._numbers)
        return made

    def moved(self, x: Number, to: Sizes, values: Sequence[Any]) -> Number:
        """A size in terms of the atoms that `with_hints` created."""
        if type(x) is not Size:
            return x
        return Size(to, x.terms, x.constant, self.number(x, values))

    def _range(self, form: Form) -> Range:
        found = self.ranges.get(form)
        if found is None:
            found = self.ranges[form] = Range()
        return found


def _value(atoms: Mapping[int, int], x: Size) -> int:
    """The value of a polynomial for values of its atoms."""
    total = x.constant
    for monomial, factor in x.terms.items():
        for number in monomial:
            factor *= atoms[number]
        total += factor
    return total


def _form(x: Size) -> tuple[Form, int, int]:
    """x as factor * form + constant, with equal forms for all multiples of a sum of monomials."""
    items = sorted(x.terms.items())
    factor = gcd(*x.terms.values())
    if items[0][1] < 0:
        factor = -factor
    return tuple([(monomial, c // factor) for monomial, c in items]), factor, x.constant


def _falls(x: Size) -> bool:
    """Whether no term has a positive coefficient."""
    return all(factor < 0 for factor in x.terms.values())


def _caller() -> str:
    """The function of the compiler that needed a number."""
    frame = sys._getframe(1)
    own = (__name__, Size.__module__)
    while frame.f_back is not None and frame.f_globals.get("__name__") in own:
        frame = frame.f_back
    return f"{frame.f_code.co_qualname} in {frame.f_globals.get('__name__', '?')}"
