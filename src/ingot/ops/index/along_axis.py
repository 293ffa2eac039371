"""Gathers and scatters along one axis, with one index per element, as from `argsort`.

The VJP of `TakeAlongAxis` is a `PutAlongAxis` that adds, and vice versa. Indices follow the rules
of `indexing.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot._native import Dtype, array, make
from ingot.graph.device import StreamLike
from ingot.graph.dtype import int32, int64, is_integer
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Change, apply, changed_copy
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, broadcast_shapes, normalize_axis, size_of
from ingot.ops.elementwise.arithmetic import Add
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import Select, where
from ingot.ops.internal.accumulate import accumulation, positions_along, wrapped
from ingot.ops.internal.adjoints import Broadcast
from ingot.ops.internal.indexed_elements import ElementsAt, IsAt, checked
from ingot.ops.internal.positions import Positions
from ingot.ops.shape.creation import arange, zeros
from ingot.ops.shape.movement import broadcast_to, require_array, reshape, squeeze
from ingot.ops.shape.slicing import broadcast_batch, zeros_for_none

__all__ = ["put_along_axis", "take_along_axis"]

_INDIRECT = "it stores through several indices along an axis"


@dataclass(frozen=True)
class TakeAlongAxis(Host):
    """`x[..., indices[..., j, ...], ...]`: one index along `axis` for each element of the result.

    The two inputs have equal lengths along all other axes.
    """

    axis: int

    first_index = 1
    why_host = "it has no elements"

    def infer(self, x: array, indices: array) -> tuple[Shape, Dtype]:
        return indices.shape, x.dtype

    def evaluate(self, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
        length = x.shape[self.axis]
        if x.flags.c_contiguous:
            slots = positions_along(indices, self.axis, length)
            return np.take(x.reshape(-1), slots).reshape(indices.shape)
        return np.take_along_axis(x, wrapped(indices, length), self.axis)

    def vjp(self, cotangent: array, out: array, x: array, indices: array) -> tuple[array, None]:
        op = PutAlongAxis(self.axis, "add")
        return apply(op, zeros(x.shape, x.dtype), cotangent, indices), None

    def jvp(
        self, tangents: tuple[array | None, None], out: array, x: array, indices: array
    ) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0], indices)

    def vmap(self, size: int, batched: tuple[bool, bool], x: array, indices: array) -> array:
        return apply(
            TakeAlongAxis(self.axis + 1),
            broadcast_batch(x, size, batched[0]),
            broadcast_batch(indices, size, batched[1]),
        )

    def expanded(self, build: Callable[..., Any], x: Any, indices: Any) -> Any | None:
        if size_of(indices.shape) == 0:
            return None
        slot = checked(build, indices, x.shape[self.axis])
        along = tuple(-1 if axis == self.axis else axis for axis in range(len(x.shape)))
        return build(ElementsAt((self.axis,), along), x, slot)


@dataclass(frozen=True)
class PutAlongAxis(Host):
    """The first input with the second written along `axis` at the third: one index per element."""

    axis: int
    mode: str  # "assign", where the last of repeated indices wins, or "add"

    first_index = 2
    why_host = _INDIRECT

    def infer(self, x: array, updates: array, indices: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    evaluate = changed_copy

    def change(self, x: np.ndarray, updates: np.ndarray, indices: np.ndarray) -> Change:
        rows = positions_along(indices, self.axis, x.shape[self.axis])
        return accumulation(self.mode, x.reshape((-1, 1)), rows, updates.reshape((-1, 1)))

    def vjp(
        self, cotangent: array, out: array, x: array, updates: array, indices: array
    ) -> tuple[array, array, None]:
        gathered = apply(TakeAlongAxis(self.axis), cotangent, indices)
        if self.mode == "add":
            return cotangent, gathered, None
        cleared = apply(self, cotangent, zeros(updates.shape, updates.dtype), indices)
        return cleared, where(self.last(x.shape, indices), gathered, 0), None

    def last(self, shape: Shape, indices: array) -> array:
        """Which updates survive where an index is repeated."""
        numbers = arange(indices.shape[self.axis], dtype=int32)
        behind = indices.ndim - 1 - self.axis
        numbers = broadcast_to(reshape(numbers, (-1,) + (1,) * behind), indices.shape)
        winners = apply(self, zeros(shape, int32), numbers, indices)
        return apply(TakeAlongAxis(self.axis), winners, indices) == numbers

    def jvp(
        self,
        tangents: tuple[array | None, array | None, None],
        out: array,
        x: array,
        updates: array,
        indices: array,
    ) -> array:
        return apply(self, *zeros_for_none(tangents[:2], (x, updates)), indices)

    def vmap(
        self, size: int, batched: tuple[bool, bool, bool], x: array, updates: array, indices: array
    ) -> array:
        return apply(
            PutAlongAxis(self.axis + 1, self.mode),
            broadcast_batch(x, size, batched[0]),
            broadcast_batch(updates, size, batched[1]),
            broadcast_batch(indices, size, batched[2]),
        )

    def expanded(self, build: Callable[..., Any], x: Any, updates: Any, indices: Any) -> Any | None:
        """With one update along the axis, select at each position between it and the old value."""
        length = x.shape[self.axis]
        if indices.shape[self.axis] != 1 or size_of(x.shape) == 0:
            return None
        spread = Broadcast(x.shape)
        slot = build(spread, checked(build, indices, length))
        update = build(spread, updates)
        here = build(Positions(x.shape, (self.axis,), int64))
        is_here = build(IsAt(length), here, slot)
        changed = update if self.mode == "assign" else build(Add(), x, update)
        return build(Select(), is_here, changed, x)


def take_along_axis(
    a: array, /, indices: array, axis: int | None = -1, *, stream: StreamLike = None
) -> array:
    """Take one element along an axis for each index: what indices from `argsort` are for.

    Args:
        a: The array to take from.
        indices: Integers, with as many axes as `a`; the two broadcast against each other except
            along `axis`.
        axis: The axis that the indices belong to; None flattens `a` first.
        stream: The stream or device to run on.

    Returns:
        An array with the shape of the indices.
    """
    source, indices, position = _aligned("take_along_axis", a, indices, axis)
    return make(TakeAlongAxis(position), (source, indices), indices.shape, a.dtype, stream)


def put_along_axis(
    a: array,
    /,
    indices: array,
    values: array,
    axis: int | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """Put one value along an axis for each index; where one is repeated, the last value stays.

    Args:
        a: The array to put values into; it is not changed.
        indices: Integers, with as many axes as `a`; the two broadcast against each other except
            along `axis`.
        values: What to put, converted to the dtype of `a`. The indices and the values broadcast
            against each other.
        axis: The axis that the indices belong to; None flattens `a`.
        stream: The stream or device to run on.

    Returns:
        An array with the shape of `a`, broadcast against the others except along `axis`.
    """
    for given in (a, indices, values):
        require_array("put_along_axis", given)
    if axis is not None and any(type(n) is int and n == 0 for n in a.shape):
        _aligned("put_along_axis", a, zeros((1,) * indices.ndim, int32), axis)  # raises
        return a  # there is nothing to put values into, whatever they are
    if values.ndim > indices.ndim:
        values = squeeze(values, tuple(range(values.ndim - indices.ndim)))
    shape = broadcast_shapes("put_along_axis", indices.shape, values.shape)
    indices = broadcast_to(indices, shape)
    target, indices, position = _aligned("put_along_axis", a, indices, axis)
    updates = broadcast_to(astype(values, a.dtype), indices.shape)
    op = PutAlongAxis(position, "assign")
    result = make(op, (target, updates, indices), target.shape, a.dtype, stream)
    return reshape(result, a.shape) if axis is None else result


def _aligned(name: str, a: array, indices: array, axis: int | None) -> tuple[array, array, int]:
    """The array and the indices with equal lengths along all axes but one, and that axis."""
    require_array(name, a)
    require_array(name, indices)
    source = reshape(a, (a.size,)) if axis is None else a
    position = 0 if axis is None else normalize_axis(name, axis, a.ndim)
    if indices.ndim != source.ndim:
        raise ValueError(
            f"[{name}] indices with {indices.ndim} axes do not match an array with {source.ndim}."
        )
    if not is_integer(indices.dtype):
        # MLX raises RuntimeError here, but only when it evaluates.
        raise RuntimeError(f"[{name}] indices must be integers, got dtype {indices.dtype.name}.")
    lengths = source.shape[position], indices.shape[position]
    before, after = slice(position), slice(position + 1, None)
    others = [x.shape[before] + x.shape[after] for x in (source, indices)]
    common = broadcast_shapes(name, *others)
    shapes = [common[:position] + (n,) + common[position:] for n in lengths]
    return broadcast_to(source, shapes[0]), broadcast_to(indices, shapes[1]), position
