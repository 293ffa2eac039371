"""The Python functions that a native program calls, and its constants that depend on shapes.

Each is built from an op or from numbers, so that a plan with symbolic sizes can build them for each
shape.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.graph.dtype import float32
from ingot.graph.op import Op
from ingot.graph.roles.host import Host

__all__ = ["checking", "host", "length_value", "number_table"]

_FLOAT32 = float32.numpy


def host(op: Op, several: bool) -> Callable[..., list[np.ndarray]]:
    """A host step: runs the `evaluate` rule of an op that has no kernel."""
    own = op.host_function() if isinstance(op, Host) else None
    if own is not None:
        return own
    evaluate = op.evaluate

    def run(*inputs: np.ndarray) -> list[np.ndarray]:
        found = evaluate(*inputs)
        return [_owned(x, inputs) for x in (found if several else (found,))]

    return run


def checking(op: Op) -> Callable[..., Any]:
    """Raises the error of a failed check."""
    return op.evaluate


def _owned(result: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
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
