"""Evaluation of sorts and selections: rows in order, or partitioned around an element of some rank.

Input: a NumPy array, an axis, and for selections a rank and the range of indices along the axis to
return. Output: the elements, or positions, that the sorted or partitioned rows have there.
"""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype, array, select_rows, sort_rows
from ingot.graph.dtype import from_numpy, uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, no_rule
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, size_of
from ingot.ops.internal.positions import IN_PROGRAMS
from ingot.ops.shape.slicing import Slice

__all__ = ["PartOfPartition", "axes_around", "part_of_partition", "selected", "sorted_rows"]


@dataclass(frozen=True)
class PartOfPartition(Host):
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

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


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
