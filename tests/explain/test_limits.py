"""The limits of the machine: of the size that machines have, and measured once."""

from __future__ import annotations

import time

import numpy as np

import ingot.core  # noqa: F401
from ingot.explain.limits import machine_limits


def test_limits_are_above_what_numpy_reaches_and_not_absurd() -> None:
    limits = machine_limits()
    # A single thread of NumPy copies no more than memory gives, up to noise and caches.
    values = np.ones(1 << 23, np.float32)
    began = time.perf_counter()
    values.sum()
    reached = values.nbytes / (time.perf_counter() - began)
    assert reached / 20 < limits.bytes_per_second < 1e13
    assert 1e8 < limits.flops_per_second < 1e15
    assert machine_limits() is limits
