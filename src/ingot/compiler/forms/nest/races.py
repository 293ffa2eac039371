"""Race detection: proofs that no iteration of a loop touches an element that another one writes."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
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

    def key(self) -> Hashable:
        """Equal for accesses to the same elements in the same iterations."""
        joined = self.joined and (self.joined[0], self.joined[1].key())
        limits = tuple((index, limit.key()) for index, limit in self.limits)
        index = tuple(x.key() for x in self.index)
        return self.buffer, index, self.writes, joined, self.splits, limits


class _Ranges:
    """The bounds of indices at accesses. Each is computed once, although an access is compared with
    all others.
    """

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        # with the access, so that its identity stays its own
        self._known: dict[Hashable, tuple[Access, list[Affine]]] = {}

    def most(
        self, access: Access, x: Affine, keep: frozenset[Variable], sign: int = 1
    ) -> list[Affine]:
        """Upper bounds of an index of an access, or of its negative if `sign` is -1."""
        key = id(access), id(x), keep, sign
        found = self._known.get(key)
        if found is None:
            with ExitStack() as stack:
                for index, limit in access.limits:
                    stack.enter_context(self.bounds.narrowed(index, [limit - 1]))
                found = access, list(self.bounds.most(x * sign, keep))
            self._known[key] = found
        return found[1]

    def least(
        self, access: Access, x: Affine, keep: frozenset[Variable], sign: int = 1
    ) -> list[Affine]:
        """Lower bounds in the same way."""
        key = id(access), id(x), keep, sign, "least"
        found = self._known.get(key)
        if found is None:
            found = access, [each * -1 for each in self.most(access, x, keep, -sign)]
            self._known[key] = found
        return found[1]

    def is_below(self, x: Affine, y: Affine) -> bool:
        """Whether x < y can be proven."""
        if x.terms == y.terms:
            return x.constant < y.constant
        return self.bounds.is_not_negative(y - x - 1)

    def is_single(self, index: Index) -> bool:
        """Whether an index has at most one value."""
        least, most = self.bounds.range_of(index)
        return any(self.bounds.is_not_negative(low - high) for low in least for high in most)


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
    ranges, fixed = _Ranges(bounds), frozenset(around)
    several = [index for index in indices if not ranges.is_single(index)]
    return all(
        _separate(ranges, several, fixed, a, b)
        for found in _written(accesses)
        for position, a in enumerate(found)
        for b in found[position:]
        if a.writes or b.writes
    )


def _written(accesses: Sequence[Access]) -> list[list[Access]]:
    """The different accesses to each buffer that is written."""
    found: dict[Buffer, dict[Hashable, Access]] = {x.buffer: {} for x in accesses if x.writes}
    for access in accesses:
        if access.buffer in found:
            found[access.buffer].setdefault(access.key(), access)
    return [list(each.values()) for each in found.values()]


def never_meet(bounds: Bounds, accesses: Sequence[Access], others: Sequence[Access]) -> bool:
    """Whether no access of either list touches an element that one of the other list writes."""
    ranges = _Ranges(bounds)
    return all(
        _apart(ranges, frozenset(), a, b)
        for a in accesses
        for b in others
        if a.buffer is b.buffer and (a.writes or b.writes)
    )


def _separate(
    ranges: _Ranges,
    indices: Sequence[Index],
    around: frozenset[Variable],
    a: Access,
    b: Access,
) -> bool:
    """Whether iterations that differ in `indices` touch different elements."""
    if a is not b and _apart(ranges, around, a, b):
        return True
    splits = [split for split in a.splits if split in b.splits]
    return _one_by_one(ranges, indices, around, a, b, splits)


def _one_by_one(
    ranges: _Ranges,
    indices: Sequence[Index],
    around: frozenset[Variable],
    a: Access,
    b: Access,
    splits: Sequence[Split] = (),
) -> bool:
    """Whether iterations that differ in `indices` can be separated one index at a time: by one of
    them first, then by another among iterations that agree in the first, and so on. Where none of
    the remaining ones does it, a split of theirs may.
    """
    remaining, fixed = list(indices), around
    while remaining:
        found = next((i for i in remaining if _ascends(ranges, i, fixed, a, b)), None)
        if found is None:
            return any(_by_split(ranges, remaining, fixed, a, b, x, splits) for x in splits)
        remaining.remove(found)
        fixed |= {found}
    return True


def _by_split(
    ranges: _Ranges,
    indices: Sequence[Index],
    fixed: frozenset[Variable],
    a: Access,
    b: Access,
    split: Split,
    splits: Sequence[Split],
) -> bool:
    """Whether iterations that differ in `indices` differ in the linear index that is split, and
    those that differ in the results of the split touch different elements.
    """
    number = replace(a, index=(split.number,), joined=None)
    if not _one_by_one(ranges, indices, fixed, number, number):
        return False
    several = [index for index in split.indices if not ranges.is_single(index)]
    return _one_by_one(ranges, several, fixed, a, b, [x for x in splits if x is not split])


def _apart(ranges: _Ranges, fixed: frozenset[Variable], a: Access, b: Access) -> bool:
    """Whether along some axis all of one access is below all of the other."""
    for x, y in _axes(a, b):
        for (one, low), (other, high) in permutations(((a, x), (b, y))):
            below = product(ranges.most(one, low, fixed), ranges.least(other, high, fixed))
            if any(ranges.is_below(most, least) for most, least in below):
                return True
    return False


def _ascends(
    ranges: _Ranges, index: Index, fixed: frozenset[Variable], a: Access, b: Access
) -> bool:
    """Whether along some axis, everything that an iteration touches is below (or above) everything
    that later iterations touch.
    """
    keep = fixed | {index}

    def precedes(one: Access, x: Affine, other: Access, y: Affine, sign: int) -> bool:
        """Whether x is below y of all later iterations, or above it if `sign` is -1."""
        later = [
            low + low.terms[index]
            for low in ranges.least(other, y, keep, sign)
            if low.terms.get(index, 0) > 0
        ]
        highest = ranges.most(one, x, keep, sign)
        return any(ranges.is_below(high, low) for high in highest for low in later)

    for x, y in _axes(a, b):
        for sign in (1, -1):
            if precedes(a, x, b, y, sign) and (a is b or precedes(b, y, a, x, sign)):
                return True
    return False
