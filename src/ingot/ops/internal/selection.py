"""Evaluation of sorts and selections: rows in order, or partitioned around an element of some rank.

Input: a NumPy array, an axis, and for selections a rank and the range of indices along the axis to
return. Output: the elements, or positions, that the sorted or partitioned rows have there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot._native import Dtype, array, select_rows, sort_rows
from ingot.graph.deferred import Deferred
from ingot.graph.dtype import complex64, from_numpy, uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, no_rule
from ingot.graph.roles import Host, Selection
from ingot.graph.shape import Shape, size_of
from ingot.ops.internal.adjoints import Reshape
from ingot.ops.internal.positions import IN_PROGRAMS
from ingot.ops.shape.slicing import Slice

if TYPE_CHECKING:
    from ingot.ops.internal import blocks_of_rows
else:
    blocks_of_rows = Deferred("ingot.ops.internal.blocks_of_rows")

__all__ = ["PartOfPartition", "axes_around", "part_of_partition", "selected", "sorted_rows"]


@dataclass(frozen=True)
class PartOfPartition(Selection, Host):
    """A range of indices along `axis` of a partition, as elements or positions."""

    kth: int
    axis: int
    begin: int
    end: int
    positions: bool

    why_host = "it is computed row by row, by native code"

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        shape = (*x.shape[: self.axis], self.end - self.begin, *x.shape[self.axis + 1 :])
        return shape, uint32 if self.positions else x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return selected(x, self.axis, self.kth, (self.begin, self.end), self.positions)

    def by_blocks(
        self,
        build: Callable[..., Any],
        elements: Callable[[Callable[[Any], Any]], Any],
        x: Any,
    ) -> Any | None:
        largest = 2 * self.kth >= x.shape[-1]
        count = x.shape[-1] - self.kth if largest else self.kth + 1
        is_few = self.begin >= self.kth if largest else self.end <= self.kth + 1
        if not is_few or self.axis != len(x.shape) - 1 or x.dtype is complex64:
            return None
        if not blocks_of_rows.pays(x.shape, count):
            return None
        blocks = blocks_of_rows.Blocks(build, elements, x, largest)
        # the elements, by the extremes of their blocks
        chosen = build(
            PartOfPartition(*_end(blocks.count, count, largest), True), blocks.extremes()
        )
        candidates = blocks.candidates(chosen)
        shift = x.shape[-1] - candidates.shape[1] if largest else 0
        begin, end = self.begin - shift, self.end - shift
        found = build(PartOfPartition(self.kth - shift, 1, begin, end, self.positions), candidates)
        if self.positions:
            found = blocks.positions(chosen, found)
        return build(Reshape((*x.shape[:-1], end - begin)), found)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


def _end(length: int, count: int, largest: bool) -> tuple[int, int, int, int]:
    """The fields of a partition along axis 1 of which the `count` largest or smallest are read."""
    if largest:
        return length - count, 1, length - count, length
    return count - 1, 1, 0, count


def part_of_partition(
    kth: int, axis: int, positions: bool, view: Op, shape: Shape
) -> PartOfPartition | None:
    """A slice along the axis of a partition, as an op on its input."""
    if not isinstance(view, Slice) or view.dropped or set(view.strides) != {1}:
        return None
    bounds = list(zip(view.start, view.stop, shape, strict=True))
    if any(type(number) is not int for bound in bounds for number in bound):
        return None  # lengths are symbolic
    begin, end, _ = bounds.pop(axis)
    if any((start, stop) != (0, length) for start, stop, length in bounds):
        return None
    return PartOfPartition(kth, axis, begin, end, positions)


def selected(
    x: np.ndarray, axis: int, kth: int, wanted: tuple[int, int], positions: bool
) -> np.ndarray:
    """Indices `wanted[0]` to `wanted[1]` - 1 of a partition around rank `kth` along an axis."""
    begin, end = wanted
    if x.dtype.kind == "c" or x.shape[axis] > np.iinfo(np.uint32).max:
        return _by_numpy(x, axis, kth, wanted, positions)
    shape = (*x.shape[:axis], end - begin, *x.shape[axis + 1 :])
    out: np.ndarray = np.empty(shape, np.uint32 if positions else x.dtype)
    dtype = from_numpy(x.dtype)
    assert dtype is not None
    results = axes_around(out, axis)
    select_rows(dtype, axes_around(x, axis), kth, begin, positions, results)
    return out


def sorted_rows(x: np.ndarray, axis: int, positions: bool) -> np.ndarray:
    """The elements along an axis in ascending order, NaN last, or their positions; equal ones keep
    their order.
    """
    out: np.ndarray = np.empty(x.shape, np.uint32 if positions else x.dtype)
    dtype = from_numpy(x.dtype)
    assert dtype is not None
    sort_rows(dtype, axes_around(x, axis), positions, axes_around(out, axis))
    return out


def axes_around(x: np.ndarray, axis: int) -> np.ndarray:
    """The array as three axes, of which the middle one is `axis`."""
    return x.reshape((size_of(x.shape[:axis]), x.shape[axis], size_of(x.shape[axis + 1 :])))


def _by_numpy(
    x: np.ndarray, axis: int, kth: int, wanted: tuple[int, int], positions: bool
) -> np.ndarray:
    """The same for dtypes without native support."""
    part = (slice(None),) * axis + (slice(*wanted),)
    if positions:
        return np.argpartition(x, kth, axis)[part].astype(np.uint32)
    return np.partition(x, kth, axis)[part]
