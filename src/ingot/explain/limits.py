"""The peak rates of this machine, to compare kernels with: measured once per process."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.lazy_dataclass import dataclass
from ingot.ops.products.contraction import matmul
from ingot.ops.reduce.reduction import sum

__all__ = ["Limits", "machine_limits"]

# Long enough for full speed, and so short that some run is not interrupted on a busy machine.
ELEMENTS = 1 << 24  # 64 MiB of float32: more than caches hold
SIDE = 384
LONGEST = 0.15  # seconds of measuring, each


@dataclass(frozen=True)
class Limits:
    """Bytes read from memory per second and float32 operations per second, on all threads."""

    bytes_per_second: float
    flops_per_second: float


@cache
def machine_limits() -> Limits:
    """The limits, from the best runs of a long sum and of a matrix product."""
    memory = array(np.ones(ELEMENTS, np.float32))
    matrix = array(np.ones((SIDE, SIDE), np.float32))
    return Limits(
        ELEMENTS * 4 / _shortest(lambda: sum(memory)),
        2 * SIDE**3 / _shortest(lambda: matmul(matrix, matrix)),
    )


def _shortest(make: Callable[[], array]) -> float:
    times: list[float] = []
    ends = time.perf_counter() + LONGEST
    while len(times) < 3 or time.perf_counter() < ends:
        began = time.perf_counter()
        _native.evaluate([make()])
        times.append(time.perf_counter() - began)
    return min(times)
