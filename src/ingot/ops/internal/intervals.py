"""Intervals: what the integers that a compiled program computes may be.

Input: a value of a program: it has an op and inputs, or is a constant or an argument. Output: its
smallest and largest possible elements, from the `interval` rules of the ops. Gathers at indices
that are provably inside their axis need no check.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.graph.op import overrides

__all__ = ["Interval", "interval_of", "is_inside"]

Interval = tuple[int, int]

_MAX_DEPTH = 96  # of the ops that an interval follows from: an unrolled search has 5 per step
_MAX_VALUES = 256  # that are looked at for one index: a gather in a long graph must not take long
_MAX_CONSTANT = 1 << 16  # elements of constants that are searched for their extremes


def is_inside(index: Any, length: Any) -> bool:
    """Whether all elements of an index are provably in bounds for an axis of that length."""
    if type(length) is not int:
        return False  # a symbol
    found = interval_of(index)
    return found is not None and -length <= found[0] and found[1] < length


def interval_of(value: Any) -> Interval | None:
    """The smallest and the largest possible element of a value; None if it is not of integers."""
    return _interval(value, {}, _MAX_DEPTH)


def _interval(value: Any, known: dict[int, Interval | None], depth: int) -> Interval | None:
    dtype = value.dtype
    if isinstance(dtype, tuple) or dtype.numpy.kind not in "biu":
        return None
    if id(value) not in known:
        natural = _natural(dtype.numpy)
        found = _followed(value, known, depth)
        fits = found is not None and natural[0] <= found[0] and found[1] <= natural[1]
        known[id(value)] = found if fits else natural
    return known[id(value)]


def _natural(dtype: np.dtype[Any]) -> Interval:
    """All integers of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


def _followed(value: Any, known: dict[int, Interval | None], depth: int) -> Interval | None:
    """What follows from an op and the intervals of its inputs, or from a constant."""
    op, constant = getattr(value, "op", None), getattr(value, "value", None)
    if constant is not None and 0 < constant.size <= _MAX_CONSTANT:
        return int(constant.min()), int(constant.max())
    if op is None or depth == 0 or len(known) >= _MAX_VALUES or not _has_rule(op):
        return None
    found = op.interval(*[_interval(source, known, depth - 1) for source in value.inputs])
    if found is None or type(found[0]) is not int or type(found[1]) is not int:
        return None  # symbolic lengths
    return found[0], found[1]


def _has_rule(op: Any) -> bool:
    kind: Any = type(op)
    return overrides(kind, "interval")
