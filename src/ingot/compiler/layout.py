"""Layouts: where the elements of a value are in memory, so that views cost nothing.

A layout is an offset in bytes and a stride in bytes for each axis, relative to the memory of the
value that a view is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Layout", "contiguous"]


@dataclass(frozen=True)
class Layout:
    """Offset and strides in bytes."""

    offset: int
    strides: tuple[int, ...]


def contiguous(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides of an array whose elements lie one after the other, row by row."""
    strides = [0] * len(shape)
    step = itemsize
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= max(shape[axis], 1)
    return tuple(strides)
