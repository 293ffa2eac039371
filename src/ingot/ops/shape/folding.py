"""Adds overlapping windows up: the transpose of a strided view that divides axes into windows.

Each axis of a view of windows belongs to one axis of the array: a single one has some of its
elements, two have windows and their elements. The element at tap j of window i is at `start + step
* i + dilation * j`, so the elements at one tap, padded, are a term of the sum for one remainder of
the positions modulo `step`. The sums for all remainders, interleaved, are the result: every element
is computed from the few that overlap there, without indices.
"""

from __future__ import annotations

from functools import reduce
from itertools import accumulate
from operator import add, mul
from typing import NamedTuple

from ingot._native import array
from ingot.graph.shape import Shape
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.joining import between, stack
from ingot.ops.shape.movement import reshape, transpose
from ingot.ops.shape.padding import pad
from ingot.ops.shape.slicing import element
from ingot.tuning_products import MAX_FOLDED_TAPS

__all__ = ["fold"]


class _Axis(NamedTuple):
    """The axes of a view that run along one axis of the array, by their numbers, the one with the
    longest steps first, and these steps.
    """

    length: int
    start: int
    axes: tuple[int, ...]
    steps: tuple[int, ...]


def fold(windows: array, strides: Shape, offset: int, shape: Shape) -> array | None:
    """The array of this shape in which each element is the sum of those of `windows` that a strided
    view shows at it; None if the view is not one of windows.
    """
    axes = _axes(windows.shape, strides, offset, shape)
    if axes is None:
        return None
    order = [number for axis in axes for number in axis.axes]
    others = [number for number in range(len(strides)) if number not in order]  # of length 1
    lengths = [
        length
        for axis in axes
        for length in ([windows.shape[number] for number in axis.axes] or [1])
    ]
    total = reshape(transpose(windows, (*order, *others)), lengths)
    position = len(lengths)
    for axis in reversed(axes):
        position -= max(1, len(axis.axes))
        total = _folded(total, position, axis)
    return total


def _axes(lengths: Shape, strides: Shape, offset: int, shape: Shape) -> list[_Axis] | None:
    """The axes of the array, and which ones of a view run along each; None if one runs along
    several, or if there are too many taps.
    """
    numbers = (*lengths, *strides, offset, *shape)
    if any(type(number) is not int for number in numbers) or 0 in (*lengths, *shape):
        return None
    distances = list(accumulate(reversed(shape[1:]), mul, initial=1))[::-1] if shape else []
    found: list[_Axis] = []
    for length, distance in zip(shape, distances, strict=True):
        start, offset = divmod(offset, distance)
        found.append(_Axis(length, start, (), ()))
    for number, (length, stride) in enumerate(zip(lengths, strides, strict=True)):
        if length == 1:
            continue
        along = next(
            (n for n, d in enumerate(distances) if d <= stride and shape[n] > 1), len(shape)
        )
        if along == len(shape) or stride % distances[along]:
            return None
        axis, step = found[along], stride // distances[along]
        before = sum(other >= step for other in axis.steps)
        found[along] = axis._replace(
            axes=(*axis.axes[:before], number, *axis.axes[before:]),
            steps=(*axis.steps[:before], step, *axis.steps[before:]),
        )
    return found if all(_is_within(axis, lengths) for axis in found) else None


def _is_within(axis: _Axis, lengths: Shape) -> bool:
    """Whether the windows along an axis end within it, and are few enough per element."""
    last = axis.start + sum(
        step * (lengths[number] - 1) for step, number in zip(axis.steps, axis.axes, strict=True)
    )
    taps = lengths[axis.axes[1]] if len(axis.axes) == 2 else 1
    step = axis.steps[0] if axis.steps else 1
    return last < axis.length and len(axis.axes) <= 2 and max(taps, step) <= MAX_FOLDED_TAPS


def _folded(x: array, position: int, axis: _Axis) -> array:
    """Replaces the axes from a position on that run along one axis by that axis."""
    taps = [(x, axis.start)]
    if len(axis.axes) == 2:
        taps = [
            (element(x, position + 1, tap), axis.start + tap * axis.steps[1])
            for tap in range(x.shape[position + 1])
        ]
    step = axis.steps[0] if axis.steps else 1
    count = -(-axis.length // step)
    parts = []
    for remainder in range(step):
        terms = [
            _padded(tap, position, start // step, count)
            for tap, start in taps
            if start % step == remainder
        ]
        if terms:
            parts.append(reduce(add, terms))
        else:
            shape = (*taps[0][0].shape[:position], count, *taps[0][0].shape[position + 1 :])
            parts.append(zeros(shape, x.dtype))
    if step == 1:
        return parts[0]
    joined = stack(parts, axis=position + 1)
    shape = (*joined.shape[:position], count * step, *joined.shape[position + 2 :])
    return between(reshape(joined, shape), position, 0, axis.length)


def _padded(x: array, position: int, before: int, length: int) -> array:
    """Zeros around x along an axis, which has this length then."""
    after = length - before - x.shape[position]
    if before == after == 0:
        return x
    return pad(x, [(before, after) if n == position else (0, 0) for n in range(x.ndim)])
