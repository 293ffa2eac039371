"""Decompositions of stacks, against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot._native import call_lapack
from ingot.ops.linalg.stacks import (
    eigen_of_stack,
    is_stack,
    qr_of_stack,
    solved_stack,
    svd_of_stack,
)

SHAPES = [
    (5, 4, 4),
    (3, 7, 4),
    (2, 3, 4, 7),
    (6, 1, 1),
    (40, 33, 33),
    (3, 100, 90),
    (1, 5, 5),
    (3, 3),
]
TOLERANCES = {np.float32: 4e-6, np.float64: 1e-14}  # of an element, for each row


def random(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(dtype)


def close(found: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    assert found.shape == expected.shape
    scale = expected.shape[-1] * max(1, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCES[dtype] * scale)


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_and_vectors(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    expected = np.linalg.svd(x.astype(np.float64), compute_uv=False)
    close(svd_of_stack(x, "N"), expected, dtype)
    for vectors in ("S", "A"):
        left, values, right = svd_of_stack(x, vectors)
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
        values, vectors = eigen_of_stack(triangle, lower, True)
        close(symmetric @ vectors, vectors * values[..., None, :], dtype)
        close(values, np.linalg.eigvalsh(symmetric.astype(np.float64)), dtype)
        close(eigen_of_stack(triangle, lower, False), values, dtype)
    dominant = x + shape[-1] * np.eye(shape[-1], dtype=dtype)
    right = random((*shape[:-1], 3), dtype)
    close(dominant @ solved_stack(dominant, right), right, dtype)
    unit = np.broadcast_to(np.eye(shape[-1]), shape)
    close(dominant @ solved_stack(dominant, None), unit, dtype)
    before = dominant.copy()
    solved_stack(np.swapaxes(dominant, -1, -2), right)
    np.testing.assert_array_equal(dominant, before)  # operands are copied


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s[-1] <= s[-2]])
def test_orthonormal_columns(shape: tuple[int, ...], dtype: Any) -> None:
    x = random(shape, dtype)
    q, r = qr_of_stack(x)
    for found, expected in zip((q, r), np.linalg.qr(x.astype(np.float64)), strict=True):
        close(found, expected, dtype)


def test_singular_matrices_are_refused() -> None:
    stack = mx.stack([mx.eye(3), mx.ones((3, 3))])
    with pytest.raises(RuntimeError, match="singular"):
        mx.eval(mx.linalg.inv(stack))
    with pytest.raises(RuntimeError, match="singular"):
        mx.eval(mx.linalg.solve(stack, mx.ones((2, 3, 1))))


def test_what_is_no_such_stack() -> None:
    assert is_stack(np.zeros((2, 3, 3)))
    assert not is_stack(np.zeros((0, 3, 3)))
    assert not is_stack(np.zeros((2, 3, 3), np.complex64))
    assert not is_stack(np.zeros((2, 300, 3)))
    assert not is_stack(np.zeros((100, 100)))


def test_memory_is_checked() -> None:
    number = (np.zeros(1, np.intc), 0, False)
    for wrong in (
        (np.zeros(3), 16, False),
        (np.zeros((2, 2)).T, 8, False),
        (np.zeros(0), 0, False),
    ):
        with pytest.raises(ValueError, match="less memory"):
            call_lapack(0, 2, 1, (*[number] * 5, wrong))
    with pytest.raises(ValueError, match="7 arguments"):
        call_lapack(0, 2, 1, (number,) * 7)
