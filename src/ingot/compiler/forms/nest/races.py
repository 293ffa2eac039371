"""Whether iterations of a loop touch elements that another one writes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import product

from ingot.compiler.forms.affine import Affine, Index, Variable
from ingot.compiler.forms.bounds import Bounds
from ingot.compiler.forms.nest.data import Buffer
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
    """Whether indices can be told from each other one by one: those found first are equal in the
    iterations that remain.
    """
    if a is not b and _apart(bounds, around, a, b):
        return True
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
    return any(
        not (high - low).terms and (high - low).constant <= 0 for low in least for high in most
    )


def _apart(bounds: Bounds, fixed: Collection[Variable], a: Access, b: Access) -> bool:
    """Whether along some axis all of one access is below all of the other."""
    for x, y in _axes(a, b):
        for low, high in ((x, y), (y, x)):
            below = product(bounds.most(low, fixed), bounds.least(high, fixed))
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
    for x, y in _axes(a, b):
        for sign in (1, -1):
            one, other = x * sign, y * sign
            if _precedes(bounds, index, keep, one, other) and (
                a is b or _precedes(bounds, index, keep, other, one)
            ):
                return True
    return False


def _precedes(
    bounds: Bounds, index: Index, keep: Collection[Variable], x: Affine, y: Affine
) -> bool:
    """Whether x in an iteration is below y in all later ones."""
    later = [low + low.terms[index] for low in bounds.least(y, keep) if low.terms.get(index, 0) > 0]
    return any(
        bounds.is_not_negative(low - high - 1) for high in bounds.most(x, keep) for low in later
    )
