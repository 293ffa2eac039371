"""The axis arguments of reductions and scans."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import index

from ingot._native import array, make
from ingot.graph.device import StreamLike
from ingot.graph.shape import normalize_axes
from ingot.ops.internal.adjoints import Reshape
from ingot.ops.shape.movement import require_array, reshape, transpose

__all__ = ["Axis", "as_int", "flattened", "joined_axes", "reduced_axes", "without_axes"]

Axis = int | Sequence[int] | None


def as_int(name: str, what: str, value: int) -> int:
    """A user's int; `name` and `what` are for the error message."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"[{name}] {what} must be an int, got {value!r}.") from None


def reduced_axes(name: str, a: array, axis: Axis) -> tuple[int, ...]:
    """The axes that a user's `axis` denotes, sorted; checks that `a` is an array."""
    ndim = require_array(name, a).ndim
    if axis is None or type(axis) is int:
        return _usual_axes(name, axis, ndim)
    return normalize_axes(name, axis, ndim)


# Fast path for one axis or all.
_usual_axes = lru_cache(maxsize=1024)(normalize_axes)


def without_axes(a: array, axes: tuple[int, ...], keepdims: bool, stream: StreamLike) -> array:
    """A result of a reduction, with the reduced axes removed unless they are kept."""
    if keepdims:
        return a
    lengths = list(a.shape)
    for axis in reversed(axes):
        del lengths[axis]
    shape = tuple(lengths)
    return make(Reshape(shape), (a,), shape, a.dtype, stream)


def flattened(a: array, stream: StreamLike) -> array:
    """The elements along one axis."""
    shape = (a.size,)
    return make(Reshape(shape), (a,), shape, a.dtype, stream)


def joined_axes(x: array, axes: tuple[int, ...]) -> tuple[array, Callable[[array], array]]:
    """`x` with the given axes moved to the end and merged into one, and the inverse."""
    kept = tuple(axis for axis in range(x.ndim) if axis not in axes)
    order = kept + axes
    moved = transpose(x, order)
    lengths = moved.shape
    joined = reshape(moved, (*lengths[: len(kept)], math.prod(lengths[len(kept) :])))
    inverse = tuple(sorted(range(x.ndim), key=order.__getitem__))
    return joined, lambda y: transpose(reshape(y, lengths), inverse)
