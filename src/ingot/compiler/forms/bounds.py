"""What affine expressions are at least and at most, given the loops around them.

Variables are replaced by their bounds, the innermost first, so that what cancels cancels before it
is bounded. Symbols are lengths, which are not negative.
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
        """A variable that is no less than any of `least` and no more than any of `most`."""
        self._ranges[index] = (least, most)
        self._order[index] = len(self._order)

    @contextmanager
    def narrowed(self, index: Index, most: list[Affine]) -> Iterator[None]:
        """While a variable is known to be no more than `most` too."""
        before = self._ranges[index]
        self._ranges[index] = (before[0], [*before[1], *most])
        yield
        self._ranges[index] = before

    def knows(self, variable: Variable) -> bool:
        """Whether a variable is in scope."""
        return isinstance(variable, Symbol) or variable in self._ranges

    def least(self, x: Affine, keep: Collection[Variable] = ()) -> Iterator[Affine]:
        """Expressions of symbols and the variables to keep that x is no less than."""
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
        """Expressions of symbols and the variables to keep that x is no more than."""
        for found in self.least(x * -1, keep):
            yield found * -1

    def is_not_negative(self, x: Affine) -> bool:
        """Whether x >= 0 can be shown."""
        return any(map(_is_not_negative, self.least(x)))

    def range_of(self, index: Index) -> tuple[list[Affine], list[Affine]]:
        """The bounds of a variable."""
        return self._ranges[index]


def _is_not_negative(x: Affine) -> bool:
    """Whether an expression of symbols is not negative: because none of its terms is, or because of
    what the program knows of its sizes.
    """
    if x.constant >= 0 and all(factor >= 0 for factor in x.terms.values()):
        return True
    known = [v.size for v in x.terms if isinstance(v, Symbol) and v.size is not None]
    if not known or len(known) < len(x.terms):
        return False
    total = size_of_extent(x)
    if not is_symbolic(total):
        return total >= 0  # of the numbers that the kernel is given in this program
    found: bool = total.sizes.proves(total)
    return found
