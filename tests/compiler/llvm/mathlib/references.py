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


def between(low: float, high: float, count: int = 4001) -> np.ndarray:
    return np.linspace(low, high, count)
