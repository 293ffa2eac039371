"""Joining and splitting: concatenate, stack, split, tile, repeat, roll, meshgrid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import Any, ClassVar

import numpy as np

from ingot._native import Dtype, array, make, promote, wrap
from ingot.graph.boundary import attach
from ingot.graph.device import StreamLike
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.roles import Assemble, View
from ingot.graph.shape import (
    Shape,
    as_axes,
    as_lengths,
    check_addressable,
    normalize_axis,
    shape_text,
    size_of,
)
from ingot.ops.elementwise.casting import astype
from ingot.ops.shape.movement import broadcast_to, flatten, require_array, require_arrays, reshape
from ingot.ops.shape.slicing import Slice, element, slice_op, zeros_for_none

__all__ = [
    "concat",
    "concatenate",
    "meshgrid",
    "repeat",
    "roll",
    "split",
    "stack",
    "tile",
    "unstack",
]


@dataclass(frozen=True)
class Concatenate(Assemble):
    """Its inputs, which have the same dtype, concatenated along `axis`."""

    axis: int

    disjoint: ClassVar[bool] = True

    def infer(self, *inputs: array) -> tuple[Shape, Dtype]:
        axis = self.axis
        first = inputs[0].shape
        length = sum(x.shape[axis] for x in inputs)
        return (*first[:axis], length, *first[axis + 1 :]), inputs[0].dtype

    def evaluate(self, *inputs: np.ndarray) -> np.ndarray:
        return np.concatenate(inputs, self.axis)

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[Any, ...]:
        shares = []
        start = 0
        for x in inputs:
            stop = start + x.shape[self.axis]
            shares.append(partial(between, cotangent, self.axis, start, stop))
            start = stop
        return tuple(shares)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array:
        return apply(self, *zeros_for_none(tangents, inputs))

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> array:
        filled = (
            x if has_batch else broadcast_to(x, (size, *x.shape))
            for has_batch, x in zip(batched, inputs, strict=True)
        )
        return apply(Concatenate(self.axis + 1), *filled)

    def slices(self, *inputs: Any) -> list[tuple[int, View]]:
        found: list[tuple[int, View]] = []
        for number, first in self.boxes(*inputs):
            last = list(inputs[number].shape)
            last[self.axis] += first[self.axis]
            found.append((number, Slice(first, tuple(last), (1,) * len(first))))
        return found

    def boxes(self, *inputs: Any) -> list[tuple[int, Shape]]:
        found: list[tuple[int, Shape]] = []
        first = [0] * len(inputs[0].shape)
        for number, x in enumerate(inputs):
            found.append((number, tuple(first)))
            first[self.axis] += x.shape[self.axis]
        return found


def between(a: array, axis: int, start: int, stop: int, stream: StreamLike = None) -> array:
    """The slice from position `start` to position `stop` along one axis."""
    shape = a.shape
    before, after = shape[:axis], shape[axis + 1 :]
    first = (0,) * axis + (start,) + (0,) * len(after)
    op = slice_op(first, (*before, stop, *after), (1,) * len(shape))
    return make(op, (a,), (*before, stop - start, *after), a.dtype, stream)


def _array_list(name: str, arrays: Any) -> list[array]:
    """A user's sequence of arrays as a list; an array is a sequence of its rows."""
    if isinstance(arrays, array):
        arrays = unstack(arrays)
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"[{name}] takes a list of arrays, got {type(arrays).__name__}.")
    if not arrays:
        raise ValueError(f"[{name}] needs at least one array.")
    return [require_array(name, a) for a in arrays]


def _promoted(arrays: list[array]) -> list[array]:
    dtype = reduce(promote, (a.dtype for a in arrays))
    return [astype(a, dtype) for a in arrays]


