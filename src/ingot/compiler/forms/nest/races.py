"""Race detection: proofs that no iteration of a loop touches an element that another one writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import permutations, product

from ingot.compiler.forms.affine import Affine, Index, Variable
from ingot.compiler.forms.bounds import Bounds
from ingot.compiler.forms.nest.data import Buffer, Split
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Access", "are_disjoint", "never_meet"]


@dataclass(frozen=True)
class Access:
    """A read or a write of an element."""

    buffer: Buffer
    index: tuple[Affine, ...]
    writes: bool
    # axes whose indices are parts of one linear index, and that index
    joined: tuple[tuple[int, ...], Affine] | None = None
    # the splits whose indices are in scope
    splits: tuple[Split, ...] = ()
    # upper limits of indices at the access (exclusive), in addition to the bounds of their loops
    limits: tuple[tuple[Index, Affine], ...] = ()

    def most(self, bounds: Bounds, x: Affine, keep: Collection[Variable]) -> list[Affine]:
        """Upper bounds of an expression at the access."""
        with ExitStack() as stack:
            for index, limit in self.limits:
                stack.enter_context(bounds.narrowed(index, [limit - 1]))
            return list(bounds.most(x, keep))

    def least(self, bounds: Bounds, x: Affine, keep: Collection[Variable]) -> list[Affine]:
        """Lower bounds of an expression at the access."""
        return [found * -1 for found in self.most(bounds, x * -1, keep)]


def _axes(a: Access, b: Access) -> Iterator[tuple[Affine, Affine]]:
    """The indices of two accesses to a buffer, axis by axis, and the linear indices that some of
    these are parts of.
    """
    yield from zip(a.index, b.index, strict=True)
    if a.joined is not None and b.joined is not None and a.joined[0] == b.joined[0]:
        yield a.joined[1], b.joined[1]


def are_disjoint(
    bounds: Bounds,
    indices: Sequence[Index],
    accesses: Sequence[Access],
    around: Collection[Variable] = (),
) -> bool:
    """Whether iterations that differ in `indices` touch different elements of all buffers that are
    written, given equal indices of the loops around them.
    """
    several = [index for index in indices if not _is_single(bounds, index)]
    return all(
        _separate(bounds, several, around, a, b)
        for position, a in enumerate(accesses)
        for b in accesses[position:]
        if a.buffer is b.buffer and (a.writes or b.writes)
    )


def never_meet(bounds: Bounds, accesses: Sequence[Access], others: Sequence[Access]) -> bool:
    """Whether no access of either list touches an element that one of the other list writes."""
    return all(
        _apart(bounds, (), a, b)
        for a in accesses
        for b in others
        if a.buffer is b.buffer and (a.writes or b.writes)
    )


def _separate(
    bounds: Bounds,
    indices: Sequence[Index],
    around: Collection[Variable],
    a: Access,
    b: Access,
) -> bool:
    """Whether iterations that differ in `indices` touch different elements. It suffices that the
    linear indices that they split differ, and that different results of that split touch different
    elements.
    """
    if a is not b and _apart(bounds, around, a, b):
        return True
    if _one_by_one(bounds, indices, around, a, b):
        return True
    for split in a.splits:
        if split in b.splits:
            number = replace(a, index=(split.number,), joined=None)
            several = [index for index in split.indices if not _is_single(bounds, index)]
            if _one_by_one(bounds, indices, around, number, number) and _one_by_one(
                bounds, several, around, a, b
            ):
                return True
    return False


def _one_by_one(
    bounds: Bounds,
    indices: Sequence[Index],
    around: Collection[Variable],
    a: Access,
    b: Access,
) -> bool:
    """Whether iterations that differ in `indices` can be separated one index at a time: by one of
    them first, then by another among iterations that agree in the first, and so on.
    """
    remaining, fixed = list(indices), set(around)
    while remaining:
        found = next((i for i in remaining if _ascends(bounds, i, fixed, a, b)), None)
        if found is None:
            return False
        remaining.remove(found)
        fixed.add(found)
    return True


def _is_single(bounds: Bounds, index: Index) -> bool:
    """Whether an index has at most one value."""
    least, most = bounds.range_of(index)
    return any(bounds.is_not_negative(low - high) for low in least for high in most)


def _apart(bounds: Bounds, fixed: Collection[Variable], a: Access, b: Access) -> bool:
    """Whether along some axis all of one access is below all of the other."""
    for x, y in _axes(a, b):
        for (one, low), (other, high) in permutations(((a, x), (b, y))):
            below = product(one.most(bounds, low, fixed), other.least(bounds, high, fixed))
            if any(bounds.is_not_negative(least - most - 1) for most, least in below):
                return True
    return False


def _ascends(
    bounds: Bounds, index: Index, fixed: Collection[Variable], a: Access, b: Access
) -> bool:
    """Whether along some axis, everything that an iteration touches is below (or above) everything
    that later iterations touch.
    """
    keep = {index, *fixed}

    def precedes(one: Access, x: Affine, other: Access, y: Affine) -> bool:
        """Whether x is below y of all later iterations."""
        later = [
            low + low.terms[index]
            for low in other.least(bounds, y, keep)
            if low.terms.get(index, 0) > 0
        ]
        highest = one.most(bounds, x, keep)
        return any(bounds.is_not_negative(low - high - 1) for high in highest for low in later)

    for x, y in _axes(a, b):
        for sign in (1, -1):
            if precedes(a, x * sign, b, y * sign) and (
                a is b or precedes(b, y * sign, a, x * sign)
            ):
                return True
    return False
