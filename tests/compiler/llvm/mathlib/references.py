"""Functions of the math library compiled, and compared with wider types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.compiler.accuracy import ulp_errors
from tests.compiler.kernel_runner import compile_word

from ingot.graph import dtype as dtypes

DTYPES = {np.float32: dtypes.float32, np.float64: dtypes.float64}
WIDE: dict[type, Any] = {np.float32: np.float64, np.float64: np.longdouble}


def largest_error(
    word: str, type: type, reference: Callable[..., np.ndarray], *arrays: np.ndarray
) -> float:
    """The largest error of a word, in units in the last place."""
    ready = [np.asarray(array, np.dtype(type)) for array in arrays]
    found = compile_word(word, DTYPES[type], arity=len(ready))(*ready)
    with np.errstate(all="ignore"):
        expected = reference(*(array.astype(WIDE[type]) for array in ready))
    return float(ulp_errors(found, np.asarray(expected, WIDE[type])).max())


def half_errors(word: str, reference: Callable[..., np.ndarray]) -> float:
    """The largest error of a word of half types, in units in the last place, over all arguments."""
    largest = 0.0
    for dtype, digits, lowest in ((dtypes.float16, 11, -13), (dtypes.bfloat16, 8, -125)):
        with np.errstate(all="ignore"):
            x = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)
            found = compile_word(word, dtype)(x)
            expected = reference(x.astype(np.float64))
            rounded = expected.astype(np.float32).astype(dtype.numpy).astype(np.float64)
        is_finite = np.isfinite(rounded)
        np.testing.assert_array_equal(found[~is_finite].astype(np.float64), rounded[~is_finite])
        found, expected = found[is_finite].astype(np.float64), expected[is_finite]
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))
        spacing = np.ldexp(1.0, np.maximum(np.frexp(expected)[1], lowest) - digits)
        largest = max(largest, float((np.abs(found - expected) / spacing).max()))
    return largest


def between(low: float, high: float, count: int = 4001) -> np.ndarray:
    return np.linspace(low, high, count)
