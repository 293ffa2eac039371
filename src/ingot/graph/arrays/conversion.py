"""Conversion of arrays to Python and NumPy values, and the protocols through which others request
it.

Input: an array, which is evaluated. Output: numbers, lists, bytes, NumPy arrays. These are the
methods of `array` that need no op; core/array.py attaches them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, constant
from ingot.graph.dtype import bfloat16, is_integer, uint16

__all__ = [
    "as_bool",
    "as_bytes",
    "as_complex",
    "as_float",
    "as_index",
    "as_int",
    "as_numpy",
    "deep_copy",
    "item",
    "length",
    "reduce",
    "shallow_copy",
    "tolist",
]


def item(a: array) -> Any:
    """The value of an array with one element, as a Python number."""
    data = a._data
    if data.size != 1:
        raise ValueError(
            f"[item] only an array with one element is a number, this one has shape {a.shape}: "
            "select an element first, reduce it, or use tolist() for all of them."
        )
    # NumPy's item() returns Python numbers only for its own dtypes.
    return float(data.reshape(())) if a.dtype is bfloat16 else data.item()


def tolist(a: array) -> Any:
    """The elements as nested lists of Python numbers; the number itself for a 0-d array."""
    data = a._data
    return (data.astype(np.float32) if a.dtype is bfloat16 else data).tolist()


def as_bool(a: array) -> bool:
    """Whether the one element is not zero."""
    if a.size != 1:
        raise ValueError(
            f"[bool] an array of shape {a.shape} is neither true nor false: use mx.all(x) or "
            "mx.any(x), and for conditions on elements x & y and x | y instead of `and` and `or`."
        )
    return bool(item(a))


def as_int(a: array) -> int:
    """The one element as an int, rounded toward zero."""
    return int(item(a))


def as_float(a: array) -> float:
    """The one element as a float."""
    return float(item(a))


def as_complex(a: array) -> complex:
    """The one element as a complex number."""
    return complex(item(a))


def as_index(a: array) -> int:
    """The value of a 0-d integer array, for indexing Python sequences."""
    if a.ndim != 0 or not is_integer(a.dtype):
        raise TypeError(
            "[index] only a 0-d array of integers is an index, "
            f"this one has shape {a.shape} and dtype {a.dtype.name}."
        )
    return int(a._data)


def as_bytes(a: array) -> bytes:
    """The elements as bytes in C order."""
    return a._data.tobytes()


def as_numpy(a: array, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    """The array for NumPy: shares memory unless another dtype or a copy is requested. Elements of
    bfloat16 have the dtype of that name of ml_dtypes.
    """
    return np.array(a._data, dtype, copy=copy)


def length(a: array) -> int:
    """The length of the first axis."""
    if a.ndim == 0:
        raise TypeError("[len] a 0-d array has no length.")
    return a.shape[0]


def shallow_copy(a: array) -> array:
    """A new handle with the same value: assigning to one does not change the other."""
    return _native.wrap(a)


def deep_copy(a: array, memo: Any, /) -> array:
    """Same as `shallow_copy`, because values are immutable."""
    return _native.wrap(a)


def reduce(a: array) -> tuple[Any, ...]:
    """Pickle the array as a NumPy array and a dtype."""
    data = a._data
    if a.dtype is bfloat16:
        data = data.view(uint16.numpy)
    return restore, (data, a.dtype)


def restore(data: np.ndarray, dtype: Dtype) -> array:
    """The array that was pickled."""
    if not data.flags.writeable:  # out-of-band pickle buffers may belong to someone else
        data = data.copy()
    return constant(data.view(dtype.numpy), dtype)
