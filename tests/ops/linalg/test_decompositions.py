"""Cholesky, QR and LU decompositions: factors, dtypes, rules, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.linalg.matrix_checks import (
    accepted_by_mlx,
    accepted_dtypes,
    check_close,
    definite,
    double,
    normal,
    refuses,
    regular,
    values,
)
from tests.support.derivative_checks import (
    Point,
    check_first_order,
    check_second_order,
    check_vmap_everywhere,
)

import ingot.core as mx
from ingot.ops.linalg.decompositions import LU

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda m, x: m.linalg.cholesky(x),
    "qr": lambda m, x: m.linalg.qr(x),
    "lu": lambda m, x: m.linalg.lu(x),
    "lu_factor": lambda m, x: m.linalg.lu_factor(x),
}
SHAPES = [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 3), (3, 2, 5), (70, 66), (2, 65, 70), (2, 80, 64)]
EMPTY = [(0, 3, 3), (3, 0), (0, 3)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_are_those_of_mlx(name: str) -> None:
    assert accepted_dtypes(FUNCTIONS[name]) == accepted_by_mlx(FUNCTIONS[name])


def tolerance_of(dtype: mx.Dtype) -> float:
    return 3e-5 if dtype == mx.float32 else 1e-12


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (2, 3, 3), (70, 70), (2, 66, 66), (0, 3, 3)])
def test_cholesky(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = definite(*shape)
    # What is in the other triangle has no influence.
    lower = mx.linalg.cholesky(mx.array(np.tril(x) + np.triu(x, 1) * 7, dtype=dtype))
    upper = mx.linalg.cholesky(mx.array(np.triu(x) - np.tril(x, -1), dtype=dtype), upper=True)
    check_close(lower, np.linalg.cholesky(x), tolerance_of(dtype))
    check_close(upper, np.swapaxes(np.linalg.cholesky(x), -1, -2), tolerance_of(dtype))


@pytest.mark.parametrize(
    ("matrix", "factor"),
    [
        (np.zeros((2, 2)), np.zeros((2, 2))),
        (np.ones((3, 3)), [[1, 0, 0], [1, 0, 0], [1, 0, 0]]),
        (np.diag([0.0, 4.0]), np.diag([0.0, 2.0])),
        ([[1, 2], [2, 1]], [[np.nan, 0], [np.nan, np.nan]]),
        (-np.eye(2), [[np.nan, 0], [np.nan, np.nan]]),
        ([[0, 1], [1, 1]], [[np.nan, 0], [np.nan, np.nan]]),
    ],
)
def test_cholesky_of_matrices_that_are_not_definite(matrix: Any, factor: Any) -> None:
    stack = np.stack([np.asarray(matrix, float), np.eye(len(matrix)) * 9])
    expected = np.stack([np.asarray(factor, float), np.eye(len(matrix)) * 3])
    check_close(mx.linalg.cholesky(double(stack)), expected)
    check_close(mx.linalg.cholesky(double(stack), True), np.swapaxes(expected, -1, -2))


def test_cholesky_of_large_matrices_that_are_not_definite() -> None:
    root = normal(70, 5)
    factor = values(mx.linalg.cholesky(mx.array(root @ root.T)))
    np.testing.assert_allclose(factor @ factor.T, root @ root.T, rtol=1e-3, atol=1e-3)
    assert np.isnan(values(mx.linalg.cholesky(mx.array(-np.eye(70))))).any()


def symmetric(x: mx.array) -> mx.array:
    return (x + x.mT) / 2


@pytest.mark.parametrize("upper", [False, True])
def test_derivatives_of_cholesky(upper: bool) -> None:
    def function(x: mx.array) -> list[mx.array]:
        return [mx.linalg.cholesky(symmetric(x), upper)]

    check_first_order(Point(function, [definite(3, 3)]), 1e-4)
    check_second_order(Point(function, [definite(3, 3)]), 1e-4)
    check_vmap_everywhere(function, [definite(3, 3, 3)])


def test_gradients_of_cholesky_are_symmetric() -> None:
    gradient = values(mx.grad(lambda x: mx.linalg.cholesky(x).sum())(double(definite(4, 4))))
    np.testing.assert_allclose(gradient, gradient.T)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize("shape", [*SHAPES, *EMPTY])
def test_qr(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = normal(*shape)
    q, r = mx.linalg.qr(mx.array(x, dtype=dtype))
    tolerance = tolerance_of(dtype)
    common = min(shape[-2:])
    assert q.shape == (*shape[:-1], common)
    check_close(q @ r, x, tolerance)
    check_close(q.mT @ q, np.broadcast_to(np.eye(common), (*shape[:-2], common, common)), tolerance)
    np.testing.assert_array_equal(values(r), np.triu(values(r)))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_signs_of_qr_are_those_of_mlx(shape: tuple[int, ...]) -> None:
    x = normal(*shape).astype(np.float32)
    for ours, theirs in zip(mx.linalg.qr(mx.array(x)), mlx.linalg.qr(mlx.array(x)), strict=True):
        check_close(ours, np.array(theirs))


def test_derivatives_of_wide_qr() -> None:
    def function(x: mx.array) -> list[mx.array]:
        return list(mx.linalg.qr(x))

    check_first_order(Point(function, [normal(2, 4)]), 1e-4)
    check_second_order(Point(function, [normal(2, 4)]), 1e-4)
    check_vmap_everywhere(function, [normal(3, 2, 4)])


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize("shape", [*SHAPES, *EMPTY])
def test_lu(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = normal(*shape)
    a = mx.array(x, dtype=dtype)
    places, lower, upper = mx.linalg.lu(a)
    assert places.dtype == mx.uint32
    rows = mx.take_along_axis(lower, places[..., None], -2)
    check_close(rows @ upper, x, tolerance_of(dtype))
    packed, pivots = mx.linalg.lu_factor(a)
    assert pivots.dtype == mx.uint32
    assert pivots.shape == (*shape[:-2], min(shape[-2:]))
    common = min(shape[-2:])
    np.testing.assert_array_equal(
        np.tril(values(packed), -1)[..., :common], np.tril(values(lower), -1)
    )
    np.testing.assert_array_equal(np.triu(values(packed))[..., :common, :], values(upper))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 5, 5)])
def test_lu_equals_mlx(shape: tuple[int, ...]) -> None:
    x = normal(*shape).astype(np.float32)
    for name in ("lu", "lu_factor"):
        ours = getattr(mx.linalg, name)(mx.array(x))
        theirs = getattr(mlx.linalg, name)(mlx.array(x))
        for one, other in zip(ours, theirs, strict=True):
            check_close(one, np.array(other))


@pytest.mark.parametrize(
    "shape", [(5, 1, 1), (7, 20, 20), (3, 2, 7, 33), (4, 33, 7), (2, 128, 128)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lu_of_a_stack_is_that_of_each_matrix(shape: tuple[int, ...], dtype: type) -> None:
    # stacks of few or of large matrices; test_lu.py has those in vector lanes
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    x[0] = 0  # singular
    x[-1] = np.round(x[-1])  # ties
    for stack in (x, x[::-1], np.asfortranarray(x)):
        found = op_results(stack)
        for position in np.ndindex(shape[:-2]):
            alone = op_results(stack[position])
            for whole, each in zip(found, alone, strict=True):
                np.testing.assert_array_equal(whole[position], each)


def op_results(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Factors, pivots and positions."""
    found: tuple[np.ndarray, ...] = LU().evaluate(x)
    return found


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_lu_of_a_stack_without_largest_elements(value: float) -> None:
    x = np.full((40, 6, 6), value, np.float32)
    factors, pivots, positions = op_results(x)
    assert np.isnan(factors).any((1, 2)).all()
    assert (pivots < 6).all()
    np.testing.assert_array_equal(np.sort(positions), np.tile(np.arange(6), (40, 1)))


