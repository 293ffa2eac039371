"""Construction: arrays from Python values, NumPy arrays and everything that exports its memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.dtype import complex64, float32, from_numpy, int32, int64, is_integer

__all__ = ["coerce", "construct", "scalar"]


def construct(value: Any, dtype: Dtype | None = None) -> array:
    """What `mx.array(value, dtype)` makes."""
    if isinstance(value, array):
        return value.astype(dtype) if dtype is not None else _native.wrap(value)
    if isinstance(value, np.ndarray):
        found = from_numpy(value.dtype)
        if found is None:
            raise ValueError(f"[array] cannot hold elements of NumPy dtype {value.dtype}.")
        return _native.constant(np.array(value, (dtype or found).numpy), dtype or found)
    holder = np.asarray(value)
    if dtype is None:
        dtype = from_numpy(holder.dtype)
        if dtype is int64:
            dtype = int32
        elif dtype is not None and dtype.size == 8:
            dtype = float32
        elif dtype is None:
            dtype = complex64
    return _native.constant(holder.astype(dtype.numpy), dtype)


def coerce(value: Any) -> Any:
    """An operand that is no array and no Python number as an array; NotImplemented if it cannot be one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return construct(np.asarray(value))
    return NotImplemented


def scalar(value: Any, dtype: Dtype) -> array:
    """A Python number as a 0-d constant."""
    if is_integer(dtype):
        limits = np.iinfo(dtype.numpy)
        if not limits.min <= value <= limits.max:
            raise ValueError(f"[array] {value} does not fit into {dtype}.")
    return _native.constant(np.array(value, dtype.numpy), dtype)


_native.set_hook("construct", construct)
_native.set_hook("coerce", coerce)
_native.set_hook("scalar", scalar)
_native.set_hook("ndarray_type", np.ndarray)
_native.set_hook("as_ndarray", np.asarray)
