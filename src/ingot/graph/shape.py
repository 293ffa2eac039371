"""Shapes and axes: the arithmetic on tuples of ints that ops share, and its error messages.

Lengths may be dimensions (`graph/dimension.py`), which stay symbolic as long as they are only
added, multiplied, divided and compared: nothing here converts them to int.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index

from ingot.graph.errors import RangeError, value_text

Shape = tuple[int, ...]

__all__ = [
    "Shape",
    "as_axes",
    "as_lengths",
    "as_shape",
    "axes_tuple",
    "broadcast_shapes",
    "contiguous",
    "fill_length",
    "normalize_axes",
    "normalize_axis",
    "reshaped_strides",
    "same_shape",
    "shape_text",
    "size_of",
]


def size_of(shape: Iterable[int]) -> int:
    """The number of elements of an array of that shape."""
    size = 1
    for length in shape:
        size *= length
    return size


def same_shape(shape: Shape, other: Shape) -> bool:
    """Whether the shapes are equal.

    Tuple comparison compares items before lengths, and comparing dimensions adds guards.
    """
    return len(shape) == len(other) and shape == other


def shape_text(shape: Iterable[int]) -> str:
    """The shape as error messages show it: (2, 3)."""
    return "(" + ", ".join(str(length) for length in shape) + ")"


def as_lengths(name: str, value: Iterable[int]) -> Shape:
    """A user's sequence of ints as a tuple; `name` is the op in error messages."""
    try:
        return tuple([length if isinstance(length, int) else index(length) for length in value])
    except TypeError:
        raise TypeError(
            f"[{name}] a shape must be a sequence of ints, got {value_text(value)}."
        ) from None


def as_shape(name: str, value: int | Sequence[int]) -> Shape:
    """A user's shape, an int or a sequence of ints, as a tuple of nonnegative lengths."""
    lengths = (value,) if isinstance(value, int) else as_lengths(name, value)
    for length in lengths:
        if length < 0:
            _check_length(name, lengths)
            raise ValueError(
                f"[{name}] a shape cannot have negative lengths, got {shape_text(lengths)}."
            )
    check_addressable(name, lengths)
    return lengths


MAX_LENGTH = 2**31 - 1  # MLX's, whose lengths are of 32 bits
MAX_ELEMENTS = 2**59  # of 8 bytes each, 4 EiB: addressable, and sums do not overflow
MAX_AXES = 64  # NumPy's limit


def check_addressable(name: str, lengths: Shape) -> None:
    """RangeError for a shape that no array has; symbolic lengths are not known yet."""
    if not all(type(length) is int for length in lengths):
        return
    if len(lengths) > MAX_AXES:
        raise ValueError(f"[{name}] an array has at most {MAX_AXES} axes, got {len(lengths)}.")
    _check_length(name, lengths)
    if size_of(lengths) > MAX_ELEMENTS:
        raise OverflowError(
            f"[{name}] an array of shape {shape_text(lengths)} has more elements than memory has "
            "addresses."
        )


def _check_length(name: str, lengths: Shape) -> None:
    if any(not -MAX_LENGTH - 1 <= length <= MAX_LENGTH for length in lengths):
        raise RangeError(
            f"[{name}] an axis has at most {MAX_LENGTH} elements, got shape {shape_text(lengths)}."
        )


def fill_length(name: str, shape: Shape, lengths: Shape) -> Shape:
    """`lengths` with -1 replaced such that there are as many elements as in `shape`."""
    size = size_of(shape)
    if -1 not in lengths:
        if size_of(lengths) != size or any(length < 0 for length in lengths):
            raise _misfit(name, shape, lengths, f"{size} elements do not fill it")
        return lengths
    position = lengths.index(-1)
    before = lengths[:position]
    after = lengths[position + 1 :]
    if -1 in after:
        raise _misfit(name, shape, lengths, "only one length can be -1")
    known = size_of(before) * size_of(after)
    if known == 0:
        raise _misfit(name, shape, lengths, "give the length for -1, which times 0 could be any")
    if known < 0 or size % known != 0:
        raise _misfit(name, shape, lengths, f"{size} elements do not divide by {known}")
    return (*before, size // known, *after)


def _misfit(name: str, shape: Shape, lengths: Shape, reason: str) -> Exception:
    old, new = shape_text(shape), shape_text(lengths)
    if any(type(length) is int and abs(length) > MAX_LENGTH for length in lengths):
        return RangeError(
            f"[{name}] cannot {name} {old} to {new}: an axis has at most {MAX_LENGTH} elements."
        )
    return ValueError(f"[{name}] cannot {name} {old} to {new}: {reason}.")


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that all `shapes` broadcast to; `name` is the op in error messages."""
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
        raise TypeError(f"[{name}] an axis must be an int, got {value_text(axis)}.") from None
    if not -ndim <= position < ndim:
        if not -MAX_LENGTH - 1 <= position <= MAX_LENGTH:
            raise RangeError(f"[{name}] axis {position} does not fit into 32 bits.")
        axes = "axis" if ndim == 1 else "axes"
        raise IndexError(
            f"[{name}] axis {position} is out of range for an array with {ndim} {axes}."
        )
    return position + ndim if position < 0 else position


def axes_tuple(name: str, axes: int | Iterable[int]) -> tuple[int, ...]:
    """A user's axes, an int or a sequence of ints, as a tuple."""
    if isinstance(axes, int):
        return (axes,)
    if not isinstance(axes, Iterable):
        raise TypeError(f"[{name}] axes must be an int or a sequence of ints, got {axes!r}.")
    return tuple(axes)


def as_axes(name: str, axes: int | Iterable[int], ndim: int) -> tuple[int, ...]:
    """A user's axes, an int or a sequence of ints, counted from the front, in the order given."""
    return tuple(normalize_axis(name, axis, ndim) for axis in axes_tuple(name, axes))


def normalize_axes(name: str, axes: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """`axes` counted from the front and sorted; None means all; none may be named twice."""
    if axes is None:
        return tuple(range(ndim))
    found = tuple(sorted(as_axes(name, axes, ndim)))
    if len(set(found)) != len(found):
        raise ValueError(f"[{name}] the axes {axes} name one of the {ndim} twice.")
    return found


def contiguous(shape: Sequence[int], itemsize: int) -> Shape:
    """The strides in bytes of an array in row-major order without gaps."""
    strides = []
    step = itemsize
    for length in reversed(shape):
        strides.append(step)
        step *= length if type(length) is int and length > 0 else max(length, 1)
    return tuple(strides[::-1])


def reshaped_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """The strides under which elements of `shape` and `strides` have the shape `target`.

    Both shapes are cut into the shortest runs of axes with equal numbers of elements; within a run
    the old axes must be mergeable into one. None if they are not.
    """
    old = [(length, stride) for length, stride in zip(shape, strides, strict=True) if length != 1]
    result: list[int] = []
    position = 0
    pending: list[int] = []  # new axes of the current run
    for length in target:
        pending.append(length)
        run = size_of(pending)
        if run == 1:
            continue
        first, covered = position, 1
        while position < len(old) and covered < run:
            covered *= old[position][0]
            position += 1
        if covered != run:
            position = first
            continue
        for (_, outer), (inner_length, inner) in zip(
            old[first:position], old[first + 1 : position], strict=False
        ):
            if outer != inner * inner_length:
                return None
        result += _strides_of_run(pending, old[position - 1][1])
        pending = []
    return tuple(result + [0] * len(pending))


def _strides_of_run(lengths: list[int], last: int) -> list[int]:
    strides = []
    for length in reversed(lengths):
        strides.append(last)
        last *= length
    return strides[::-1]
