"""Manipulation, indexing, searching, sorting and sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import ingot.core as mx
from ingot.array_api.array import Array, common, default_int, unwrap, wrap

__all__ = """
    argmax argmin argsort broadcast_arrays broadcast_to concat count_nonzero expand_dims flip
    moveaxis nonzero permute_dims repeat reshape roll searchsorted sort squeeze stack take
    take_along_axis tile unique_all unique_counts unique_inverse unique_values unstack where
""".split()

Axes = int | Sequence[int] | None


def broadcast_arrays(*arrays: Array) -> list[Array]:
    """Arrays in their common shape."""
    return [wrap(x) for x in mx.broadcast_arrays(*map(unwrap, arrays))]


def broadcast_to(x: Array, /, shape: Sequence[int]) -> Array:
    """An array repeated to a shape."""
    return wrap(mx.broadcast_to(unwrap(x), tuple(shape)))


def concat(arrays: Sequence[Array], /, *, axis: int | None = 0) -> Array:
    """Arrays joined along an axis; flattened first if that is None."""
    parts = common(*arrays)
    if axis is None:
        return wrap(mx.concatenate([mx.flatten(x) for x in parts]))
    return wrap(mx.concatenate(parts, axis))


def stack(arrays: Sequence[Array], /, *, axis: int = 0) -> Array:
    """Arrays joined along a new axis."""
    return wrap(mx.stack(common(*arrays), axis))


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis."""
    core = mx.moveaxis(unwrap(x), axis, 0)
    return tuple(wrap(core[number]) for number in range(core.shape[0]))


def expand_dims(x: Array, /, *, axis: int = 0) -> Array:
    """An array with a new axis of length 1."""
    return wrap(mx.expand_dims(unwrap(x), axis))


def squeeze(x: Array, /, axis: int | Sequence[int]) -> Array:
    """An array without axes of length 1."""
    return wrap(mx.squeeze(unwrap(x), axis))


def flip(x: Array, /, *, axis: Axes = None) -> Array:
    """Elements in reverse order."""
    return wrap(mx.flip(unwrap(x), axis))


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """An array with axes moved elsewhere."""
    core = unwrap(x)
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    order = [n for n in range(core.ndim) if n not in {axis % core.ndim for axis in sources}]
    pairs = sorted(zip((axis % core.ndim for axis in targets), sources, strict=True))
    for target, axis in pairs:
        order.insert(target, axis % core.ndim)
    return wrap(mx.transpose(core, order))


def permute_dims(x: Array, /, axes: Sequence[int]) -> Array:
    """An array with its axes in another order."""
    return wrap(mx.transpose(unwrap(x), tuple(axes)))


def reshape(x: Array, /, shape: Sequence[int], *, copy: bool | None = None) -> Array:
    """The same elements in another shape."""
    core = mx.reshape(unwrap(x), tuple(shape))
    return wrap(mx.array(core) if copy else core)


def roll(x: Array, /, shift: Any, *, axis: Any = None) -> Array:
    """Elements moved along axes; those beyond the end come in at the front."""
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else shift
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else axis
    if isinstance(axes, tuple) and isinstance(shifts, int):
        shifts = (shifts,) * len(axes)
    return wrap(mx.roll(unwrap(x), shifts, axes))


def repeat(x: Array, repeats: int | Array, /, *, axis: int | None = None) -> Array:
    """Each element several times."""
    core = unwrap(x)
    if isinstance(repeats, Array):
        data = np.repeat(np.asarray(core), np.asarray(repeats.core), axis)
        return wrap(mx.array(data, core.dtype))
    return wrap(mx.repeat(core, repeats, axis))


def tile(x: Array, repetitions: Sequence[int], /) -> Array:
    """Several copies of an array side by side."""
    return wrap(mx.tile(unwrap(x), tuple(repetitions)))


def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Array:
    """Elements at indices along an axis."""
    core = unwrap(x)
    if axis is None and core.ndim != 1:
        raise ValueError(f"[take] needs an axis for {core.ndim} axes.")
    return wrap(mx.take(core, unwrap(indices), 0 if axis is None else axis))


def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Array:
    """Elements at one index each along an axis."""
    return wrap(mx.take_along_axis(unwrap(x), unwrap(indices), axis))


def where(condition: Array, x1: Any, x2: Any, /) -> Array:
    """Elements of one array where a condition holds, and of another elsewhere."""
    a, b = common(x1, x2)
    return wrap(mx.where(unwrap(condition), a, b))


def argmax(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first maximum."""
    return wrap(mx.argmax(unwrap(x), axis, keepdims).astype(default_int))


def argmin(x: Array, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position of the first minimum."""
    return wrap(mx.argmin(unwrap(x), axis, keepdims).astype(default_int))


def count_nonzero(x: Array, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
    """How many elements are not zero."""
    return wrap(mx.sum((unwrap(x) != 0).astype(default_int), axis, keepdims))


def nonzero(x: Array, /) -> tuple[Array, ...]:
    """The positions of the elements that are not zero, an array for each axis."""
    core = unwrap(x)
    if core.ndim == 0:
        raise ValueError("[nonzero] a 0-d array has no axes.")
    return tuple(wrap(mx.array(found, default_int)) for found in np.nonzero(np.asarray(core)))


def searchsorted(
    x1: Array, x2: Array, /, *, side: str = "left", sorter: Array | None = None
) -> Array:
    """Where elements belong in a sorted sequence."""
    sequence = unwrap(x1)
    if sorter is not None:
        sequence = mx.take(sequence, unwrap(sorter), 0)
    sequence, values = common(wrap(sequence), x2)
    return wrap(mx.searchsorted(sequence, values, side=side).astype(default_int))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """Elements in order."""
    found = mx.sort(unwrap(x), axis)
    return wrap(mx.flip(found, axis) if descending else found)


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions of elements in order; equal ones keep theirs."""
    core = unwrap(x)
    if not descending:
        return wrap(mx.argsort(core, axis).astype(default_int))
    length = core.shape[axis]
    backwards = mx.flip(mx.argsort(mx.flip(core, axis), axis), axis).astype(default_int)
    return wrap(length - 1 - backwards)


class UniqueAll(NamedTuple):
    """What `unique_all` returns."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` returns."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` returns."""

    values: Array
    inverse_indices: Array


def unique_all(x: Array, /) -> UniqueAll:
    """The distinct elements, where each is first, which one each element is, and how many."""
    core = unwrap(x)
    values, indices, inverse, counts = np.unique(
        np.asarray(core), True, True, True, equal_nan=False
    )
    integers = (indices, inverse.reshape(core.shape), counts)
    return UniqueAll(
        wrap(mx.array(values, core.dtype)), *(wrap(mx.array(p, default_int)) for p in integers)
    )


def unique_counts(x: Array, /) -> UniqueCounts:
    """The distinct elements, and how many there are of each."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Array, /) -> UniqueInverse:
    """The distinct elements, and which of them each element is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Array, /) -> Array:
    """The distinct elements."""
    return unique_all(x).values
