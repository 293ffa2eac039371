"""Shapes and axes: the arithmetic on tuples of ints that ops share, and its error sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

Shape = tuple[int, ...]

__all__ = [
    "Shape",
    "as_shape",
    "broadcast_shapes",
    "normalize_axes",
    "normalize_axis",
    "shape_text",
    "size_of",
]


def size_of(shape: Iterable[int]) -> int:
    """The number of elements of an array of that shape."""
    size = 1
    for length in shape:
        size *= length
    return size


def shape_text(shape: Iterable[int]) -> str:
    """The shape as error sentences show it: (2, 3)."""
    return "(" + ", ".join(str(length) for length in shape) + ")"


def as_shape(name: str, value: int | Sequence[int]) -> Shape:
    """A user's shape, an int or a sequence of ints, as a tuple of lengths that are not negative."""
    try:
        lengths = (index(value),)  # type: ignore[arg-type]
    except TypeError:
        try:
            lengths = tuple(map(index, value))  # type: ignore[arg-type, assignment]
        except TypeError:
            raise TypeError(
                f"[{name}] a shape is an int or a sequence of ints, got {value!r}."
            ) from None
    for length in lengths:
        if length < 0:
            raise ValueError(
                f"[{name}] a shape cannot have negative lengths, got {shape_text(lengths)}."
            )
    return lengths


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that all `shapes` broadcast to; `name` is the op that error sentences blame."""
    ndim = max(map(len, shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        offset = ndim - len(shape)
        for axis, length in enumerate(shape, offset):
            if length == 1 or result[axis] == length:
                continue
            if result[axis] != 1:
                texts = " and ".join(map(shape_text, shapes))
                raise ValueError(f"[{name}] shapes {texts} cannot be broadcast together.")
            result[axis] = length
    return tuple(result)


def normalize_axis(name: str, axis: int, ndim: int) -> int:
    """`axis` counted from the front; IndexError if there is no such axis."""
    try:
        position = index(axis)
    except TypeError:
        raise TypeError(f"[{name}] an axis is an int, got {axis!r}.") from None
    if not -ndim <= position < ndim:
        axes = "axis" if ndim == 1 else "axes"
        raise IndexError(
            f"[{name}] axis {position} is out of range for an array with {ndim} {axes}."
        )
    return position + ndim if position < 0 else position


def normalize_axes(name: str, axes: None | int | Sequence[int], ndim: int) -> tuple[int, ...]:
    """`axes` counted from the front and sorted; None means all; ValueError if one is named twice."""
    if axes is None:
        return tuple(range(ndim))
    if not isinstance(axes, Sequence):
        return (normalize_axis(name, axes, ndim),)
    found = sorted(normalize_axis(name, axis, ndim) for axis in axes)
    if len(set(found)) != len(found):
        raise ValueError(f"[{name}] axes {tuple(axes)} name an axis of the {ndim} twice.")
    return tuple(found)
