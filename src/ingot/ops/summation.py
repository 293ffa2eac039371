"""Accurate sums: how the reference adds up many floating-point numbers.

Comes in: a NumPy array, the axes to add over and the dtype to work in. Goes out: the sums, with the
axes kept as length 1. NumPy adds pairwise along contiguous memory only; elsewhere it adds one after
the other, and the error grows with their count. Here short blocks are added in the given
dtype and the blocks' sums in a wider one.
"""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["accurate_sum"]

_SMALL = 8192  # arrays of so few numbers are added in the wider dtype at once
_DIRECT = 32  # so few numbers are added one after the other: the error is that of a block
_BLOCK = 16  # rows of a block
_VECTOR = 8192  # numbers added at once, so that a block's running sums stay in the nearest cache
_COLUMNS = 4  # rows of so few numbers are added column by column
_SHORT = 64  # rows of so few numbers are faster through einsum than through add.reduce

_WIDER = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}


def accurate_sum(x: np.ndarray, axes: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The sum over sorted `axes` of elements converted to `dtype`, in that dtype or a wider one."""
    wider = _WIDER.get(dtype, dtype)
    if x.size <= _SMALL:
        return np.add.reduce(x, axes, wider, keepdims=True)
    if x.dtype != dtype:
        if dtype.kind not in "fc":
            return np.add.reduce(x, axes, dtype, keepdims=True)
        x = x.astype(dtype)
    if x.flags.c_contiguous:
        return _contiguous_sum(x, axes, wider)
    order = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    in_memory_order = x.transpose(order)
    if not in_memory_order.flags.c_contiguous:
        return np.add.reduce(x, axes, wider, keepdims=True)
    moved = tuple(place for place, axis in enumerate(order) if axis in axes)
    return _contiguous_sum(in_memory_order, moved, wider).transpose(np.argsort(order))


def _contiguous_sum(x: np.ndarray, axes: tuple[int, ...], wider: np.dtype) -> np.ndarray:
    """The sum of an array in C order, one run of adjacent axes after the other, the last first."""
    remaining = list(axes)
    while remaining:
        last = first = remaining.pop()
        while remaining and remaining[-1] == first - 1:
            first = remaining.pop()
        outer, inner = x.shape[:first], x.shape[last + 1 :]
        rows = x.reshape(prod(outer), prod(x.shape[first : last + 1]), prod(inner))
        x = _sum_of_rows(rows, wider).reshape(*outer, *(1,) * (last + 1 - first), *inner)
    return x


def _sum_of_rows(x: np.ndarray, wider: np.dtype) -> np.ndarray:
    """The sum over the middle of three axes."""
    outer, count, inner = x.shape
    if inner == 1:
        rows = x.reshape(outer, count)
        if count <= _COLUMNS:
            sums = rows[:, 0].copy()
            for column in range(1, count):
                sums += rows[:, column]
            return sums
        if count <= _SHORT:
            return np.einsum("ij->i", rows)
        return np.add.reduce(rows, 1, x.dtype)
    if count <= _DIRECT:
        return np.add.reduce(x, 1, x.dtype)
    # Row r of a block is added to row r of the next; for narrow rows, several rows at once.
    together = max(min(_VECTOR // inner, count // (_BLOCK * _BLOCK)), 1)
    blocks = count // (_BLOCK * together)
    covered = blocks * _BLOCK * together
    parts = x[:, :covered].reshape(outer, blocks, _BLOCK, together * inner)
    sums = np.add.reduce(parts, 2, x.dtype).reshape(outer, blocks, together, inner)
    total = np.add.reduce(np.add.reduce(sums, 1, wider), 1, wider)
    return total + np.add.reduce(x[:, covered:], 1, wider)
