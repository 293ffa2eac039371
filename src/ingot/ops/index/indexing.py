"""Gathers and scatters: elements read from, and written to, positions given by index arrays.

`Take` and `Put` index some axes with arrays, as NumPy's `x[:, rows, columns]` does. The VJP of a
gather is a scatter that adds, and vice versa. Negative indices count from the end; out-of-bounds
indices raise IndexError when they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import setitem
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, float16, int32, is_integer
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Change, Op, apply
from ingot.graph.roles import Host, Scatter, SparseSum
from ingot.graph.roles.view import behind_views
from ingot.graph.shape import Shape, broadcast_shapes, normalize_axis, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.internal.accumulate import (
    accumulate,
    accumulation,
    flat_positions,
    out_of_range,
    signed,
)
from ingot.ops.internal.adjoints import Broadcast, Reshape
from ingot.ops.internal.indexed_elements import ElementsAt, checked, emitted_wrap
from ingot.ops.shape.creation import Arange, arange, zeros
from ingot.ops.shape.movement import broadcast_to, require_array, reshape, transpose
from ingot.ops.shape.slicing import broadcast_batch, element, zeros_for_none
from ingot.tuning_rows import MIN_NATIVE_SCATTER, MIN_NATIVE_SCATTER_ROW

__all__ = ["take"]


def move_block(x: array, source: int, target: int, count: int) -> array:
    """`x` with the `count` axes from `source` on moved together, so that they begin at `target`."""
    if source == target or count == 0:
        return x
    block = range(source, source + count)
    order = [axis for axis in range(x.ndim) if axis not in block]
    order[target:target] = block
    return transpose(x, order)


@dataclass(frozen=True)
class _Indexed(Op, abstract=True):
    """Shared by gathers and scatters with index arrays.

    `axes` (sorted) are indexed by as many arrays of equal shape. As in NumPy, the axes of the
    indices replace the indexed axes if those are adjacent, and come first otherwise.
    """

    axes: Shape

    @property
    def position(self) -> int:
        """The first axis of the indices in the gathered array."""
        first = self.axes[0]
        return first if self.axes == tuple(range(first, first + len(self.axes))) else 0

    def gathered_shape(self, shape: Shape, index_shape: Shape) -> Shape:
        """The shape of a gather from an array of that shape."""
        rest = tuple(length for axis, length in enumerate(shape) if axis not in self.axes)
        return rest[: self.position] + index_shape + rest[self.position :]

    @property
    def shifted(self) -> Shape:
        """The indexed axes after adding a batch axis in front."""
        return tuple(axis + 1 for axis in self.axes)

    def batched_indices(
        self, size: int, batched: Sequence[bool], indices: Sequence[array]
    ) -> list[array]:
        """The indices, all with the batch axis, preceded by an iota along it."""
        full = [
            broadcast_batch(index, size, has_batch)
            for index, has_batch in zip(indices, batched, strict=True)
        ]
        shape = full[0].shape
        counter = reshape(arange(size, dtype=int32), (size,) + (1,) * (len(shape) - 1))
        return [broadcast_to(counter, shape), *full]


class Take(_Indexed, Host):
    """The elements of the first input at the indices that are the other inputs."""

    first_index = 1
    why_host = "it has no elements"

    def infer(self, x: array, *indices: array) -> tuple[Shape, Dtype]:
        return self.gathered_shape(x.shape, indices[0].shape), x.dtype

    def evaluate(self, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        slots = [
            signed(index, x.shape[axis]) for axis, index in zip(self.axes, indices, strict=True)
        ]
        try:
            if len(slots) == 1 and x.flags.c_contiguous:
                return np.take(x, slots[0], self.axes[0])
            subscript: list[Any] = [slice(None)] * x.ndim
            for axis, slot in zip(self.axes, slots, strict=True):
                subscript[axis] = slot
            return x[tuple(subscript)]
        except IndexError:
            for axis, slot in zip(self.axes, slots, strict=True):
                length = x.shape[axis]
                if ((slot < -length) | (slot >= length)).any():
                    raise out_of_range(slot, length) from None
            raise

    def vjp(
        self, cotangent: array, out: array, x: array, *indices: array
    ) -> tuple[array | None, ...]:
        total = apply(Put(self.axes, "add"), zeros(x.shape, x.dtype), cotangent, *indices)
        return (total, *(None for _ in indices))

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, x: array, *indices: array
    ) -> array | None:
        return None if tangents[0] is None else apply(self, tangents[0], *indices)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array, *indices: array) -> array:
        if not any(batched[1:]):
            result = apply(Take(self.shifted), x, *indices)
            neighbours = Take(self.shifted).position > 0
            return result if neighbours else move_block(result, indices[0].ndim, 0, 1)
        if not batched[0]:
            full = [broadcast_batch(i, size, b) for i, b in zip(indices, batched[1:], strict=True)]
            return move_block(apply(self, x, *full), self.position, 0, 1)
        full = self.batched_indices(size, batched[1:], indices)
        result = apply(Take((0, *self.shifted)), x, *full)
        return move_block(result, 1, 1 + self.position, full[0].ndim - 1)

    def expanded(self, build: Callable[..., Any], x: Any, *indices: Any) -> Any | None:
        shape = self.gathered_shape(x.shape, indices[0].shape)
        if size_of(shape) == 0:
            return None
        count = len(indices[0].shape)
        behind = len(shape) - self.position - count
        slots = []
        for axis, index in zip(self.axes, indices, strict=True):
            slot = checked(build, index, x.shape[axis])
            lengths = (1,) * self.position + index.shape + (1,) * behind
            slots.append(build(Broadcast(shape), build(Reshape(lengths), slot)))
        rest = [axis for axis in range(len(x.shape)) if axis not in self.axes]
        along = (*rest[: self.position], *(-1 for _ in range(count)), *rest[self.position :])
        return build(ElementsAt(self.axes, along), x, *slots)


@dataclass(frozen=True)
class _Updated(_Indexed, abstract=True):
    """The first input with the second, shaped like a gather, written to what the others index.

    Repeated indices combine all their updates; with "assign" the last one wins.
    """

    mode: str  # one of accumulate.MODES

    first_index = 2

    def infer(self, x: array, updates: array, *indices: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        order = self.axes + tuple(axis for axis in range(x.ndim) if axis not in self.axes)
        base = x.transpose(order)
        rows, given = self.rows_of(base.shape, updates, indices)
        # a copy, not a view: the next update may modify it in place
        table: np.ndarray = np.empty(base.shape, base.dtype)
        out, old = (_as_matrix(each, len(self.axes)) for each in (table, base))
        accumulate(self.mode, out, old, rows, given)
        in_order = order == tuple(range(x.ndim))
        return table if in_order else table.transpose(np.argsort(order))

    def change(self, x: np.ndarray, updates: np.ndarray, *indices: np.ndarray) -> Change:
        if self.axes == tuple(range(len(self.axes))):
            return self.accumulation(x, updates, indices)
        return setitem, x, ..., self.evaluate(x, updates, *indices)

    def accumulation(
        self, x: np.ndarray, updates: np.ndarray, indices: tuple[np.ndarray, ...]
    ) -> Change:
        """The change of a contiguous array whose first axes are the indexed ones."""
        rows, given = self.rows_of(x.shape, updates, indices)
        return accumulation(self.mode, _as_matrix(x, len(self.axes)), rows, given)

    def rows_of(
        self, shape: Shape, updates: np.ndarray, indices: tuple[np.ndarray, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The row of each update, and the updates as a matrix, for an array of that shape whose
        first axes are the indexed ones.
        """
        lengths = shape[: len(self.axes)]
        rows = flat_positions(indices, lengths)
        count = indices[0].ndim
        updates = np.moveaxis(updates, range(self.position, self.position + count), range(count))
        return rows, updates.reshape((len(rows), size_of(shape[len(lengths) :])))

    def vjp(
        self, cotangent: array, out: array, x: array, updates: array, *indices: array
    ) -> tuple[array | None, ...]:
        nothing = tuple(None for _ in indices)
        gathered = apply(Take(self.axes), cotangent, *indices)
        if self.mode == "add":
            return (cotangent, gathered, *nothing)
        if self.mode == "assign":
            cleared = apply(self, cotangent, zeros(updates.shape, updates.dtype), *indices)
            return (cleared, where(self.last(x.shape, indices), gathered, 0), *nothing)
        if self.mode == "multiply":
            for_x = apply(self, cotangent, conj(updates), *indices)
            factors = self.other_factors(x, updates, indices)
            return (for_x, gathered * conj(factors), *nothing)
        chosen = updates == apply(Take(self.axes), out, *indices)
        return (where(x == out, cotangent, 0), where(chosen, gathered, 0), *nothing)

    def jvp(
        self,
        tangents: tuple[array | None, ...],
        out: array,
        x: array,
        updates: array,
        *indices: array,
    ) -> array | None:
        along_x, along_updates = zeros_for_none(tangents[:2], (x, updates))
        if self.mode in ("assign", "add"):
            return apply(self, along_x, along_updates, *indices)
        added = Put(self.axes, "add")
        if self.mode == "multiply":
            terms = along_updates * self.other_factors(x, updates, indices)
            scaled = apply(self, along_x, astype(updates, along_x.dtype), *indices)
            return apply(added, scaled, astype(terms, along_x.dtype), *indices)
        chosen = updates == apply(Take(self.axes), out, *indices)
        terms = where(chosen, along_updates, 0)
        return apply(added, where(x == out, along_x, 0), terms, *indices)

    def last(self, shape: Shape, indices: Sequence[array]) -> array:
        """Which updates survive where an index is repeated, in a shape that broadcasts
        to theirs.
        """
        index_shape = indices[0].shape
        lengths = tuple(shape[axis] for axis in self.axes)
        numbers = reshape(arange(indices[0].size, dtype=int32), index_shape)
        every = tuple(range(len(lengths)))
        winners = apply(Put(every, "assign"), zeros(lengths, int32), numbers, *indices)
        stays = apply(Take(every), winners, *indices) == numbers
        behind = len(shape) - len(lengths) - self.position
        return reshape(stays, index_shape + (1,) * behind)

    def other_factors(self, x: array, updates: array, indices: Sequence[array]) -> array:
        """For each update, the product of everything else that is multiplied into its element."""
        # Zeros cannot be divided out again, so they are left out of the product and counted.
        gather = Take(self.axes)
        is_zero = updates == 0
        factors = where(is_zero, 1, updates)
        product = apply(gather, apply(self, x, factors, *indices), *indices)
        count = apply(
            Put(self.axes, "add"), zeros(x.shape, int32), astype(is_zero, int32), *indices
        )
        others = apply(gather, count, *indices) - astype(is_zero, int32)
        return where(others == 0, product / factors, 0)

    def vmap(
        self, size: int, batched: tuple[bool, ...], x: array, updates: array, *indices: array
    ) -> array:
        x = broadcast_batch(x, size, batched[0])
        updates = broadcast_batch(updates, size, batched[1])
        count = indices[0].ndim - batched[2]
        if not any(batched[2:]):
            op = Put(self.shifted, self.mode)
            if op.position == 0:
                updates = move_block(updates, 0, count, 1)
            return apply(op, x, updates, *indices)
        full = self.batched_indices(size, batched[2:], indices)
        updates = move_block(updates, 1 + self.position, 1, count)
        return apply(Put((0, *self.shifted), self.mode), x, updates, *full)


