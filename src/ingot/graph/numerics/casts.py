"""Casts of NumPy arrays with one result, whatever the size, the memory layout and the processor.

What C leaves undefined when a floating-point number is not in the range of an integer type, NumPy
leaves to the compiler and the vector instructions that it chose. The rule here is that of MLX on
x86, where casts go via a signed integer:

| to | via | out of range of that type, infinities and NaN |
|---|---|---|
| bool | | nonzero is true, NaN too |
| int8, uint8, int16, uint16 | int32, modulo the width | 0 |
| int32 | int32 | -2**31 |
| uint32 | int64, modulo 2**32 | 0 |
| int64 | int64 | -2**63 |
| uint64 | int64, modulo 2**64, or from 2**63 the number itself | 0 from 2**64; else 2**63 |

Complex numbers are cast by their real parts, to bool by both. Everything else is rounded once, to
nearest, ties to even.
"""

from __future__ import annotations

import numpy as np

from ingot._native import convert_halves
from ingot.graph.dtype import bfloat16, float16, is_numpy_bfloat16
from ingot.tuning_rows import MIN_NATIVE_CONVERSION

__all__ = ["converted"]

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_UINT64 = np.dtype(np.uint64)
_FLOAT16, _FLOAT32 = np.dtype(np.float16), np.dtype(np.float32)
_BOOL = np.dtype(bool)


def converted(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy of `x` cast to `dtype`, in row-major order if `x` is contiguous."""
    if x.dtype.kind == "c" and dtype.kind != "c" and dtype != _BOOL:
        x = x.real
    half = x.dtype if dtype == _FLOAT32 else dtype if x.dtype == _FLOAT32 else None
    if half is not None and half.itemsize == 2 and _converts_natively(x, half):
        out = np.empty(x.shape, dtype)
        convert_halves(float16 if half == _FLOAT16 else bfloat16, x, out)
        return out
    if x.dtype == np.float64 and is_numpy_bfloat16(dtype):
        x = _single(x)
    if dtype.kind not in "iu" or x.dtype.kind in "iub":
        return x.astype(dtype, subok=False)
    if x.dtype.itemsize == 2:
        x = x.astype(np.float32)  # comparisons are faster, and the limits are representable
    if dtype == _UINT64:
        return _to_uint64(x)
    via = _INT64 if dtype.itemsize == 8 or dtype == np.uint32 else _INT32
    return _to_signed(x, via).astype(dtype, copy=False)


def _converts_natively(x: np.ndarray, half: np.dtype) -> bool:
    """Whether native code converts an array between float32 and this dtype of two bytes."""
    if x.size < MIN_NATIVE_CONVERSION or not x.flags.c_contiguous:
        return False
    return half == _FLOAT16 or is_numpy_bfloat16(half)


def _single(x: np.ndarray) -> np.ndarray:
    """Doubles as floats, rounded to odd, so that a second rounding to a half type is correct."""
    single = x.astype(np.float32, order="C")
    back = single.astype(np.float64)
    bits = single.view(np.int32)
    bits[np.abs(back) > np.abs(x)] -= 1
    bits[(back != x) & (x == x)] |= 1
    return single


def _to_signed(x: np.ndarray, via: np.dtype) -> np.ndarray:
    lowest = x.dtype.type(-(2.0 ** (8 * via.itemsize - 1)))
    inside = (x >= lowest) & (x < -lowest)
    return np.where(inside, x, lowest).astype(via)


def _to_uint64(x: np.ndarray) -> np.ndarray:
    """Numbers from 2**63 on, converted as offsets from it."""
    middle = x.dtype.type(2.0**63)
    high = x >= middle
    found = _to_signed(np.where(high, x - middle, x), _INT64).astype(_UINT64)
    np.bitwise_xor(found, np.uint64(2**63), out=found, where=high)
    return found
