"""Cholesky factors of stacks by the extension against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.tuning_linalg import MAX_LANE_LENGTH

LENGTHS = (1, 2, 3, 4, 5, 8, 13, 32, 33, MAX_LANE_LENGTH)
BOUNDS = {"float32": 2e-6, "float64": 1e-13}


def definite(count: int, length: int, dtype: str) -> np.ndarray:
    x = np.random.default_rng(count * length).standard_normal((count, length, length))
    return (x @ x.swapaxes(-1, -2) + np.eye(length)).astype(dtype)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_factors(dtype: str, upper: bool) -> None:
    for length in LENGTHS:
        for count in (1, 7, 16, 17, 40):
            x = definite(count, length, dtype)
            expected = np.linalg.cholesky(x.astype(np.float64), upper=upper)
            # only one triangle is read
            other = np.tril(np.full(x.shape[1:], np.nan, dtype), -1)
            given = x + (other if upper else other.T)
            found = np.full(x.shape, np.nan, dtype)
            assert _native.factorize_definite(given, found, upper)
            assert np.abs(found - expected).max() <= BOUNDS[dtype] * np.abs(expected).max()


def test_bits_depend_on_the_matrix_alone() -> None:
    x = definite(50, 12, "float32")
    expected = np.empty_like(x)
    assert _native.factorize_definite(x, expected, False)
    for threads in (1, 2, 5):
        old = _native.set_num_threads(threads)
        for begin, end in ((0, 50), (3, 4), (10, 40)):
            found = np.empty_like(x[begin:end])
            assert _native.factorize_definite(x[begin:end], found, False)
            np.testing.assert_array_equal(found, expected[begin:end])
        _native.set_num_threads(old)


@pytest.mark.parametrize("bad", [-1.0, 0.0, np.nan])
def test_matrices_that_are_not_definite(bad: float) -> None:
    x = definite(40, 9, "float32")
    x[31, 5, 5] = bad
    assert not _native.factorize_definite(x, np.empty_like(x), False)
    found = np.array(mx.linalg.cholesky(mx.array(x), stream=mx.cpu))
    assert np.isnan(found[31]).any()
    for number in (0, 30, 32):
        one = np.linalg.cholesky(x[number].astype(np.float64))
        np.testing.assert_allclose(found[number], one, rtol=1e-4, atol=1e-5)


def test_what_is_refused() -> None:
    x = definite(2, 3, "float32")
    wrong = [(x[0], x[0]), (x, x[:1]), (x.astype(np.float64), x), (x[:, :2], x), (x[::-1], x)]
    wrong.append((x.astype(np.int32), x.astype(np.int32)))
    for matrices, factors in wrong:
        with pytest.raises(ValueError, match="sizes of the shape"):
            _native.factorize_definite(matrices, factors, False)
