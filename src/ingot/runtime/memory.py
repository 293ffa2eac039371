"""MLX's functions that report and limit the memory of arrays.

The allocator behind them (`_native/memory/allocator.c`) recycles the memory of dead arrays, because
memory that was written before is several times faster to write than fresh pages from the system.
"""

from __future__ import annotations

import operator
from typing import Any, SupportsIndex

import numpy as np

from ingot import _native
from ingot.graph.tree import arrays_in

__all__ = [
    "clear_cache",
    "get_active_memory",
    "get_array_buffer_size",
    "get_cache_memory",
    "get_memory_limit",
    "get_peak_memory",
    "reset_peak_memory",
    "set_cache_limit",
    "set_memory_limit",
    "set_wired_limit",
]


def get_active_memory() -> int:
    """The bytes that arrays hold now, counted in the allocator's rounded sizes."""
    return _native.get_active_memory()


def get_peak_memory() -> int:
    """The maximum of active memory since the start or the last `reset_peak_memory`."""
    return _native.get_peak_memory()


def reset_peak_memory() -> None:
    """Set the peak to 0; the next allocation raises it to what is active then."""
    _native.reset_peak_memory()


def get_cache_memory() -> int:
    """The bytes that are kept for reuse by new arrays."""
    return _native.get_cache_memory()


def get_array_buffer_size(*args: Any) -> int:
    """The bytes of the buffers behind evaluated arrays, each buffer counted once.

    Args:
        args: Arrays, or trees with arrays; other leaves do not count.

    Views share the buffer that they are views of. A buffer counts whole, even where its arrays
    cover a part of it.
    """
    sizes: dict[int, int] = {}
    for x in arrays_in(args):
        if not x._node.evaluated:
            raise ValueError(
                f"[get_array_buffer_size] an array of shape {x.shape} has no buffer before it is "
                "evaluated: call mx.eval first."
            )
        data = x._data
        while isinstance(data.base, np.ndarray):
            data = data.base
        owner = data.base if isinstance(data.base, _native.Buffer) else data
        sizes[id(owner)] = owner.nbytes
    return sum(sizes.values())


def clear_cache() -> None:
    """Return the memory that is kept for reuse to the system."""
    _native.clear_cache()


def set_cache_limit(limit: SupportsIndex) -> int:
    """Keep at most `limit` bytes for reuse and return the limit that held before; 0 keeps nothing.

    What is kept above the new limit is freed at once, first the memory that was unused for longest.
    The default is a quarter of the memory that this process may use.
    """
    return _native.set_cache_limit(_number_of_bytes(limit, "set_cache_limit"))


def set_memory_limit(limit: SupportsIndex) -> int:
    """Set the bytes that arrays and cache should stay within; return the limit that held before.

    It is a guideline, as in MLX: where a new array would exceed it, memory kept for reuse is freed
    first. Only what the machine (or the container) does not have at all raises MemoryError. The
    default is 80 % of that.
    """
    return _native.set_memory_limit(_number_of_bytes(limit, "set_memory_limit"))


def get_memory_limit() -> int:
    """The soft limit on the bytes of arrays and cache, see `set_memory_limit`."""
    return _native.get_memory_limit()


def set_wired_limit(limit: SupportsIndex) -> int:
    """Do nothing and return 0: only the memory of a GPU is wired. Programs may call it anyway."""
    _number_of_bytes(limit, "set_wired_limit")
    return 0


def _number_of_bytes(limit: SupportsIndex, function: str) -> int:
    try:
        number = operator.index(limit)
    except TypeError:
        raise TypeError(
            f"[{function}] the limit must be a whole number of bytes, got {limit!r}."
        ) from None
    if number < 0:
        raise TypeError(f"[{function}] the limit must not be negative, got {number}.")
    return number
