"""Arrays between guard pages: kernels that access memory past either end crash."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

import ingot.core as mx
from ingot import _native
from ingot.graph.dtype import from_numpy

__all__ = ["guarded", "guarded_array"]

LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = mmap.PAGESIZE


def guarded(values: np.ndarray, at_end: bool = True) -> np.ndarray:
    """A copy between two guard pages. Its last byte is followed by the second one, or its first
    byte is preceded by the first one.
    """
    size = -(-values.nbytes // PAGE) * PAGE
    block = mmap.mmap(-1, size + 2 * PAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(block))
    for page in (address, address + PAGE + size):
        assert LIBC.mprotect(ctypes.c_void_p(page), PAGE, 0) == 0
    offset = PAGE + (size - values.nbytes if at_end else 0)
    copy = np.frombuffer(block, values.dtype, values.size, offset).reshape(values.shape)
    copy.flags.writeable = True
    copy[...] = values
    return copy


def guarded_array(values: mx.array, at_end: bool = True) -> mx.array:
    """An array that is computed with in such memory, without a copy."""
    data = guarded(np.array(values), at_end)
    dtype = from_numpy(data.dtype)
    assert dtype is not None
    return _native.constant(data, dtype)
