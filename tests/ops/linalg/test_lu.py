"""LU factors, inverses, solutions and determinants of stacks in vector lanes against NumPy in
double precision.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.graph.numerics.routines import computed
from ingot.ops.linalg.decompositions import LU
from ingot.ops.linalg.linear_systems import Det, Inverse, SlogDet, Solve
from ingot.tuning_linalg import MAX_LU_LANE_LENGTH, MIN_LANE_MATRICES

DTYPES = ("float32", "float64")
LENGTHS = (*range(1, 17), 23, MAX_LU_LANE_LENGTH)
COUNT = 40


def results(op: Any, *inputs: np.ndarray) -> list[np.ndarray]:
    found = computed(op, *inputs)
    if found is None:
        raise np.linalg.LinAlgError
    return found


def lu_of_stack(x: np.ndarray) -> list[np.ndarray]:
    return results(LU(), x)


def solved_stack(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    return (results(Inverse("all"), a) if b is None else results(Solve("all"), a, b))[0]


def determinants_of_stack(x: np.ndarray) -> np.ndarray:
    return results(Det(), x)[0]


def log_determinants_of_stack(x: np.ndarray) -> list[np.ndarray]:
    return results(SlogDet(), x)


def normal(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def eliminated(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Factors, pivots and positions of one matrix, in double precision."""
    factors, rows = x.astype(np.float64), np.arange(len(x))
    pivots = np.zeros(min(x.shape), int)
    for k in range(len(pivots)):
        pivots[k] = chosen = k + np.argmax(np.abs(factors[k:, k]))  # the first largest
        for each in (factors, rows):
            each[[k, chosen]] = each[[chosen, k]]
        if factors[k, k] != 0:
            factors[k + 1 :, k] /= factors[k, k]
        factors[k + 1 :, k + 1 :] -= np.outer(factors[k + 1 :, k], factors[k, k + 1 :])
    return factors, pivots, np.argsort(rows)


def bounds(x: np.ndarray, dtype: str) -> np.ndarray:
    """Of relative errors, for each matrix."""
    condition: np.ndarray = np.linalg.cond(x.astype(np.float64))
    return 10 * x.shape[-1] * np.finfo(dtype).eps * condition


