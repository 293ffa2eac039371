"""How many threads work on one array program.

In: a number. Out: the native pool (`_native/threads/pool.c`) and the BLAS libraries that NumPy and
SciPy brought along use that many threads. Until it is set, the number is that of INGOT_NUM_THREADS,
or else of the CPUs that this process may use: the cores it is bound to, or the container's quota.
"""

from __future__ import annotations

import operator
from typing import SupportsIndex

from ingot import _native
from ingot.graph.libraries import limit_blas_threads

__all__ = ["get_num_threads", "limit_blas_threads", "set_num_threads"]


def get_num_threads() -> int:
    """The number of threads that large loops and matrix products are spread over."""
    return _native.get_num_threads()


def set_num_threads(n: SupportsIndex) -> None:
    """Spread loops and matrix products over `n` threads from now on, in the whole process."""
    try:
        threads = operator.index(n)
    except TypeError:
        raise TypeError(
            f"[set_num_threads] the number of threads must be a whole number, got {n!r}."
        ) from None
    _native.set_num_threads(threads)  # refuses what is out of range
    limit_blas_threads()
