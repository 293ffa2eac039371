"""Arrays as containers: iteration along the first axis, and `in`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ingot._native import array
from ingot.graph.boundary import at_boundary, attach
from ingot.ops.index.subscript import getitem
from ingot.ops.reduce.reduction import any as any_of

__all__ = ["ArrayIterator", "contains", "iterate"]

if TYPE_CHECKING:
    _Items = map[array]
else:
    _Items = map  # takes no type at run time


class ArrayIterator(_Items):
    """What `iter` returns for an array: its items along the first axis."""

    __slots__ = ()


def iterate(a: array) -> Iterator[array]:
    """The items along the first axis."""
    if a.ndim == 0:
        raise TypeError("[iter] a 0-d array has no items: use item() for its value.")
    return ArrayIterator(partial(getitem, a), range(a.shape[0]))


def contains(a: array, value: Any) -> bool:
    """Whether an item along the first axis equals `value`."""
    if a.ndim != 1:
        return any(bool(row == value) for row in iterate(a))
    equal = a == value
    return bool(any_of(equal)) if isinstance(equal, array) else equal


# Used by `for` and `in`; set here, like the operators, so that it works without the public module.
attach(
    __iter__=at_boundary(iterate, "array.__iter__"),
    __contains__=at_boundary(contains, "array.__contains__"),
)