def test_derivatives_of_lu() -> None:
    def function(x: mx.array) -> list[mx.array]:
        return list(mx.linalg.lu(x))[1:]

    check_first_order(Point(function, [normal(4, 4)]), 1e-5)
    check_second_order(Point(function, [regular(3, 3)]), 1e-4)
    refuses(
        ValueError,
        "[linalg.lu] has derivatives for square matrices only, got shape (2, 3).",
        lambda: mx.grad(lambda x: mx.linalg.lu(x)[2].sum())(mx.ones((2, 3))),
    )


def test_compiled_functions_give_the_same() -> None:
    def function(x: mx.array) -> list[mx.array]:
        places, lower, upper = mx.linalg.lu(x * 2)
        return [mx.linalg.cholesky(x @ x.T + 1), *mx.linalg.qr(x), places, lower + upper]

    x = mx.array(regular(3, 3))
    for compiled, eager in zip(mx.compile(function)(x), function(x), strict=True):
        check_close(compiled, values(eager))


def test_refusals() -> None:
    refuses(
        ValueError,
        "[linalg.cholesky] takes square matrices, got shape (2, 3).",
        lambda: mx.linalg.cholesky(mx.ones((2, 3))),
    )
    refuses(
        ValueError,
        "[linalg.qr] takes matrices of float32 or float64, got complex64",
        lambda: mx.linalg.qr(mx.eye(2) * 1j),
    )
    refuses(
        ValueError,
        "[linalg.lu] takes matrices, arrays with at least two axes, got shape (3).",
        lambda: mx.linalg.lu(mx.ones(3)),
    )
    refuses(TypeError, "[linalg.lu_factor] a must be an array", lambda: mx.linalg.lu_factor(None))