def check_bounded(found: np.ndarray, expected: np.ndarray, bound: np.ndarray) -> None:
    error = np.abs(found - expected).max((-2, -1)) / np.abs(expected).max((-2, -1))
    assert (error <= bound).all(), (error / bound).max()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_factors(length: int, dtype: str) -> None:
    for rows, columns in ((length, length), (length, length // 2 + 1), (length // 2 + 1, length)):
        x = normal(COUNT, rows, columns, dtype=dtype)
        factors, pivots, positions = lu_of_stack(x)
        common = min(rows, columns)
        lower = np.tril(factors[:, :, :common], -1) + np.eye(rows, common)
        assert np.abs(lower).max() <= 1
        product = lower.astype(np.float64) @ np.triu(factors[:, :common])
        restored = np.take_along_axis(product, positions[..., None].astype(int), 1)
        np.testing.assert_allclose(restored, x, rtol=0, atol=20 * length * np.finfo(dtype).eps)
        if dtype == "float64":  # single precision might choose another row
            for found in zip(x, factors, pivots, positions, strict=True):
                for one, other in zip(found[1:], eliminated(found[0]), strict=True):
                    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [2, 3, 4])
def test_the_first_largest_element_is_the_pivot(length: int, dtype: str) -> None:
    # choices among up to four rows of such matrices depend on numbers without rounding errors
    x = np.random.default_rng(length).integers(-1, 2, (500, length, length)).astype(dtype)
    factors, pivots, positions = lu_of_stack(x)
    for found in zip(x, factors, pivots, positions, strict=True):
        for one, other in zip(found[1:], eliminated(found[0]), strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_solutions(length: int, dtype: str) -> None:
    x = normal(COUNT, length, length, dtype=dtype)
    bound = bounds(x, dtype)
    check_bounded(solved_stack(x, None), np.linalg.inv(x.astype(np.float64)), bound)
    for wide in (1, 2, 4, 7):
        sides = normal(COUNT, length, wide, dtype=dtype)
        expected = np.linalg.solve(x.astype(np.float64), sides.astype(np.float64))
        check_bounded(solved_stack(x, sides), expected, bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_determinants(length: int, dtype: str) -> None:
    x = normal(COUNT, length, length, dtype=dtype)
    given = x.astype(np.float64)
    rtol = 1e-9 if dtype == "float64" else 1e-6
    np.testing.assert_allclose(determinants_of_stack(x), np.linalg.det(given), rtol=rtol)
    signs, logarithms = log_determinants_of_stack(x)
    np.testing.assert_array_equal(signs, np.linalg.slogdet(given)[0])
    np.testing.assert_allclose(logarithms, np.linalg.slogdet(given)[1], rtol=rtol, atol=rtol)
    found = mx.linalg.det(mx.array(x, dtype=getattr(mx, dtype)), stream=mx.cpu)
    np.testing.assert_allclose(np.array(found), np.linalg.det(given), rtol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_depend_on_the_matrix_alone(dtype: str) -> None:
    x, sides = normal(COUNT, 7, 7, dtype=dtype), normal(COUNT, 7, 3, dtype=dtype)
    functions: list[Any] = [
        lambda part: lu_of_stack(x[part]),
        lambda part: (solved_stack(x[part], None), solved_stack(x[part], sides[part])),
        lambda part: (determinants_of_stack(x[part]), *log_determinants_of_stack(x[part])),
    ]
    for function in functions:
        expected = function(slice(None))
        parts = [slice(end) for end in range(MIN_LANE_MATRICES, COUNT)]
        parts += [slice(*pair) for pair in pairwise((3, 3 + MIN_LANE_MATRICES, 29))]
        for threads, part in [(1, part) for part in parts] + [(2, parts[-1]), (5, slice(None))]:
            old = _native.set_num_threads(threads)
            found = function(part)
            _native.set_num_threads(old)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other[part])


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(dtype: str) -> None:
    x, sides = normal(6, 5, 4, 4, dtype=dtype), normal(6, 5, 4, 2, dtype=dtype)
    for each, right in (
        (x.swapaxes(-1, -2), sides),
        (x[::-2], sides[::2]),
        (x.swapaxes(0, 1), sides.swapaxes(0, 1)),
        (x[..., ::-1], np.asfortranarray(sides)),
    ):
        before = each.copy()
        expected = np.linalg.solve(each.astype(np.float64), right.astype(np.float64))
        check_bounded(solved_stack(each, right), expected, bounds(each, dtype))
        inverses = np.linalg.inv(each.astype(np.float64))
        check_bounded(solved_stack(each, None), inverses, bounds(each, dtype))
        np.testing.assert_allclose(determinants_of_stack(each), np.linalg.det(before), rtol=1e-4)
        for one, other in zip(lu_of_stack(each), lu_of_stack(before), strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(each, before)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_singular_matrices(length: int, dtype: str) -> None:
    x = normal(COUNT, length, length, dtype=dtype)
    x[31, :, length // 2] = 0
    with pytest.raises(np.linalg.LinAlgError):
        solved_stack(x, None)
    with pytest.raises(np.linalg.LinAlgError):
        solved_stack(x, x)
    others = np.arange(COUNT) != 31
    assert determinants_of_stack(x)[31] == 0
    assert [part[31] for part in log_determinants_of_stack(x)] == [0, -np.inf]
    assert (determinants_of_stack(x)[others] != 0).all()
    factors = lu_of_stack(x)[0]
    np.testing.assert_allclose(factors[31], eliminated(x[31])[0], rtol=0, atol=1e-3)
    np.testing.assert_array_equal(factors[others], lu_of_stack(x[others])[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 5, 16])
def test_nan_stays_in_its_matrix(length: int, dtype: str) -> None:
    x = normal(COUNT, length, length, dtype=dtype)
    x[31, length - 1, 0] = np.nan
    others = np.arange(COUNT) != 31
    for function in (
        lambda part: solved_stack(part, None),
        determinants_of_stack,
        lambda part: log_determinants_of_stack(part)[1],
        lambda part: lu_of_stack(part)[0],
    ):
        found = function(x)
        assert np.isnan(found[31]).any()
        np.testing.assert_array_equal(found[others], function(x[others]))
    pivots, positions = lu_of_stack(x)[1:]
    assert (pivots < length).all()
    np.testing.assert_array_equal(np.sort(positions), np.tile(np.arange(length), (COUNT, 1)))


def test_extreme_magnitudes() -> None:
    x = np.stack([np.diag([1e200, 1e200, 1e-200, -1e-200])] * 3)
    np.testing.assert_allclose(determinants_of_stack(x), -1)
    np.testing.assert_allclose(log_determinants_of_stack(x), [[-1] * 3, [0] * 3], atol=1e-12)
    small = np.array([[[1e-41, 1], [1e-40, 1]]], np.float32)  # the pivot has no finite inverse
    np.testing.assert_allclose(lu_of_stack(small)[0], [[[1e-40, 1], [0.1, 0.9]]], rtol=1e-3)