def concatenate(
    arrays: Sequence[array], axis: int | None = 0, *, stream: StreamLike = None
) -> array:
    """Concatenate arrays along an existing axis.

    Args:
        arrays: The arrays, with the same shape but for `axis`.
        axis: The axis; None joins the flattened arrays.
        stream: The stream or device to run on.

    Returns:
        One array, in the dtype that all promote to.
    """
    parts = _array_list("concatenate", arrays)
    if axis is None:
        parts = [flatten(a, stream=stream) for a in parts]
        axis = 0
    if len(parts) == 1:
        return wrap(parts[0])
    first = parts[0].shape
    for a in parts:
        if a.ndim != len(first):
            raise ValueError(
                f"[concatenate] arrays must have equally many axes, got shapes "
                f"{shape_text(first)} and {shape_text(a.shape)}."
            )
    position = normalize_axis("concatenate", axis, len(first))
    for a in parts:
        shape = a.shape
        if shape[:position] != first[:position] or shape[position + 1 :] != first[position + 1 :]:
            raise ValueError(
                f"[concatenate] shapes {shape_text(first)} and {shape_text(shape)} "
                f"differ in more than axis {position}."
            )
    check_addressable("concatenate", (sum([a.shape[position] for a in parts]),))
    return apply(Concatenate(position), *_promoted(parts), stream=stream)


def concat(arrays: Sequence[array], axis: int | None = 0, *, stream: StreamLike = None) -> array:
    """The same as `concatenate`."""
    return concatenate(arrays, axis, stream=stream)


def stack(arrays: Sequence[array], axis: int | None = 0, *, stream: StreamLike = None) -> array:
    """Stack arrays of equal shape along a new axis."""
    parts = _array_list("stack", arrays)
    for a in parts:
        if a.shape != parts[0].shape:
            raise ValueError(
                f"[stack] arrays must have equal shapes, got {shape_text(parts[0].shape)} "
                f"and {shape_text(a.shape)}."
            )
    position = normalize_axis("stack", 0 if axis is None else axis, parts[0].ndim + 1)
    shape = parts[0].shape
    apart = (*shape[:position], 1, *shape[position:])
    return concatenate([reshape(a, apart) for a in parts], position, stream=stream)


def unstack(x: array, /, *, axis: int = 0, stream: StreamLike = None) -> tuple[array, ...]:
    """The parts of an array along one axis, which they do not have: the inverse of `stack`."""
    require_array("unstack", x)
    position = normalize_axis("unstack", axis, x.ndim)
    return tuple(element(x, position, number, stream) for number in range(x.shape[position]))


def split(
    a: array,
    /,
    indices_or_sections: int | Sequence[int],
    axis: int = 0,
    *,
    stream: StreamLike = None,
) -> list[array]:
    """Parts of an array along one axis.

    Args:
        a: The array.
        indices_or_sections: The number of equal parts, or the indices of the cuts.
        axis: The axis that is split.
        stream: The stream or device to run on.
    """
    require_array("split", a)
    position = normalize_axis("split", axis, a.ndim)
    length = a.shape[position]
    if isinstance(indices_or_sections, int):
        sections = indices_or_sections
        if sections <= 0:
            raise ValueError(f"[split] the number of parts must be positive, got {sections}.")
        if length % sections != 0:
            raise ValueError(
                f"[split] axis {position} of shape {shape_text(a.shape)} does not divide into "
                f"{sections} equal parts: give the indices at which to split."
            )
        width = length // sections
        cuts = [width * number for number in range(1, sections)]
    else:
        # As in a slice, negative indices count from the end, and all are clamped.
        slots = as_lengths("split", indices_or_sections)
        cuts = [slice(slot, None).indices(length)[0] for slot in slots]
    return [
        between(a, position, start, max(start, stop), stream)
        for start, stop in zip((0, *cuts), (*cuts, length), strict=True)
    ]


def tile(a: array, reps: int | Sequence[int], /, *, stream: StreamLike = None) -> array:
    """The whole array repeated along its axes.

    Args:
        a: The array.
        reps: How often along each axis. Axes and counts are aligned at the end; missing ones are 1.
        stream: The stream or device to run on.
    """
    require_array("tile", a)
    counts = (reps,) if isinstance(reps, int) else as_lengths("tile", reps)
    if any(count < 0 for count in counts):
        raise ValueError(f"[tile] an array cannot be repeated {shape_text(counts)} times.")
    ndim = max(a.ndim, len(counts))
    shape = (1,) * (ndim - a.ndim) + a.shape
    counts = (1,) * (ndim - len(counts)) + counts
    pairs = tuple(zip(counts, shape, strict=True))
    check_addressable("tile", tuple(count * length for count, length in pairs))
    apart = reshape(a, [length for pair in pairs for length in (1, pair[1])])
    repeated = broadcast_to(apart, [length for pair in pairs for length in pair], stream=stream)
    return reshape(repeated, [count * length for count, length in pairs], stream=stream)


