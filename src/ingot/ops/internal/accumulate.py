"""Evaluation of scatters: rows of updates written to, or combined into, rows of an array.

All scatters reduce to one form: a 2-d array, the target row of each update, and the updates, one
row each. Rows may repeat. In an assignment the last one wins; the other modes combine all.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import setitem

import numpy as np

from ingot._native import Dtype, flat_rows, scatter_rows
from ingot.graph.dtype import from_numpy
from ingot.graph.numerics.casts import converted
from ingot.graph.op import Change, apply_change

__all__ = [
    "MODES",
    "accumulate",
    "accumulation",
    "flat_positions",
    "out_of_range",
    "positions_along",
    "signed",
    "wrapped",
]

MODES = ("assign", "add", "multiply", "maximum", "minimum")

_FLOAT32 = np.dtype(np.float32)
_UFUNCS = {
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
_ON_BOOL = {"add": "maximum", "multiply": "minimum"}


def flat_positions(indices: Sequence[np.ndarray], lengths: Sequence[int]) -> np.ndarray:
    """The flat positions of the indices in an array of shape `lengths`."""
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    flat: np.ndarray = np.empty(shape, np.int64)
    for number, (index, length) in enumerate(zip(indices, lengths, strict=True)):
        given = np.ascontiguousarray(np.broadcast_to(index, shape))
        if not flat_rows(given, length, flat, number > 0):
            raise out_of_range(index, length)
    return flat.reshape(-1)


def positions_along(indices: np.ndarray, axis: int, length: int) -> np.ndarray:
    """The flat positions for one index per element along an axis of that length."""
    outer = int(np.prod(indices.shape[:axis], dtype=np.int64))
    inner = int(np.prod(indices.shape[axis + 1 :], dtype=np.int64))
    lanes = (np.arange(outer) * (length * inner))[:, None, None] + np.arange(inner)
    along = wrapped(indices, length).reshape((outer, indices.shape[axis], inner))
    positions = along * inner + lanes if inner > 1 else along + lanes
    return positions.reshape(-1)


def wrapped(index: np.ndarray, length: int) -> np.ndarray:
    """The index as int64, with negative ones wrapped."""
    position = signed(index, length)
    if position.size == 0:
        return position
    lowest = position.min()
    if lowest < -length or position.max() >= length:
        raise out_of_range(position, length)
    return np.where(position < 0, position + length, position) if lowest < 0 else position


def signed(index: np.ndarray, length: int) -> np.ndarray:
    """The index as int64. Values that only uint64 holds are out of range: they do not wrap.

    The rest must still be checked.
    """
    if index.dtype == np.uint64 and index.size > 0 and index.max() >= length:
        raise out_of_range(index, length)
    return index.astype(np.int64, copy=False)


def out_of_range(index: np.ndarray, length: int) -> IndexError:
    """The error that names the first index that is out of bounds."""
    wrong = index[(index < -length) | (index >= length)]
    return IndexError(
        f"[index] index {wrong.flat[0]} is out of range for an axis of length {length}."
    )


def accumulation(mode: str, out: np.ndarray, rows: np.ndarray, updates: np.ndarray) -> Change:
    """The change that combines each `updates[i]` into row `rows[i]` of `out`, which is
    contiguous.
    """
    dtype = out.dtype
    if _is_half(dtype) and mode != "assign":  # sums of half types accumulate in float32
        wide, given = (converted(np.ascontiguousarray(x), _FLOAT32) for x in (out, updates))
        apply_change(accumulation(mode, wide, rows, given))
        return setitem, out, ..., converted(wide, dtype)
    if dtype.kind == "c" and mode not in ("assign", "add"):
        width = out.shape[1]
        elements = (rows[:, None] * width + np.arange(width)).reshape(-1)
        return _UFUNCS[mode].at, out.reshape(-1), elements, updates.reshape(-1)
    kind, number, table, given = _native_form(mode, out, updates)
    return scatter_rows, kind, number, table, rows, given, None


def accumulate(
    mode: str, out: np.ndarray, base: np.ndarray, rows: np.ndarray, updates: np.ndarray
) -> None:
    """Fill `out`, a contiguous matrix, with a copy of `base` with each `updates[i]` combined into
    row `rows[i]`.
    """
    if (mode != "assign" and _is_half(base.dtype)) or base.dtype.kind == "c":
        out[...] = base
        apply_change(accumulation(mode, out, rows, updates))
        return
    kind, number, table, given = _native_form(mode, out, updates)
    scatter_rows(kind, number, table, rows, given, base.view(table.dtype))


def _is_half(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.kind not in "iu"


def _native_form(
    mode: str, out: np.ndarray, updates: np.ndarray
) -> tuple[Dtype, int, np.ndarray, np.ndarray]:
    """The dtype and mode number, the table and the updates in the form that native code takes: for
    assignment, bits as integers; complex numbers as pairs.
    """
    dtype = out.dtype
    if dtype.kind == "b":
        mode = _ON_BOOL.get(mode, mode)
        dtype = np.dtype(np.uint8)
    elif _is_half(dtype):
        dtype = np.dtype(np.uint16)
    elif dtype.kind == "c":
        dtype = out.real.dtype
    if updates.strides[1] != updates.itemsize:
        updates = np.ascontiguousarray(updates)
    kind = from_numpy(dtype)
    assert kind is not None
    return kind, MODES.index(mode), out.view(dtype), updates.view(dtype)
