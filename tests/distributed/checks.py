"""What programs of several ranks share: inputs of all ranks, which each can make, and a runner."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import ingot.core as mx

WORLD = mx.distributed.init(strict=True)
RANK, SIZE = WORLD.rank(), WORLD.size()


DTYPES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 bfloat16 float32 float64 complex64"
).split()
SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (4, 5), (0, 3), (2, 3, 17), (1000,)]


def numpy_dtype(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def inputs(shape: tuple[int, ...], dtype: str, size: int = SIZE, seed: int = 0) -> np.ndarray:
    """The arrays of all ranks, stacked: small numbers, so that sums in any order are exact."""
    rng = np.random.default_rng([seed, len(shape), *shape])
    x: np.ndarray = rng.integers(0, 2 if dtype == "bool" else 9, (size, *shape))
    if dtype == "complex64":
        x = x + 1j * rng.integers(-9, 9, (size, *shape))
    return x.astype(numpy_dtype(dtype))


def given(x: np.ndarray) -> mx.array:
    """An array with the same dtype, float64 too."""
    return mx.array(x, mx.float64) if x.dtype == np.float64 else mx.array(x)


def values(x: mx.array) -> np.ndarray:
    """An array as NumPy's, bfloat16 too."""
    if x.dtype == mx.bfloat16:
        return np.array(x.astype(mx.float32)).astype(ml_dtypes.bfloat16)
    return np.array(x)


def same(found: mx.array, wanted: np.ndarray, what: str) -> None:
    """Checks shape, dtype and bits."""
    value = values(found)
    assert value.shape == wanted.shape, f"{what}: {value.shape} where {wanted.shape} is right"
    assert value.dtype == wanted.dtype, f"{what}: {value.dtype} where {wanted.dtype} is right"
    np.testing.assert_array_equal(value, wanted, err_msg=what)


def run(*checks: Callable[[], None]) -> None:
    """Runs checks in order on all ranks; those named on the command line only, if there are any."""
    for check in checks:
        if not sys.argv[1:] or check.__name__ in sys.argv[1:]:
            check()
    print("all checks passed", flush=True)
