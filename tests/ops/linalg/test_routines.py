"""Matrix functions by native routines, against NumPy in double precision."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot._native import NativeRoutine
from ingot.graph.numerics.routines import computed, routine_of
from ingot.graph.op import registry
from ingot.graph.roles import Host
from ingot.ops.linalg.decompositions import LU, QR, Cholesky
from ingot.ops.linalg.eigenvalues import SymmetricEigen, SymmetricEigenvalues
from ingot.ops.linalg.linear_systems import Det, Inverse, SlogDet, Solve
from ingot.ops.linalg.singular_values import SVD, SingularValues
from ingot.search.factorizations import TallQR
from ingot.tuning_linalg import MAX_DENSE_LENGTH, MAX_STACKED_LENGTH, MIN_LANE_MATRICES

SHAPES = [
    (5, 4, 4),
    (3, 7, 4),
    (2, 3, 4, 7),
    (6, 1, 1),
    (40, 33, 33),
    (3, 100, 90),
    (1, 5, 5),
    (3, 3),
    (MAX_DENSE_LENGTH, MAX_DENSE_LENGTH),
    (MAX_DENSE_LENGTH + 1, MAX_DENSE_LENGTH + 1),
    (MIN_LANE_MATRICES - 1, 17, 17),
    (2, MAX_STACKED_LENGTH + 1, 3),
]
TOLERANCES = {np.float32: 4e-6, np.float64: 1e-14}  # of an element, for each row


def random(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def close(found: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    assert found.shape == expected.shape
    scale = expected.shape[-1] * max(1, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[dtype] * scale)


def results(op: Any, *inputs: np.ndarray) -> Any:
    found = computed(op, *inputs)
    assert found is not None
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    expected = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    close(results(SingularValues(), x), expected, dtype)
    for full in (False, True):
        left, values, right = results(SVD(full), x)
        close(values, expected, dtype)
        common = values.shape[-1]
        close((left[..., :common] * values[..., None, :]) @ right[..., :common, :], x, dtype)
        for rows in (np.swapaxes(left, -1, -2), right):
            unit = np.broadcast_to(np.eye(rows.shape[-2]), (*shape[:-2], *rows.shape[-2:-1] * 2))
            close(rows @ np.swapaxes(rows, -1, -2), unit, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] == s[-2]])
def test_square_matrices(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    symmetric = x + np.swapaxes(x, -1, -2)
    for lower in (True, False):
        triangle = np.tril(symmetric) if lower else np.triu(symmetric)
        values, vectors = results(SymmetricEigen(lower), triangle)
        close(symmetric @ vectors, vectors * values[..., None, :], dtype)
        close(values, np.linalg.eigvalsh(symmetric.astype(np.float64)), dtype)
        close(results(SymmetricEigenvalues(lower), triangle), values, dtype)
    dominant = x + shape[-1] * np.eye(shape[-1], dtype=dtype)
    before = dominant.copy()
    unit = np.broadcast_to(np.eye(shape[-1]), shape)
    close(dominant @ results(Inverse("all"), dominant), unit, dtype)
    for wide in (1, 3):
        right = random((*shape[:-1], wide), dtype)
        close(dominant @ results(Solve("all"), dominant, right), right, dtype)
        for triangle, part in (("lower", np.tril(dominant)), ("upper", np.triu(dominant))):
            close(part @ results(Solve(triangle), dominant, right), right, dtype)
            close(part @ results(Inverse(triangle), dominant), unit, dtype)
    np.testing.assert_array_equal(dominant, before)  # operands are only read
    definite = dominant @ np.swapaxes(dominant, -1, -2)
    for upper in (False, True):
        factor = results(Cholesky(upper), definite)
        expected = np.linalg.cholesky(definite.astype(np.float64), upper=upper)
        close(factor, expected, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] == s[-2] <= MAX_DENSE_LENGTH])
def test_determinants(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    sign, logarithm = np.linalg.slogdet(x.astype(np.float64))
    found = results(SlogDet(), x)
    np.testing.assert_array_equal(found[0], sign)
    np.testing.assert_allclose(found[1], logarithm, rtol=1e-5 if dtype is np.float32 else 1e-11)
    expected = np.linalg.det(x.astype(np.float64))
    rtol = 1e-6 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(results(Det(), x), expected.astype(dtype), rtol=rtol)


def test_determinants_of_singular_and_of_large_numbers() -> None:
    x = np.stack([np.zeros((3, 3)), np.diag([1e200, 1e200, 1e-300]), np.diag([-1e-200] * 3)])
    for stack in (x, np.repeat(x, MIN_LANE_MATRICES, 0)):  # one by one and in lanes
        rows = len(stack) // 3
        np.testing.assert_allclose(results(Det(), stack)[::rows], [0, 1e100, 0], atol=1e-300)
        sign, logarithm = results(SlogDet(), stack)
        np.testing.assert_array_equal(sign[::rows], [0, 1, -1])
        np.testing.assert_allclose(logarithm[::rows], [-np.inf, np.log(1e100), 3 * np.log(1e-200)])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] <= s[-2]])
def test_orthonormal_columns(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    q, r = results(QR(), x)
    for found, expected in zip((q, r), np.linalg.qr(x.astype(np.float64)), strict=True):
        close(found, expected, dtype)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_factors_with_exchanged_rows(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    factors, pivots, positions = results(LU(), x)
    *batch, rows, columns = shape
    common = min(rows, columns)
    lower = np.tril(factors[..., :common], -1) + np.eye(rows, common, dtype=dtype)
    assert np.abs(lower).max() <= 1  # the pivot is the largest of its column
    product = lower @ np.triu(factors[..., :common, :])
    close(np.take_along_axis(product, positions[..., None].astype(int), -2), x, dtype)
    for index in np.ndindex(*batch):
        order = np.arange(rows)
        for row, other in enumerate(pivots[index]):
            order[[row, other]] = order[[other, row]]
        np.testing.assert_array_equal(positions[index][order], np.arange(rows))


def test_singular_matrices_are_refused() -> None:
    for count in (1, MIN_LANE_MATRICES):
        for length in (3, MAX_DENSE_LENGTH + 1):
            stack = mx.stack([mx.eye(length)] * count + [mx.ones((length, length))])
            sides = mx.ones((count + 1, length, 1))
            for wrong in (mx.linalg.inv, lambda x, b=sides: mx.linalg.solve(x, b)):
                with pytest.raises(RuntimeError, match="singular"):
                    mx.eval(wrong(stack))
            with pytest.raises(RuntimeError, match="singular"):
                mx.eval(mx.linalg.tri_inv(mx.zeros((length, length))))


def test_what_has_no_routine() -> None:
    for shape, dtype in (((0, 3, 3), np.float32), ((2, 3, 3), np.complex64)):
        assert routine_of(Solve("all"), (shape, np.dtype(dtype)), (shape, np.dtype(dtype))) is None


def test_memory_is_checked() -> None:
    with pytest.raises(ValueError, match="no call"):
        NativeRoutine((), b"", 0, 0, False, (("unknown", (), (), None),))
    with pytest.raises(ValueError, match="outside"):
        NativeRoutine((8,), b"", 0, 0, False, (("finite", ((0, 9, 0),), (4, 2), None),))
    with pytest.raises(ValueError, match="address"):
        NativeRoutine((), b"", 0, 0, False, (("lapack", (), (1, 1, -1), 0),))
    with pytest.raises(ValueError, match="no function of 7 operands"):
        NativeRoutine((), b"", 0, 0, False, (("lapack", ((-1, 0, 0),) * 7, (1, 1, -1), 1),))
    routine = NativeRoutine((8,), b"", 0, 0, True, (("finite", ((0, 0, 0),), (4, 2), None),))
    assert routine.can_fail
    assert routine.run((np.ones(2, np.float32),))
    assert not routine.run((np.array([1, np.inf], np.float32),))
    for wrong in (np.ones(3, np.float32), np.ones((2, 2), np.float32)[:, 0]):
        with pytest.raises(ValueError, match="contiguous arrays"):
            routine.run((wrong,))


def test_routines_belong_to_the_rule_they_replace() -> None:
    """A subclass with an `evaluate` of its own must not run the routine of its base class."""
    for module in ("ingot.search", "ingot.ops.linalg", "ingot.ops.fft", "ingot.ops.reduce"):
        import_module(module)
    hosts = [kind for kind in registry().values() if issubclass(kind, Host)]
    assert {QR, TallQR} <= set(hosts)
    for kind in hosts:
        owner = next(base for base in kind.__mro__ if "routine" in vars(base))
        assert owner is Host or owner.evaluate is kind.evaluate, kind.__name__
