"""The Python functions that a native program calls: views of its results, host steps, checks.

Each is built from numbers alone, so that a plan with symbolic sizes can build them for each shape.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.compiler.machine.views import view_at
from ingot.graph.dtype import float32
from ingot.graph.op import Op
from ingot.graph.shape import contiguous

__all__ = ["View", "checking", "finishing", "host", "length_value", "number_table", "viewer"]

_FLOAT32 = float32.numpy

View = Callable[[list[Any]], np.ndarray]  # finds a value among the slots of a running program


def viewer(
    slot: int,
    offset: int,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    strides: tuple[int, ...],
) -> View:
    """A function that returns a value from the slots of a running program."""
    plain = strides == contiguous(shape, dtype.itemsize)

    def view(owners: list[Any]) -> np.ndarray:
        owner = owners[slot]
        if offset == 0 and plain and type(owner) is np.ndarray and owner.shape == shape:
            return owner
        if not isinstance(owner, np.ndarray):
            return np.ndarray(shape, dtype, owner, offset, strides)
        if owner.shape == shape and owner.strides == strides and offset == 0:
            return owner
        # Through the address: bfloat16 exports no buffer, and strides may be negative.
        return view_at(owner, offset, shape, dtype, strides)

    return view


def host(op: Op, views: Sequence[View], several: bool) -> Callable[[list[Any]], list[Any]]:
    """A host step: runs the `evaluate` rule of an op that has no kernel."""
    evaluate = op.evaluate

    def run(owners: list[Any]) -> list[Any]:
        inputs = [view(owners) for view in views]
        found = evaluate(*inputs)
        return [_owned(x, inputs) for x in (found if several else (found,))]

    return run


def checking(op: Op, views: Sequence[View]) -> Callable[[list[Any]], Any]:
    """Raises the error of a failed check."""
    evaluate = op.evaluate

    def run(owners: list[Any]) -> Any:
        return evaluate(*(view(owners) for view in views))

    return run


def finishing(views: Sequence[View]) -> Callable[[list[Any]], tuple[np.ndarray, ...]]:
    """Collects the outputs of a program."""

    def finish(owners: list[Any]) -> tuple[np.ndarray, ...]:
        return tuple([view(owners) for view in views])

    return finish


def _owned(result: Any, inputs: list[np.ndarray]) -> np.ndarray:
    """The result of a host step; a copy if it is one of the inputs, whose memory will be reused."""
    array = np.asarray(result, order="C")
    return array.copy() if any(np.may_share_memory(array, x) for x in inputs) else array


def number_table(*numbers: int) -> np.ndarray:
    """The table of lengths and strides that kernels read; not counted as array memory."""
    return np.frombuffer(array("q", numbers), np.int64)


def length_value(length: float, dtype: np.dtype[Any]) -> np.ndarray:
    """A length as an array."""
    if dtype is _FLOAT32:  # every length of interest is exact in between
        return np.array(length, dtype)
    return np.array(length).astype(dtype)