def _as_matrix(x: np.ndarray, count: int) -> np.ndarray:
    """An array as a matrix, with its first `count` axes flattened into rows."""
    return x.reshape((size_of(x.shape[:count]), size_of(x.shape[count:])))


class Put(_Updated, SparseSum, Host):
    """An update at indices that are checked when it is evaluated."""

    why_host = "it has many updates, no elements, or sums of a half type, which are kept in float32"

    def expanded(
        self, build: Callable[..., Any], x: Any, updates: Any, *indices: Any
    ) -> Any | None:
        is_half = x.dtype in (float16, bfloat16)
        if size_of(x.shape) == 0 or (is_half and self.mode in ("add", "multiply")):
            return None
        if _is_native(x, updates, size_of(indices[0].shape)):
            return None
        slots = [
            checked(build, index, x.shape[axis])
            for axis, index in zip(self.axes, indices, strict=True)
        ]
        return build(CheckedPut(self.axes, self.mode), x, updates, *slots)

    def selects(self, shape: Shape, index_shape: Shape) -> tuple[int, int, int] | None:
        count = len(self.axes)
        if self.mode != "add" or self.axes != tuple(range(count)):
            return None
        return size_of(index_shape), size_of(shape[:count]), size_of(shape[count:])

    def selected_sums(
        self,
        build: Callable[..., Any],
        zeros: tuple[Any, Any],
        shape: Shape,
        updates: Any,
        *indices: Any,
    ) -> Any:
        # The sum of a row is computed where the last of its updates is.
        index_shape, every = indices[0].shape, tuple(range(len(indices)))
        count = size_of(index_shape)
        numbers = build(Reshape(index_shape), build(Arange(0, 1, count, int32)))
        none = build(Broadcast(shape[: len(indices)]), zeros[1])
        last = build(Put(every, "assign"), none, numbers, *indices)
        row = build(Take(every), last, *indices)
        nothing = build(Broadcast((count, *shape[len(indices) :])), zeros[0])
        sums = build(Put((0,), "add"), nothing, updates, row)
        return build(Take((0,)), sums, row)

    def selected(self, build: Callable[..., Any], x: Any, *indices: Any) -> Any:
        shape, number = self.gathered_shape(x.shape, indices[0].shape), behind_views(x)
        if size_of(number.shape) == 1 and len(number.shape) <= len(shape):
            return build(Broadcast(shape), number)
        return build(Take(self.axes), x, *indices)

    def replaced(self, build: Callable[..., Any], x: Any, rows: Any, *indices: Any) -> Any:
        return build(Put(self.axes, "assign"), x, rows, *indices)


