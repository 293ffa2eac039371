"""How results are compared with NumPy, whose own namespace conforms to the standard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ingot.array_api as xp

__all__ = ["DATA", "agree", "compare"]

_generator = np.random.default_rng(11)
DATA: dict[str, np.ndarray] = {
    "float64": _generator.uniform(-2, 2, (3, 4)),
    "float32": _generator.uniform(-2, 2, (3, 4)).astype(np.float32),
    "int64": _generator.integers(-9, 9, (3, 4)),
    "int8": _generator.integers(-9, 9, (3, 4)).astype(np.int8),
    "uint8": _generator.integers(0, 9, (3, 4)).astype(np.uint8),
    "bool": _generator.integers(0, 2, (3, 4)).astype(bool),
    "complex64": (
        _generator.uniform(-2, 2, (3, 4)) + 1j * _generator.uniform(-2, 2, (3, 4))
    ).astype(np.complex64),
}


def agree(found: Any, expected: Any, rtol: float | None = None) -> None:
    """The same structure, dtypes, shapes and, up to rounding, values."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            agree(one, other, rtol)
        return
    if not isinstance(found, xp.Array):
        assert found == expected
        return
    wanted = np.asarray(expected)
    if wanted.dtype == np.complex128:  # ingot has none
        wanted = wanted.astype(np.complex64)
    got = np.asarray(found)
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    coarse = wanted.dtype in (np.float32, np.complex64)
    np.testing.assert_allclose(got, wanted, rtol=rtol or (2e-5 if coarse else 1e-12), atol=1e-6)


def compare(function: Callable[..., Any], *arrays: np.ndarray, rtol: float | None = None) -> None:
    """A function of a namespace and arrays gives NumPy's result."""
    found = function(xp, *(xp.asarray(x) for x in arrays))
    agree(found, function(np, *arrays), rtol)
