"""Exact results in double precision with NumPy and SciPy, for ops where MLX is inaccurate or wrong.

Each function takes the arguments of the op, arrays already being NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special


def reciprocal_square_root(x: np.ndarray) -> np.ndarray:
    """1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def degrees(x: np.ndarray) -> np.ndarray:
    """Radians to degrees, for complex numbers also."""
    return x * (180 / np.pi)


def radians(x: np.ndarray) -> np.ndarray:
    """Degrees to radians, for complex numbers also."""
    return x * (np.pi / 180)


def _axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def softmax(x: np.ndarray, axis: Any = None, precise: bool = False) -> np.ndarray:
    """exp(x) over its sum."""
    e = np.exp(x - x.max(axis=_axes(axis), keepdims=True))
    return e / e.sum(axis=_axes(axis), keepdims=True)


def logsumexp(x: np.ndarray, axis: Any = None, keepdims: bool = False) -> np.ndarray:
    """log of the sum of exp(x)."""
    if axis is not None and not isinstance(axis, int) and len(axis) == 0:
        return x
    return scipy.special.logsumexp(x, axis=_axes(axis), keepdims=keepdims)


def accumulate(
    ufunc: np.ufunc,
    start: float,
    x: np.ndarray,
    axis: int | None = None,
    reverse: bool = False,
    inclusive: bool = True,
) -> np.ndarray:
    """A scan with `ufunc`; an exclusive one begins with `start`."""
    if axis is None:
        x, axis = x.ravel(), 0
    if reverse:
        x = np.flip(x, axis)
    result = ufunc.accumulate(x, axis=axis)
    if not inclusive:
        result = np.roll(result, 1, axis)
        first = [slice(None)] * result.ndim
        first[axis] = slice(0, 1)
        result[tuple(first)] = start
    return np.flip(result, axis) if reverse else result


def cummax(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    """The largest so far; NaN stays."""
    return accumulate(np.maximum, -np.inf, x, *args, **kwargs)


def cummin(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    """The smallest so far; NaN stays."""
    return accumulate(np.minimum, np.inf, x, *args, **kwargs)


def logcumsumexp(x: np.ndarray, *args: Any, **kwargs: Any) -> np.ndarray:
    """log of the sums of exp(x) so far."""
    return accumulate(np.logaddexp, -np.inf, x, *args, **kwargs)