def _is_native(x: Any, updates: Any, count: int) -> bool:
    """Whether native code is faster than a loop nest at combining that many updates in
    a program.
    """
    base, given = size_of(x.shape), size_of(updates.shape)
    if given < MIN_NATIVE_SCATTER or given < count * MIN_NATIVE_SCATTER_ROW:
        return False
    return bool(base <= given) or isinstance(getattr(x, "op", None), Broadcast)


class CheckedPut(_Updated, Scatter):
    """An update at indices that are known to be in bounds."""

    def emit_index(self, k: Kernel, index: Value, length: int) -> Value:
        return emitted_wrap(k, index, length)

    def emit_combined(self, k: Kernel, old: Value, new: Value) -> Value:
        match self.mode:
            case "assign":
                return new
            case "add":
                return k.add(old, new)
            case "multiply":
                return k.multiply(old, new)
            case "maximum":
                return k.maximum(old, new)
        return k.minimum(old, new)


def take(
    a: array, /, indices: int | array, axis: int | None = None, *, stream: StreamLike = None
) -> array:
    """Take elements along an axis: `take(a, i, axis=1)` is `a[:, i]`.

    Args:
        a: The array to take from.
        indices: An int or an array of integers. Negative ones count from the end.
        axis: The axis that the indices belong to; without it `a` is flattened first.
        stream: The stream or device to run on.

    Returns:
        `a` with the axis replaced by the axes of the indices. Indices outside the axis raise
        IndexError: an int at once, an array when it is evaluated.
    """
    require_array("take", a)
    if axis is None:
        source, position = reshape(a, (a.size,)), 0
    else:
        source, position = a, normalize_axis("take", axis, a.ndim)
    if isinstance(indices, int):
        return element(source, position, int(indices), stream)
    if not isinstance(indices, array):
        raise TypeError(
            f"[take] indices must be an int or an array of integers, got {type(indices).__name__}."
        )
    return gather("take", source, (position,), (indices,), stream)


def gather(
    name: str, a: array, axes: Shape, indices: Sequence[array], stream: StreamLike = None
) -> array:
    """The elements of `a` at indices along `axes` (sorted), which broadcast against each other."""
    lanes = checked_indices(name, [a.shape[axis] for axis in axes], indices)
    return apply(Take(axes), a, *lanes, stream=stream)


def checked_indices(
    name: str, lengths: Sequence[int], indices: Sequence[array]
) -> tuple[array, ...]:
    """The indices of axes of those lengths, validated and broadcast to their common shape."""
    for index in indices:
        if not is_integer(index.dtype):
            raise ValueError(
                f"[{name}] indices must be integers, got dtype {index.dtype.name}: cast them with "
                "astype(mx.int32) first."
            )
    shape = broadcast_shapes(name, *(index.shape for index in indices))
    if 0 in lengths and 0 not in shape:
        raise ValueError(f"[{name}] an axis of length 0 has no elements to index.")
    return tuple([broadcast_to(index, shape) for index in indices])
