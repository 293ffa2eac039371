"""Sorting: sort and partition, the orders behind them, largest elements, medians, binary search.

NaN comes last. Equal elements keep their order in argsort; a partition's order is arbitrary on both
sides of its pivot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import nan
from typing import Any, Literal, cast

import numpy as np

from ingot._native import Dtype, array, promote, wrap
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32, float64, from_numpy, int32, int64, is_inexact, uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.blocks import longest_axis
from ingot.graph.numerics.routines import Routine, RoutineBuilder, Spec
from ingot.graph.op import Op, apply, zero_jvp, zero_vjp
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, normalize_axis, shape_text, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import isnan, where
from ingot.ops.index.along_axis import take_along_axis
from ingot.ops.internal.selection import part_of_partition, selected, sorted_rows
from ingot.ops.internal.summation import without_bfloat16
from ingot.ops.reduce.axes import Axis, as_int, flattened, joined_axes, reduced_axes
from ingot.ops.reduce.reduction import any as any_of
from ingot.ops.reduce.scan import section
from ingot.ops.shape.movement import require_array, reshape
from ingot.ops.shape.slicing import broadcast_batch
from ingot.tuning_rows import (
    MAX_UNPACKED_ROW,
    MIN_NARROW_RADIX_ROW,
    MIN_RADIX_ORDER,
    MIN_RADIX_ROW,
    MIN_SORTED_LOOKUPS,
)

__all__ = [
    "argpartition",
    "argsort",
    "median",
    "partition",
    "searchsorted",
    "sort",
    "topk",
]

Side = Literal["left", "right"]


class _AlongAxis(Host, abstract=True):
    """Ops that work on each row along `axis`."""

    axis: int

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    worth_cutting = 1 << 18

    def block_axis(self, x: np.ndarray) -> int | None:
        return longest_axis(x.shape, self.axis)

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        shifted: _AlongAxis = replace(cast(Any, self), axis=self.axis + 1)
        return apply(shifted, x)


class _Order(_AlongAxis, abstract=True):
    """Ops that return positions along `axis`."""

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, uint32

    vjp = zero_vjp
    jvp = zero_jvp


class _Rearrangement(_AlongAxis, abstract=True):
    """Ops that rearrange elements.

    Which element of the result was which before, derivatives find by rank.
    """

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        by_rank = self.ranked(cotangent, out)
        return (take_along_axis(by_rank, self.inverse(self.order(x)), self.axis),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        return self.unranked(take_along_axis(tangents[0], self.order(x), self.axis), out)

    def order(self, x: array) -> array:
        """The positions of the elements by rank."""
        return apply(ArgSort(self.axis), x)

    def inverse(self, order: array) -> array:
        """The rank of each position."""
        return apply(ArgSort(self.axis), order)

    ranked: Callable[[array, array], array]  # (a, out) -> elements of a in the order of out's ranks
    unranked: Callable[[array, array], array]  # (a, out) -> the inverse


@dataclass(frozen=True)
class Sort(_Rearrangement):
    """Elements in ascending order."""

    axis: int

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        shortest = MIN_RADIX_ROW if x.dtype.itemsize > 2 else MIN_NARROW_RADIX_ROW
        if _is_sortable(x, self.axis, shortest):
            return sorted_rows(x, self.axis, positions=False)
        # NumPy 2.4 leaves float16 with negative numbers and many ties unsorted on some processors
        wide = x.astype(np.float32) if x.dtype == np.float16 else without_bfloat16(x)
        return np.sort(wide, self.axis).astype(x.dtype, copy=False)

    def ranked(self, a: array, out: array) -> array:
        return a

    def unranked(self, a: array, out: array) -> array:
        return a


@dataclass(frozen=True)
class Partition(_Rearrangement):
    """Elements with that of rank `kth` at index `kth`, none larger before, none smaller after."""

    kth: int
    axis: int

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return selected(x, self.axis, self.kth, (0, x.shape[self.axis]), positions=False)

    def narrowed(self, view: Op, shape: Shape) -> Op | None:
        return part_of_partition(self.kth, self.axis, False, view, shape)

    def ranked(self, a: array, out: array) -> array:
        return take_along_axis(a, self.order(out), self.axis)

    def unranked(self, a: array, out: array) -> array:
        return take_along_axis(a, self.inverse(self.order(out)), self.axis)


@dataclass(frozen=True)
class ArgSort(_Order):
    """Positions of the elements in ascending order; equal elements keep their order."""

    axis: int

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        if _is_sortable(x, self.axis, MIN_RADIX_ORDER):
            return sorted_rows(x, self.axis, positions=True)
        if x.dtype.itemsize > 4 or x.shape[self.axis] <= MAX_UNPACKED_ROW:
            # NumPy does not sort bfloat16 NaN last.
            return np.argsort(without_bfloat16(x), self.axis, kind="stable").astype(np.uint32)
        # Sorting elements with their positions as tie-breakers makes the fastest sort stable.
        packed = _sortable_bits(x)
        packed <<= 32
        lengths = [1] * x.ndim
        lengths[self.axis] = -1
        packed |= np.arange(x.shape[self.axis], dtype=packed.dtype).reshape(lengths)
        packed.sort(self.axis)
        return packed.astype(np.uint32)


def _is_sortable(x: np.ndarray, axis: int, shortest: int) -> bool:
    """Whether native code sorts rows of this dtype, and of at least that length."""
    return x.dtype.kind != "c" and shortest <= x.shape[axis] < 2**32


def _sortable_bits(x: np.ndarray) -> np.ndarray:
    """64-bit integers with 32 significant bits, in the order of the elements."""
    if x.dtype.kind in "biu":
        return x.astype(np.int64 if x.dtype.kind == "i" else np.uint64)
    values = x.astype(np.float32)
    values += 0  # makes -0 into 0
    bits = values.view(np.int32)
    # Negative numbers are in reverse order.
    ordered = (bits ^ ((bits >> 31) & 0x7FFFFFFF)).astype(np.int64)
    ordered[np.isnan(values)] = 0x7FFFFFFF
    return ordered


@dataclass(frozen=True)
class ArgPartition(_Order):
    """Positions of the elements in the order of a partition."""

    kth: int
    axis: int

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return selected(x, self.axis, self.kth, (0, x.shape[self.axis]), positions=True)

    def narrowed(self, view: Op, shape: Shape) -> Op | None:
        return part_of_partition(self.kth, self.axis, True, view, shape)


_SEARCHED = (float32, float64, int32, uint32, int64)  # dtypes that the call "search" takes


@dataclass(frozen=True)
class SearchSorted(Host):
    """Where values belong in sequences sorted along the last axis.

    The axes before it, if any, are batch axes, which are also the first axes of the values.
    """

    side: Side

    def infer(self, sequence: array, values: array) -> tuple[Shape, Dtype]:
        return values.shape, uint32

    def routine(self, sequence: Spec, values: Spec) -> Routine | None:
        (*batch, length), dtype = sequence
        known, count = from_numpy(dtype), size_of(values[0][len(batch) :])
        is_empty = 0 in (size_of(sequence[0]), size_of(values[0]))
        if known not in _SEARCHED or is_empty:
            return None
        builder = RoutineBuilder([sequence, values], [(values[0], uint32.numpy)])
        numbers = (known.number, size_of(batch), length, count, int(self.side == "right"))
        builder.call("search", (*builder.inputs, *builder.results), numbers)
        return builder.done()

    def evaluate(self, sequence: np.ndarray, values: np.ndarray) -> np.ndarray:
        sequence, values = without_bfloat16(sequence), without_bfloat16(values)
        out = np.empty(values.shape, np.uint32)
        for row in np.ndindex(sequence.shape[:-1]):
            out[row] = self.search(sequence[row], values[row])
        return out

    def search(self, sequence: np.ndarray, values: np.ndarray) -> np.ndarray:
        """The positions in one sequence."""
        if values.size < MIN_SORTED_LOOKUPS or sequence.size < MIN_SORTED_LOOKUPS:
            return np.searchsorted(sequence, values, self.side)
        # Neighbouring values take neighbouring paths, which are already in cache.
        order = np.argsort(values, None)
        positions = np.empty(values.size, np.uint32)
        positions[order] = np.searchsorted(sequence, values.reshape(-1)[order], self.side)
        return positions.reshape(values.shape)

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool, bool], sequence: array, values: array) -> array:
        if not batched[0]:
            # One sequence for all: the batch axis is just another axis of the values.
            if sequence.ndim == 1:
                return apply(self, sequence, values)
            sequence = broadcast_batch(sequence, size, False)
        return apply(self, sequence, broadcast_batch(values, size, batched[1]))


def _flat_or_axis(name: str, a: array, axis: int | None, stream: StreamLike) -> tuple[array, int]:
    """The array, flattened if axis is None, and the axis counted from the front."""
    ndim = require_array(name, a).ndim
    if axis is None:
        return flattened(a, stream), 0
    return a, normalize_axis(name, axis, ndim)


def sort(a: array, /, axis: int | None = -1, *, stream: StreamLike = None) -> array:
    """Elements in ascending order, NaN last.

    Args:
        a: An array.
        axis: The axis to sort along; the flattened array if None.
        stream: The stream or device to run on.
    """
    a, position = _flat_or_axis("sort", a, axis, stream)
    return apply(Sort(position), a, stream=stream)


def argsort(a: array, /, axis: int | None = -1, *, stream: StreamLike = None) -> array:
    """Positions (uint32) of the elements in ascending order; arguments as for `sort`."""
    a, position = _flat_or_axis("argsort", a, axis, stream)
    return apply(ArgSort(position), a, stream=stream)


def partition(a: array, /, kth: int, axis: int | None = -1, *, stream: StreamLike = None) -> array:
    """Elements rearranged around the one that sorting would put at `kth`.

    Args:
        a: An array.
        kth: The position of the pivot, from the end if negative: no element before it is larger,
            none after it smaller.
        axis: The axis to work along; the flattened array if None.
        stream: The stream or device to run on.
    """
    a, position = _flat_or_axis("partition", a, axis, stream)
    pivot = _pivot("partition", a, kth, position)
    return apply(Partition(pivot, position), a, stream=stream)


def argpartition(
    a: array, /, kth: int, axis: int | None = -1, *, stream: StreamLike = None
) -> array:
    """Positions (uint32) of the elements in an order as `partition` gives it."""
    a, position = _flat_or_axis("argpartition", a, axis, stream)
    pivot = _pivot("argpartition", a, kth, position)
    return apply(ArgPartition(pivot, position), a, stream=stream)


def _pivot(name: str, a: array, kth: int, axis: int) -> int:
    pivot = as_int(name, "kth", kth)
    length = a.shape[axis]
    if not -length <= pivot < length:
        raise ValueError(
            f"[{name}] there is no element {pivot} among the {length} along axis {axis} "
            f"of shape {shape_text(a.shape)}."
        )
    return pivot % length


def topk(a: array, /, k: int, axis: int | None = -1, *, stream: StreamLike = None) -> array:
    """The `k` largest elements along an axis, in no particular order.

    Args:
        a: An array.
        k: How many elements to take.
        axis: The axis to work along; the flattened array if None.
        stream: The stream or device to run on.
    """
    a, position = _flat_or_axis("topk", a, axis, stream)
    count = as_int("topk", "k", k)
    length = a.shape[position]
    if not 0 <= count <= length:
        raise ValueError(
            f"[topk] cannot take the {count} largest of {length} elements along axis {position} "
            f"of shape {shape_text(a.shape)}."
        )
    if count == length:
        return wrap(a)
    divided = apply(Partition(length - max(count, 1), position), a, stream=stream)
    return section(divided, position, length - count, length, stream)


def median(
    a: array, /, axis: Axis = None, keepdims: bool = False, *, stream: StreamLike = None
) -> array:
    """Middle element in order of size, or the mean of the middle two; NaN where there is one.

    Args:
        a: An array.
        axis: The axis or axes to take together; all if None.
        keepdims: Whether to keep these axes, with length 1.
        stream: The stream or device to run on.

    Returns:
        The medians, of integers in float32.
    """
    axes = reduced_axes("median", a, axis)
    values = a if is_inexact(a.dtype) else astype(a, float32, stream)
    if a.ndim == 0:
        return wrap(values)
    if not axes:
        raise ValueError("[median] needs an axis, got none: leave axis out to take all elements.")
    rows, _ = joined_axes(values, axes)
    last, length = rows.ndim - 1, rows.shape[-1]
    if length == 0:
        raise ValueError(
            f"[median] shape {shape_text(a.shape)} has no elements along axis {axes[0]}."
        )
    half = length // 2
    middle = _of_rank(rows, half, stream)
    if length % 2 == 0:
        middle = (_of_rank(rows, half - 1, stream) + middle) * 0.5
    some_nan = any_of(isnan(rows, stream=stream), last, keepdims=True, stream=stream)
    result = where(some_nan, nan, middle)
    kept = [1 if position in axes else n for position, n in enumerate(a.shape)]
    return reshape(result, kept if keepdims else rows.shape[:-1], stream=stream)


def _of_rank(rows: array, rank: int, stream: StreamLike) -> array:
    """The element of each row that sorting would put at index `rank`."""
    last = rows.ndim - 1
    divided = apply(Partition(rank, last), rows, stream=stream)
    return section(divided, last, rank, rank + 1, stream)


def searchsorted(
    sorted_sequence: array, values: array, /, side: str = "left", *, stream: StreamLike = None
) -> array:
    """Indices at which values can be inserted into a sorted sequence.

    Args:
        sorted_sequence: An array with one axis, in ascending order.
        values: An array of any shape.
        side: "left" for the position before equal elements, "right" for the position after them.
        stream: The stream or device to run on.

    Returns:
        The positions as uint32, in the shape of `values`.
    """
    require_array("searchsorted", sorted_sequence)
    require_array("searchsorted", values)
    if not isinstance(side, str):
        raise TypeError(f"[searchsorted] side must be a str, got {side!r}.")
    if side not in ("left", "right"):
        raise ValueError(f"[searchsorted] side is 'left' or 'right', got {side!r}.")
    if sorted_sequence.ndim != 1:
        raise ValueError(
            "[searchsorted] the sorted sequence must have one axis, "
            f"got shape {shape_text(sorted_sequence.shape)}."
        )
    dtype = promote(sorted_sequence.dtype, values.dtype)
    sequence, sought = astype(sorted_sequence, dtype, stream), astype(values, dtype, stream)
    return apply(SearchSorted(cast(Side, side)), sequence, sought, stream=stream)
