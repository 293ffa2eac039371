"""Long evaluations in blocks, between which Ctrl-C arrives.

One call of NumPy or SciPy cannot be interrupted. Ops that treat parts of their inputs one like the
other say along which axis these lie (`Op.block_axis`). Of large inputs a small block is evaluated
first, to see how long it takes: all of them in one call, if that is soon done, because results of
blocks have to be copied together; block by block otherwise. Results do not depend on it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native

if TYPE_CHECKING:
    from ingot.graph.op import Op

__all__ = ["evaluate_in_blocks", "longest_axis"]

TRIALS = 512  # of which one is made: the time for it is lost if the rest is quick
TRIAL_ELEMENTS = 1 << 20  # at most: what memory cannot hold must not be tried for long
SOON = 0.3  # seconds that Ctrl-C may take
BLOCK = 0.1  # seconds of a block
MAX_GROWTH = 8  # of a block over the one before, which may have been quick by chance


def evaluate_in_blocks(op: Op, *inputs: np.ndarray) -> Any:
    """What `op.evaluate` returns for the inputs."""
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
    """The results for some indices of the axis."""
    position = _place(axis, begin, length)
    found = op.evaluate(*[x[position] for x in inputs])
    return [np.asarray(x) for x in (found if op.several_outputs else (found,))]


def longest_axis(shape: tuple[int, ...], *without: int) -> int | None:
    """The longest of the axes that are not named; None if there are no others."""
    named = {axis % len(shape) for axis in without} if shape else set()
    others = [axis for axis in range(len(shape)) if axis not in named]
    return max(others, key=lambda axis: shape[axis], default=None)


_native.set_callbacks(evaluate_large=evaluate_in_blocks)
