"""Long evaluations in blocks, so that Ctrl-C can interrupt them.

A call of NumPy or SciPy cannot be interrupted. Ops that process slices of their inputs
independently declare the axis of these slices (`Op.block_axis`). For large inputs, a small block is
evaluated first and timed. If the rest will be fast, it is one call, because results of blocks have
to be copied together; otherwise it runs block by block. The results are the same.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native

if TYPE_CHECKING:
    from ingot.graph.op import Op

__all__ = ["evaluate_in_blocks", "longest_axis"]

TRIALS = 512  # the trial is 1 / TRIALS of the work: its time is lost if the rest is one call
TRIAL_ELEMENTS = 1 << 20  # maximum of the trial, so that inputs that cannot fit in memory fail fast
SOON = 0.3  # seconds that Ctrl-C may be delayed
BLOCK = 0.1  # target seconds per block
MAX_GROWTH = 8  # maximum growth of a block over the one before, which may have been fast by chance


def evaluate_in_blocks(op: Op, *inputs: np.ndarray) -> Any:
    """Same as `op.evaluate` of the inputs."""
    if not inputs or inputs[0].size < op.worth_cutting:
        return op.evaluate(*inputs)
    axis = op.block_axis(*inputs)
    total = 0 if axis is None else inputs[0].shape[axis]
    if axis is None or total <= 1:
        return op.evaluate(*inputs)
    length = max(1, min(total // TRIALS, TRIAL_ELEMENTS * total // inputs[0].size))
    began = time.perf_counter()
    first = _block(op, inputs, axis, 0, length)
    seconds = time.perf_counter() - began
    if seconds * total <= SOON * length:
        return op.evaluate(*inputs)
    lengths = [(*x.shape[:axis], total, *x.shape[axis + 1 :]) for x in first]
    results = [np.empty(shape, x.dtype) for shape, x in zip(lengths, first, strict=True)]
    begin, blocks = 0, first
    while True:
        for result, block in zip(results, blocks, strict=True):
            result[_place(axis, begin, length)] = block
        begin += length
        if begin >= total:
            return tuple(results) if op.several_outputs else results[0]
        length = max(1, int(length * min(MAX_GROWTH, BLOCK / max(seconds, 1e-6))))
        began = time.perf_counter()
        blocks = _block(op, inputs, axis, begin, length)
        seconds = time.perf_counter() - began


def _place(axis: int, begin: int, length: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(begin, begin + length))


def _block(
    op: Op, inputs: tuple[np.ndarray, ...], axis: int, begin: int, length: int
) -> list[np.ndarray]:
    """The results for a slice of the axis."""
    position = _place(axis, begin, length)
    found = op.evaluate(*[x[position] for x in inputs])
    return [np.asarray(x) for x in (found if op.several_outputs else (found,))]


def longest_axis(shape: tuple[int, ...], *without: int) -> int | None:
    """The longest of the axes that are not in the list; None if there are no others."""
    named = {axis % len(shape) for axis in without} if shape else set()
    others = [axis for axis in range(len(shape)) if axis not in named]
    return max(others, key=lambda axis: shape[axis], default=None)


_native.set_callbacks(evaluate_large=evaluate_in_blocks)