def repeat(
    array: array, repeats: int, axis: int | None = None, *, stream: StreamLike = None
) -> array:
    """Each element repeated, along an axis or, without one, of the flattened array."""
    require_array("repeat", array)
    if not isinstance(repeats, int):
        raise TypeError(f"[repeat] the number of repeats must be an int, got {repeats!r}.")
    if repeats < 0:
        raise ValueError(f"[repeat] the number of repeats cannot be negative, got {repeats}.")
    source = flatten(array, stream=stream) if axis is None else array
    position = normalize_axis("repeat", 0 if axis is None else axis, source.ndim)
    before = source.shape[: position + 1]
    after = source.shape[position + 1 :]
    apart = reshape(source, (*before, 1, *after))
    check_addressable("repeat", (before[-1] * repeats,))
    repeated = broadcast_to(apart, (*before, repeats, *after), stream=stream)
    return reshape(repeated, (*before[:-1], before[-1] * repeats, *after), stream=stream)


def _rolled(a: array, shift: int, axis: int, stream: StreamLike) -> array:
    length = a.shape[axis]
    slots = shift % length if length > 0 else 0
    if slots == 0:
        return a
    cut = length - slots
    parts = [between(a, axis, cut, length), between(a, axis, 0, cut)]
    return concatenate(parts, axis, stream=stream)


def roll(
    a: array,
    shift: int | Sequence[int],
    axis: int | Sequence[int] | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """Elements moved along axes; those that leave at one end come in at the other.

    Args:
        a: The array.
        shift: By how many positions; one number, or one for each axis.
        axis: The axis or axes. Without one the array is rolled as if it were flat.
        stream: The stream or device to run on.
    """
    require_array("roll", a)
    shifts = (shift,) if isinstance(shift, int) else as_lengths("roll", shift)
    if axis is None:
        return reshape(_rolled(flatten(a), sum(shifts), 0, stream), a.shape, stream=stream)
    axes = as_axes("roll", axis, a.ndim)
    if isinstance(axis, int):
        shifts = (sum(shifts),)
    elif isinstance(shift, int):
        shifts = (shift,) * len(axes)
    elif len(shifts) < len(axes):
        raise ValueError(
            f"[roll] {len(axes)} axes need as many shifts, got {shape_text(shifts)} "
            f"for axes {shape_text(axes)}."
        )
    rolled = wrap(a)
    for slots, position in zip(shifts, axes, strict=False):
        rolled = _rolled(rolled, slots, position, stream)
    return rolled


def meshgrid(
    *arrays: array, sparse: bool = False, indexing: str = "xy", stream: StreamLike = None
) -> tuple[array, ...]:
    """Grids of coordinates from one array of coordinates for each axis.

    Args:
        *arrays: The coordinates; arrays with more or fewer axes than one are flattened.
        sparse: Whether each grid has length 1 in the axes along which it does not vary.
        indexing: "ij" puts the arrays along the axes in order, "xy" swaps the first two axes.
        stream: The stream or device to run on.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f'[meshgrid] indexing is "xy" or "ij", got {indexing!r}.')
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = (1, 0)
    sizes = [size_of(a.shape) for a in require_arrays("meshgrid", arrays)]
    shape = tuple(sizes[number] for number in order)
    grids = []
    for a, size, axis in zip(arrays, sizes, order, strict=True):
        lengths = [1] * len(arrays)
        lengths[axis] = size
        thin = reshape(a, lengths, stream=stream)
        grids.append(thin if sparse else broadcast_to(thin, shape, stream=stream))
    return tuple(grids)


attach(_stack=staticmethod(stack))  # for the constructor, which is in a lower layer
