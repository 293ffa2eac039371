"""Singular value decompositions and pseudo-inverses: values, dtypes, rules, refusals."""

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
    complex_normal,
    double,
    normal,
    refuses,
    values,
)
from tests.support.derivative_checks import Point, check_first_order, check_second_order

import ingot.core as mx

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "svd": lambda m, x: m.linalg.svd(x),
    "values": lambda m, x: m.linalg.svd(x, compute_uv=False),
    "pinv": lambda m, x: m.linalg.pinv(x),
}
SHAPES = [(1, 1), (3, 3), (4, 2), (2, 4), (2, 3, 3), (3, 2, 5), (70, 66), (2, 64, 70)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_are_those_of_mlx(name: str) -> None:
    assert accepted_dtypes(FUNCTIONS[name]) == accepted_by_mlx(FUNCTIONS[name])


def unit(shape: tuple[int, ...]) -> np.ndarray:
    return np.broadcast_to(np.eye(shape[-1]), shape)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64, mx.complex64])
@pytest.mark.parametrize("shape", [*SHAPES, (0, 3, 2), (3, 0), (0, 0)])
def test_svd(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = complex_normal(*shape) if dtype == mx.complex64 else normal(*shape)
    a = mx.array(x, dtype=dtype)
    left, found, right = mx.linalg.svd(a)
    tolerance = 1e-12 if dtype == mx.float64 else 1e-4
    rows, columns = shape[-2:]
    common = min(rows, columns)
    assert found.dtype == (mx.float32 if dtype == mx.complex64 else dtype)
    check_close((left[..., :common] * found[..., None, :]) @ right[..., :common, :], x, tolerance)
    check_close(left.conj().mT @ left, unit((*shape[:-2], rows, rows)), tolerance)
    check_close(right @ right.conj().mT, unit((*shape[:-2], columns, columns)), tolerance)
    check_close(found, np.linalg.svd(x, compute_uv=False), tolerance)
    check_close(mx.linalg.svd(a, compute_uv=False), values(found), tolerance)


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 3)])
def test_derivatives_of_full_decompositions(shape: tuple[int, ...]) -> None:
    """Of functions that do not depend on the choice of vectors beyond the singular values."""
    common = min(shape)
    left_weights, right_weights = normal(shape[0], shape[0]), normal(shape[1], shape[1])

    def function(x: mx.array) -> list[mx.array]:
        left, found, right = mx.linalg.svd(x)
        rest_left, rest_right = left[:, common:], right[common:]
        return [
            (left[:, :common] * mx.exp(-found)) @ right[:common],
            double(left_weights) @ rest_left @ rest_left.T,
            rest_right.T @ rest_right @ double(right_weights),
        ]

    check_first_order(Point(function, [normal(*shape)]), 1e-4)
    check_second_order(Point(function, [normal(*shape)]), 1e-4)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4)])
def test_derivatives_by_complex_matrices(shape: tuple[int, ...]) -> None:
    """The derivatives of what does not depend on phases, by the real and the imaginary part."""
    real, imaginary = normal(*shape), normal(*shape, seed=1)
    weights = mx.array(complex_normal(*shape, seed=5))
    common = min(shape)

    def loss(x: mx.array, y: mx.array) -> mx.array:
        left, found, right = mx.linalg.svd(x + 1j * y)
        product = (left[:, :common] * mx.exp(-found)) @ right[:common]
        return (product * weights).real.sum() + mx.square(found).sum()

    def exact(x: np.ndarray, y: np.ndarray) -> float:
        left, found, right = np.linalg.svd(x + 1j * y, full_matrices=False)
        product = (left * np.exp(-found)) @ right
        return float((product * values(weights)).real.sum() + np.square(found).sum())

    here = [mx.array(real), mx.array(imaginary)]
    gradient = mx.grad(loss, argnums=(0, 1))(*here)
    direction = [normal(*shape, seed=2), normal(*shape, seed=3)]
    step = 1e-5
    ahead, behind = (
        exact(real + sign * step * direction[0], imaginary + sign * step * direction[1])
        for sign in (1, -1)
    )
    expected = (ahead - behind) / (2 * step)
    found = sum(
        float(np.sum(values(part) * way)) for part, way in zip(gradient, direction, strict=True)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    _, changes = mx.jvp(loss, here, [mx.array(way) for way in direction])
    np.testing.assert_allclose(changes[0].item(), expected, rtol=1e-3)


def test_derivatives_of_equal_singular_values() -> None:
    gradient = mx.grad(lambda x: mx.linalg.svd(x, compute_uv=False).sum())(double(np.eye(3)))
    check_close(gradient, np.eye(3))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize("shape", [*SHAPES, (0, 3, 2)])
def test_pseudo_inverses(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = normal(*shape)
    tolerance = 1e-3 if dtype == mx.float32 else 1e-10
    check_close(mx.linalg.pinv(mx.array(x, dtype=dtype)), np.linalg.pinv(x), tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_counts_as_zero_equals_mlx(dtype: str) -> None:
    precision = float(np.finfo(dtype).eps)
    for factor in (9, 11):
        x = np.zeros((2, 5))
        x[0, 0], x[1, 1] = 1, factor * 5 * precision
        ours = mx.linalg.pinv(mx.array(x, dtype=getattr(mx, dtype)))
        theirs = mlx.linalg.pinv(mlx.array(x, dtype=getattr(mlx, dtype)))
        np.testing.assert_allclose(values(ours), np.array(theirs), rtol=1e-5)
    check_close(mx.linalg.pinv(mx.zeros((2, 3))), np.zeros((3, 2)))
    check_close(mx.linalg.pinv(mx.array([[1.0, 2.0], [2.0, 4.0]])), [[0.04, 0.08], [0.08, 0.16]])


def test_refusals() -> None:
    refuses(
        ValueError,
        "[linalg.svd] takes matrices of float32, float64 or complex64, got int32",
        lambda: mx.linalg.svd(mx.array([[1]])),
    )
    refuses(ValueError, "[linalg.pinv] takes matrices, arrays", lambda: mx.linalg.pinv(mx.ones(3)))
    refuses(TypeError, "[linalg.svd] a must be an array", lambda: mx.linalg.svd(np.eye(2)))
    for length in (3, 70):
        bad = mx.full((length, length), np.nan)
        refuses(
            RuntimeError,
            "[linalg.svd] takes finite numbers, got some that are NaN or infinite.",
            lambda bad=bad: mx.linalg.svd(bad),
        )
