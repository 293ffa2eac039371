"""Bounds of affine expressions, given the loops around them.

Variables are replaced by their bounds, innermost first, so that terms cancel before they are
bounded. Symbols are lengths, which are not negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, Index, Symbol, Variable, size_of_extent
from ingot.compiler.forms.size import is_symbolic

__all__ = ["Bounds"]


class Bounds:
    """The ranges of the loop variables in scope, in the order in which they were defined."""

    def __init__(self) -> None:
        self._ranges: dict[Index, tuple[list[Affine], list[Affine]]] = {}
        self._order: dict[Index, int] = {}

    def define(self, index: Index, least: list[Affine], most: list[Affine]) -> None:
        """Adds a variable that is at least each of `least` and at most each of `most`."""
        self._ranges[index] = (least, most)
        self._order[index] = len(self._order)

    @contextmanager
    def narrowed(self, index: Index, most: list[Affine]) -> Iterator[None]:
        """In this context, a variable is also known to be at most `most`."""
        before = self._ranges[index]
        self._ranges[index] = (before[0], [*before[1], *most])
        yield
        self._ranges[index] = before

    def knows(self, variable: Variable) -> bool:
        """Whether a variable is in scope."""
        return isinstance(variable, Symbol) or variable in self._ranges

    def least(self, x: Affine, keep: Collection[Variable] = ()) -> Iterator[Affine]:
        """Lower bounds of x, in terms of symbols and the variables to keep."""
        inner = [v for v in x.terms if isinstance(v, Index) and v not in keep]
        if not inner:
            yield x
            return
        index = max(inner, key=self._order.__getitem__)
        factor = x.terms[index]
        rest = x - Affine({index: factor})
        least, most = self._ranges[index]
        for bound in least if factor > 0 else most:
            yield from self.least(rest + bound * factor, keep)

    def most(self, x: Affine, keep: Collection[Variable] = ()) -> Iterator[Affine]:
        """Upper bounds of x, in terms of symbols and the variables to keep."""
        for found in self.least(x * -1, keep):
            yield found * -1

    def is_not_negative(self, x: Affine) -> bool:
        """Whether x >= 0 can be proven."""
        return any(map(_is_not_negative, self.least(x)))

    def range_of(self, index: Index) -> tuple[list[Affine], list[Affine]]:
        """The bounds of a variable."""
        return self._ranges[index]


def _is_not_negative(x: Affine) -> bool:
    """Whether an expression of symbols is not negative: because none of its terms is, or by what
    the program knows of its sizes.
    """
    if x.constant >= 0 and all(factor >= 0 for factor in x.terms.values()):
        return True
    known = [v.size for v in x.terms if isinstance(v, Symbol) and v.size is not None]
    if not known or len(known) < len(x.terms):
        return False
    total = size_of_extent(x)
    if not is_symbolic(total):
        return total >= 0  # for the numbers that this program passes to the kernel
    found: bool = total.sizes.proves(total)
    return found
