"""Cholesky factors of stacks by the extension against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import ingot.core as mx
from ingot.tuning_linalg import MAX_LANE_LENGTH, MIN_LANE_MATRICES

LENGTHS = (1, 2, 3, 4, 5, 8, 13, 32, 33, MAX_LANE_LENGTH)
BOUNDS = {"float32": 2e-6, "float64": 1e-13}


def definite(count: int, length: int, dtype: str) -> np.ndarray:
    x = np.random.default_rng(count * length).standard_normal((count, length, length))
    return (x @ x.swapaxes(-1, -2) + np.eye(length)).astype(dtype)


def factors(x: np.ndarray, upper: bool = False) -> np.ndarray:
    return np.array(
        mx.linalg.cholesky(mx.array(x, dtype=getattr(mx, x.dtype.name)), upper, stream=mx.cpu)
    )


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_factors(dtype: str, upper: bool) -> None:
    for length in LENGTHS:
        for count in (1, 7, 16, 17, 40):
            x = definite(count, length, dtype)
            expected = np.linalg.cholesky(x.astype(np.float64), upper=upper)
            # only one triangle is read
            other = np.tril(np.full(x.shape[1:], np.nan, dtype), -1)
            found = factors(x + (other if upper else other.T), upper)
            assert found.dtype == dtype
            assert np.abs(found - expected).max() <= BOUNDS[dtype] * np.abs(expected).max()


def test_bits_depend_on_the_matrix_alone() -> None:
    x = definite(50, 12, "float32")
    expected, before = factors(x), mx.get_num_threads()
    for threads in (1, 2, 5):
        mx.set_num_threads(threads)
        for begin, end in ((0, 50), (3, 3 + MIN_LANE_MATRICES), (10, 40)):
            np.testing.assert_array_equal(factors(x[begin:end]), expected[begin:end])
    mx.set_num_threads(before)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_matrices_that_are_not_definite(bad: float) -> None:
    x = definite(40, 9, "float32")
    x[31, 5, 5] = bad
    found = factors(x)
    assert np.isnan(found[31]).any()
    for number in (0, 30, 32):
        one = np.linalg.cholesky(x[number].astype(np.float64))
        np.testing.assert_allclose(found[number], one, rtol=1e-4, atol=1e-5)
