"""Reductions of NumPy arrays, bit-identical to those of kernels.

Input: a NumPy array and the axes to reduce. Output: the results, with the axes kept as length 1.
NumPy's own reductions combine in an order that depends on the memory layout and the processor. Sums
and products follow the order of `graph/numerics/reduction_order.py`; maxima and minima do not
depend on the order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, reduce
from math import prod
from typing import NamedTuple

import numpy as np

from ingot._native import reduce_in_order
from ingot.graph.dtype import is_numpy_bfloat16
from ingot.graph.numerics.casts import converted
from ingot.graph.numerics.reduction_order import BLOCK, LANES, PART, inner_axes
from ingot.tuning_rows import MAX_SLICED_AXIS, MIN_LOOP_BEHIND, MIN_SLICED_ELEMENTS

__all__ = [
    "extreme",
    "in_order",
    "ordered_reduction",
    "reduced",
    "without_bfloat16",
    "without_halves",
    "work_dtype",
]

_float32 = np.dtype(np.float32)
_float64 = np.dtype(np.float64)

Combine = Callable[..., np.ndarray]  # (a, b, out=None), as NumPy's functions


def ordered_reduction(
    x: np.ndarray, axes: tuple[int, ...], combine: Combine, start: complex, total: np.dtype
) -> np.ndarray:
    """Reduce over sorted `axes` in the dtype of `x`; totals over blocks are in the
    dtype `total`.
    """
    plan = _plan(x.shape, axes)
    if plan.lengths is None:
        return x.astype(total)
    if x.size == 0:
        return np.full(plan.result, start, total)
    if plan.order is not None:
        x = x.reshape(plan.longer).transpose(plan.order)
    rows = x.reshape(plan.lengths)
    if combine is np.add or x.dtype.kind != "c":
        return _native_reduction(rows, combine is not np.add, total).reshape(plan.result)
    return _blockwise(rows, combine, start, total).reshape(plan.result)


def extreme(x: np.ndarray, axes: tuple[int, ...], function: np.ufunc) -> np.ndarray:
    """The largest (`np.maximum`) or smallest elements over `axes`; -0 is less than +0."""
    found = reduced(x, axes, function)
    if x.dtype.kind != "f" or not (zeros := found == 0).any():
        return found
    # The extreme is a zero, so there is no NaN and no element beyond zero. As integers, all
    # elements have the sign of their number, +0 is 0 and -0 is the lowest: the integer extreme has
    # the sign of the zero.
    as_integer = reduced(x.view(f"i{x.dtype.itemsize}"), axes, function)
    signed = np.where(as_integer < 0, x.dtype.type(-0.0), x.dtype.type(0.0))
    return np.where(zeros, signed, found)


def reduced(x: np.ndarray, axes: tuple[int, ...], function: np.ufunc) -> np.ndarray:
    """`function.reduce` over sorted axes, for functions that do not depend on the order: one axis
    after the other from the outermost, and short ones slice by slice. NumPy's inner loop would
    otherwise be as short as these.
    """
    if len(axes) == x.ndim or x.size < MIN_SLICED_ELEMENTS:
        return np.asarray(function.reduce(x, axes, x.dtype, keepdims=True))
    for axis in axes:
        length, behind = x.shape[axis], prod(x.shape[axis + 1 :])
        is_short = 1 < length <= MAX_SLICED_AXIS and behind < MIN_LOOP_BEHIND
        if is_short and x.size >= MIN_SLICED_ELEMENTS:
            first, *others = np.moveaxis(x, axis, 0)
            x = np.expand_dims(reduce(function, others, first), axis)
        else:
            x = function.reduce(x, axis, x.dtype, keepdims=True)
    return x


class _Plan(NamedTuple):
    """How an array is viewed as four axes: kept before, outer reduced, inner reduced,
    kept after.
    """

    result: tuple[int, ...]
    lengths: tuple[int, int, int, int] | None  # None if nothing is reduced
    longer: tuple[int, ...]  # lengths of the axes that are longer than 1
    order: tuple[int, ...] | None  # of those; None if they are in order


@lru_cache(maxsize=1024)
def _plan(shape: tuple[int, ...], axes: tuple[int, ...]) -> _Plan:
    result = tuple(1 if axis in axes else length for axis, length in enumerate(shape))
    positions = [axis for axis, length in enumerate(shape) if length != 1]
    longer = tuple(shape[axis] for axis in positions)
    reduced = tuple(position for position, axis in enumerate(positions) if axis in axes)
    if not reduced:
        return _Plan(result, None, longer, None)
    inner = inner_axes(longer, reduced)
    kept = [axis for axis in range(len(longer)) if axis not in reduced]
    together = reduced[-1] - reduced[0] + 1 == len(reduced)
    before = [axis for axis in kept if axis < reduced[0] or not together]
    behind = [axis for axis in kept if axis not in before]
    outer = [axis for axis in reduced if axis not in inner]
    groups = (before, outer, inner, behind)
    one, two, three, four = (prod(longer[axis] for axis in group) for group in groups)
    order = tuple(axis for group in groups for axis in group)
    in_order = order == tuple(range(len(longer)))
    return _Plan(result, (one, two, three, four), longer, None if in_order else order)


def _native_reduction(rows: np.ndarray, multiplies: bool, total: np.dtype) -> np.ndarray:
    """Reduce the second and third of four axes in native code; the parts of complex numbers, which
    add up separately, are separate columns.
    """
    found: np.ndarray = np.empty((rows.shape[0], rows.shape[3]), total)
    parts = found
    if rows.dtype.kind == "c":
        rows = np.ascontiguousarray(rows).view(rows.real.dtype)
        parts = found.view(found.real.dtype)
    if not reduce_in_order(rows, parts, multiplies):
        reduce_in_order(np.ascontiguousarray(rows), parts, multiplies)
    return found


def _blockwise(rows: np.ndarray, combine: Combine, start: complex, total: np.dtype) -> np.ndarray:
    """The same in NumPy, for any function."""
    sums = _blocks(rows, combine, start).astype(total, copy=False)
    sums = sums.reshape(sums.shape[0], sums.shape[1] * sums.shape[2], sums.shape[3])
    if sums.shape[1] > PART:
        sums = _one_after_the_other(_padded(sums, PART, start), combine, start)
    return _one_after_the_other(sums[:, None], combine, start)


def _padded(x: np.ndarray, multiple: int, start: complex) -> np.ndarray:
    """The second of three axes in groups of `multiple`, the last of which is padded."""
    missing = -x.shape[1] % multiple
    if missing:
        filler = np.full((x.shape[0], missing, x.shape[2]), start, x.dtype)
        x = np.concatenate([x, filler], 1)
    return x.reshape(x.shape[0], -1, multiple, x.shape[2])


def _one_after_the_other(x: np.ndarray, combine: Combine, start: complex) -> np.ndarray:
    """Combine along the third of four axes in order."""
    total = np.full((*x.shape[:2], x.shape[3]), start, x.dtype)
    for position in range(x.shape[2]):
        combine(total, x[:, :, position], out=total)
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


def work_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype in which elements of `dtype` are computed: half precision in float32."""
    return _float32 if dtype.itemsize == 2 and dtype.kind not in "iu" else dtype


def without_bfloat16(x: np.ndarray) -> np.ndarray:
    """The same values in a dtype that NumPy knows itself: with bfloat16 it is slow, or wrong."""
    return converted(x, _float32) if is_numpy_bfloat16(x.dtype) else x


def without_halves(x: np.ndarray) -> np.ndarray:
    """The same values in a dtype in which NumPy computes: it compares float16 ten times slower."""
    work = work_dtype(x.dtype)
    return x if x.dtype == work else converted(x, work)


def in_order(
    x: np.ndarray,
    axes: tuple[int, ...],
    target: np.dtype,
    combine: Callable[..., np.ndarray],
    start: int,
) -> np.ndarray:
    """Floating-point elements, converted to the dtype `target`, combined in the one order."""
    work = work_dtype(target)
    total = _float64 if combine is np.add and work == _float32 else work
    if x.dtype != target:
        x = converted(x, target)
    found = ordered_reduction(without_halves(x), axes, combine, start, total)
    return found.astype(work, copy=False).astype(target, copy=False)
