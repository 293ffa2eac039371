"""Eigenvalues and eigenvectors: values, dtypes, rules, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.ops.linalg.matrix_checks import (
    accepted_by_mlx,
    accepted_dtypes,
    check_close,
    complex_normal,
    definite,
    double,
    normal,
    refuses,
    values,
)
from tests.support.derivative_checks import (
    Point,
    check_first_order,
    check_second_order,
    check_vmap_everywhere,
)

import ingot.core as mx

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eigh": lambda m, x: m.linalg.eigh(x),
    "eigvalsh": lambda m, x: m.linalg.eigvalsh(x),
    "eig": lambda m, x: m.linalg.eig(x),
    "eigvals": lambda m, x: m.linalg.eigvals(x),
}
SHAPES = [(1, 1), (3, 3), (2, 4, 4), (66, 66), (2, 64, 64), (0, 3, 3), (0, 0)]
FLOATS = [mx.float32, mx.float64, mx.complex64]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_are_those_of_mlx(name: str) -> None:
    assert accepted_dtypes(FUNCTIONS[name]) == accepted_by_mlx(FUNCTIONS[name])


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.swapaxes(x, -1, -2).conj()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("triangle", ["L", "U", "l", "u"])
def test_symmetric_matrices(shape: tuple[int, ...], dtype: mx.Dtype, triangle: str) -> None:
    x = complex_normal(*shape) if dtype == mx.complex64 else normal(*shape)
    part = np.tril(x, -1) if triangle in "Ll" else np.triu(x, 1)
    whole = part + adjoint(part) + np.eye(shape[-1]) * x.real
    tolerance = 1e-12 if dtype == mx.float64 else 1e-4
    found, vectors = mx.linalg.eigh(mx.array(x, dtype=dtype), UPLO=triangle)
    assert found.dtype == (mx.float32 if dtype == mx.complex64 else dtype)
    assert vectors.dtype == dtype
    check_close((vectors * found[..., None, :]) @ vectors.conj().mT, whole, tolerance)
    check_close(found, np.linalg.eigvalsh(whole), tolerance)
    check_close(mx.linalg.eigvalsh(mx.array(x, dtype=dtype), triangle), values(found), tolerance)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_matrices_of_any_kind(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = complex_normal(*shape) if dtype == mx.complex64 else normal(*shape)
    a = mx.array(x, dtype=dtype)
    found, vectors = mx.linalg.eig(a)
    assert found.dtype == vectors.dtype == mx.complex64
    numbers, columns = values(found), values(vectors)
    np.testing.assert_allclose(x @ columns, columns * numbers[..., None, :], atol=2e-4)
    np.testing.assert_allclose(np.linalg.norm(columns, axis=-2), np.ones(found.shape), rtol=1e-5)
    alone = values(mx.linalg.eigvals(a))
    np.testing.assert_allclose(np.sort_complex(alone), np.sort_complex(numbers), atol=2e-4)


def symmetric(x: mx.array) -> mx.array:
    return (x + x.mT) / 2


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_derivatives_by_symmetric_matrices(triangle: str) -> None:
    def function(x: mx.array) -> list[mx.array]:
        return list(mx.linalg.eigh(symmetric(x), triangle))

    def only_values(x: mx.array) -> list[mx.array]:
        return [mx.linalg.eigvalsh(symmetric(x), triangle)]

    for chosen in (function, only_values):
        check_first_order(Point(chosen, [definite(3, 3)]), 1e-4)
        check_second_order(Point(chosen, [definite(3, 3)]), 1e-4)
        check_vmap_everywhere(chosen, [definite(3, 3, 3)])


def test_derivatives_of_equal_eigenvalues() -> None:
    check_close(mx.grad(lambda x: mx.linalg.eigvalsh(x).sum())(double(np.eye(3))), np.eye(3))
    check_close(mx.grad(lambda x: mx.linalg.eigh(x)[0].sum())(double(np.eye(3))), np.eye(3))


def losses() -> dict[str, tuple[Callable[[mx.array], mx.array], Callable[[Any], Any]]]:
    """Functions that depend neither on the order nor on phases, and the same of matrices."""
    projections = normal(3)

    def of_vectors(x: mx.array) -> mx.array:
        found, vectors = mx.linalg.eig(x)
        weights = mx.abs(mx.array(projections.astype(np.complex64)) @ vectors)
        return (mx.square(weights) * mx.exp(-found.real / 3)).sum()

    def of_vectors_exactly(x: np.ndarray) -> Any:
        found, vectors = np.linalg.eig(x)
        return (np.abs(projections @ vectors) ** 2 * np.exp(-found.real / 3)).sum()

    return {
        "eig": (of_vectors, of_vectors_exactly),
        "eigvals": (
            lambda x: mx.exp(mx.linalg.eigvals(x) / 3).real.sum(),
            lambda x: np.exp(np.linalg.eigvals(x) / 3).real.sum(),
        ),
    }


@pytest.mark.parametrize("name", ["eig", "eigvals"])
def test_derivatives_by_matrices_of_any_kind(name: str) -> None:
    loss, exact = losses()[name]
    x, direction = normal(3, 3, seed=4), normal(3, 3, seed=1)
    step = 1e-5
    expected = (exact(x + step * direction) - exact(x - step * direction)) / (2 * step)
    gradient = values(mx.grad(loss)(mx.array(x)))
    np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-3)
    _, (change,) = mx.jvp(loss, [mx.array(x)], [mx.array(direction)])
    np.testing.assert_allclose(change.item(), expected, rtol=1e-3)
    assert mx.grad(loss)(double(x)).dtype == mx.float64

    def slope(y: mx.array) -> mx.array:
        return (mx.grad(loss)(y) * mx.array(direction)).sum()

    ahead, behind = (
        (exact(x + (sign + 1) * 1e-3 * direction) - exact(x + (sign - 1) * 1e-3 * direction)) / 2e-3
        for sign in (1, -1)
    )
    _, (change,) = mx.jvp(slope, [mx.array(x)], [mx.array(direction)])
    np.testing.assert_allclose(change.item(), (ahead - behind) / 2e-3, rtol=1e-2, atol=1e-2)
    second = values(mx.grad(slope)(mx.array(x)))
    np.testing.assert_allclose((second * direction).sum(), change.item(), rtol=1e-2, atol=1e-2)


def test_derivatives_by_hermitian_matrices() -> None:
    x = complex_normal(3, 3)
    whole = x + adjoint(x)
    weights = mx.array(complex_normal(3, 3, seed=5))

    def loss(a: mx.array) -> mx.array:
        found, vectors = mx.linalg.eigh(a)
        return (((vectors * mx.exp(found / 3)) @ vectors.conj().mT) * weights).real.sum()

    def exact(a: np.ndarray) -> float:
        found, vectors = np.linalg.eigh(a)
        product = (vectors * np.exp(found / 3)) @ adjoint(vectors)
        return float((product * values(weights)).real.sum())

    way = complex_normal(3, 3, seed=8)
    direction = way + adjoint(way)
    step = 1e-5
    wide = whole.astype(np.complex128)
    expected = (exact(wide + step * direction) - exact(wide - step * direction)) / (2 * step)
    gradient = values(mx.grad(loss)(mx.array(whole)))
    found = (gradient.conj() * direction).real.sum()
    np.testing.assert_allclose(found, expected, rtol=1e-3)
    np.testing.assert_allclose(gradient, adjoint(gradient), atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name: str) -> None:
    x = mx.array(definite(3, 4, 4))

    def function(a: mx.array) -> Any:
        return FUNCTIONS[name](mx, a)

    def results(found: Any) -> list[np.ndarray]:
        return [values(part) for part in (found if isinstance(found, tuple) else (found,))]

    rows = [results(function(row)) for row in x]
    for mapped, *expected in zip(results(mx.vmap(function)(x)), *rows, strict=True):
        np.testing.assert_allclose(mapped, np.stack(expected), rtol=1e-6)


def test_refusals() -> None:
    square = mx.eye(2)
    refuses(
        ValueError,
        '[linalg.eigh] UPLO is "L" or "U", got \'X\'.',
        lambda: mx.linalg.eigh(square, UPLO="X"),
    )
    refuses(
        TypeError, "[linalg.eigvalsh] UPLO must be a string", lambda: mx.linalg.eigvalsh(square, 3)
    )
    refuses(
        ValueError,
        "[linalg.eig] takes square matrices, got shape (2, 3).",
        lambda: mx.linalg.eig(mx.ones((2, 3))),
    )
    refuses(
        ValueError,
        "[linalg.eigvals] takes matrices of float32, float64 or complex64, got float16",
        lambda: mx.linalg.eigvals(square.astype(mx.float16)),
    )
    for name in FUNCTIONS:
        refuses(
            RuntimeError,
            f"[linalg.{name}] takes finite numbers, got some that are NaN or infinite.",
            lambda name=name: FUNCTIONS[name](mx, mx.full((3, 3), np.nan)),
        )
