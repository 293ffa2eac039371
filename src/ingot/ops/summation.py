"""Sums and products of NumPy arrays in the order of `graph/reduction_order.py`.

Comes in: a NumPy array and the axes to reduce. Goes out: the results, with the axes kept as
length 1. NumPy's own reductions add in an order that depends on the memory layout and the
processor.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ingot.graph.reduction_order import BLOCK, LANES, PART, inner_axes

__all__ = ["ordered_reduction"]

Combine = Callable[..., np.ndarray]  # (a, b, out=None), as NumPy's functions


def ordered_reduction(
    x: np.ndarray, axes: tuple[int, ...], combine: Combine, start: complex, total: np.dtype
) -> np.ndarray:
    """The elements over sorted `axes` combined, in the dtype of `x`; blocks in that of `total`."""
    shape = tuple(1 if axis in axes else length for axis, length in enumerate(x.shape))
    lengths = tuple(length for length in x.shape if length != 1)
    reduced = _without_ones(x.shape, axes)
    if not reduced:
        return x.astype(total)
    if x.size == 0:
        return np.full(shape, start, total)
    rows = _rows(x.reshape(lengths), reduced)
    sums = _blocks(rows, combine, start).astype(total, copy=False)
    sums = sums.reshape(sums.shape[0], sums.shape[1] * sums.shape[2], sums.shape[3])
    if sums.shape[1] > PART:
        sums = _one_after_the_other(_padded(sums, PART, start), combine, start)
    return _one_after_the_other(sums[:, None], combine, start).reshape(shape)


def _without_ones(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The axes that are longer than 1, counted without those that are not."""
    places = [axis for axis, length in enumerate(shape) if length != 1]
    return tuple(place for place, axis in enumerate(places) if axis in axes)


def _rows(x: np.ndarray, reduced: tuple[int, ...]) -> np.ndarray:
    """An array with the axes: kept before, outer reduced, inner reduced, kept behind. Copies unless
    the reduced axes are neighbours.
    """
    inner = inner_axes(x.shape, reduced)
    before = [axis for axis in range(x.ndim) if axis not in reduced and axis < reduced[0]]
    behind = [axis for axis in range(x.ndim) if axis not in reduced and axis > reduced[0]]
    if reduced[-1] - reduced[0] + 1 != len(reduced):
        before, behind = before + behind, []
    outer = [axis for axis in reduced if axis not in inner]
    groups = (before, outer, list(inner), behind)
    moved = x.transpose([axis for group in groups for axis in group])
    return moved.reshape([prod(x.shape[axis] for axis in group) for group in groups])


def _padded(x: np.ndarray, multiple: int, start: complex) -> np.ndarray:
    """The second of three axes in groups of `multiple`, the last of which is filled up."""
    missing = -x.shape[1] % multiple
    if missing:
        filler = np.full((x.shape[0], missing, x.shape[2]), start, x.dtype)
        x = np.concatenate([x, filler], 1)
    return x.reshape(x.shape[0], -1, multiple, x.shape[2])


def _one_after_the_other(x: np.ndarray, combine: Combine, start: complex) -> np.ndarray:
    """The third of four axes combined in order."""
    total = np.full((*x.shape[:2], x.shape[3]), start, x.dtype)
    for place in range(x.shape[2]):
        combine(total, x[:, :, place], out=total)
    return total


def _blocks(x: np.ndarray, combine: Combine, start: complex) -> np.ndarray:
    """The sums of the blocks along the third of four axes."""
    before, outer, length, behind = x.shape
    whole = length // BLOCK * BLOCK
    found = np.empty((before, outer, -(-length // BLOCK), behind), x.dtype)
    if whole:
        blocks = x[:, :, :whole].reshape(before, outer, -1, BLOCK, behind)
        found[:, :, : whole // BLOCK] = _lanes(blocks, combine, start)
    if whole < length:
        found[:, :, -1:] = _lanes(x[:, :, None, whole:], combine, start)
    return found


def _lanes(x: np.ndarray, combine: Combine, start: complex) -> np.ndarray:
    """The sums over the fourth of five axes, by lanes."""
    length = x.shape[3]
    lanes = min(LANES, 1 << max(length - 1, 0).bit_length())
    sums = np.full((*x.shape[:3], lanes, x.shape[4]), start, x.dtype)
    for first in range(0, length, LANES):
        row = x[:, :, :, first : first + LANES]
        into = sums[:, :, :, : row.shape[3]]
        combine(into, row, out=into)
    while lanes > 1:
        lanes //= 2
        sums = combine(sums[:, :, :, :lanes], sums[:, :, :, lanes:])
    return sums[:, :, :, 0]
