"""The number of threads for loops and matrix products.

Applies to the native pool (`_native/threads/pool.c`) and to the BLAS libraries of NumPy and SciPy.
The default is INGOT_NUM_THREADS, or else the number of CPUs that this process may use, by affinity
or by the container's quota.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from ingot import _native
from ingot.graph.libraries import limit_blas_threads

__all__ = ["get_num_threads", "limit_blas_threads", "set_num_threads"]


def get_num_threads() -> int:
    """The number of threads that large loops and matrix products use."""
    return _native.get_num_threads()


def set_num_threads(n: SupportsIndex) -> None:
    """Use `n` threads for loops and matrix products from now on, in the whole process."""
    try:
        threads = operator.index(n)
    except TypeError:
        raise TypeError(
            f"[set_num_threads] the number of threads must be a whole number, got {n!r}."
        ) from None
    _native.set_num_threads(threads)  # raises if out of range
    limit_blas_threads()
