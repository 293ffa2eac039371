"""Whether iterations of a loop touch elements that another one writes."""

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
    # axes whose indices are parts of one number, and that number
    joined: tuple[tuple[int, ...], Affine] | None = None
    # the numbers that are split around it
    splits: tuple[Split, ...] = ()
    # what indices are known to be below where it is, besides the bounds of their loops
    limits: tuple[tuple[Index, Affine], ...] = ()

    def most(self, bounds: Bounds, x: Affine, keep: Collection[Variable]) -> list[Affine]:
        """What an expression is no more than where the access is."""
        with ExitStack() as stack:
            for index, limit in self.limits:
                stack.enter_context(bounds.narrowed(index, [limit - 1]))
            return list(bounds.most(x, keep))

    def least(self, bounds: Bounds, x: Affine, keep: Collection[Variable]) -> list[Affine]:
        """What an expression is no less than where the access is."""
        return [found * -1 for found in self.most(bounds, x * -1, keep)]


def _axes(a: Access, b: Access) -> Iterator[tuple[Affine, Affine]]:
    """The indices of two accesses to a buffer, axis by axis; if those along some axes are parts of
    one number, that too.
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
    """Whether iterations with other values of `indices` touch other elements of all buffers that
    are written, the variables of the loops around them being equal.
    """
    several = [index for index in indices if not _is_single(bounds, index)]
    return all(
        _separate(bounds, several, around, a, b)
        for position, a in enumerate(accesses)
        for b in accesses[position:]
        if a.buffer is b.buffer and (a.writes or b.writes)
    )


def never_meet(bounds: Bounds, accesses: Sequence[Access], others: Sequence[Access]) -> bool:
    """Whether what some accesses write, others never touch, and the other way round."""
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
    """Whether iterations with other values of indices touch other elements; also because numbers
    that they split are other ones, and the indices that those become are told apart.
    """
    if a is not b and _apart(bounds, around, a, b):
        return True
    if _one_by_one(bounds, indices, around, a, b):
        return True
    for split in a.splits:
        if split in b.splits:
            number = replace(a, index=(split.number,), joined=None)
            if _one_by_one(bounds, indices, around, number, number) and _one_by_one(
                bounds, split.indices, around, a, b
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
    """Whether indices can be told from each other one by one: those found first are equal in the
    iterations that remain.
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
    """Whether a loop has at most one iteration."""
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
    """Whether along some axis, what an iteration touches is below (or above) what the next one and
    all after it touch.
    """
    keep = {index, *fixed}

    def precedes(one: Access, x: Affine, other: Access, y: Affine) -> bool:
        """Whether x in an iteration is below y in all later ones."""
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
