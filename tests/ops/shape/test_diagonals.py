"""Diagonals and triangles against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx

OFFSETS = [0, 1, 2, -1, -2, 5, -5]


@pytest.mark.parametrize("k", OFFSETS)
@pytest.mark.parametrize("shape", [(3,), (3, 4), (4, 3), (3, 3)])
def test_diag(shape: tuple[int, ...], k: int) -> None:
    x = doubles(*shape)
    np.testing.assert_array_equal(value(mx.diag(exact(x), k)), np.diag(x, k))
    check_derivatives(lambda a: mx.diag(a, k), x)
    check_vmap(lambda a: mx.diag(a, k), doubles(5, *shape), in_axes=[0])


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("axes", [(0, 1), (1, 0), (2, 0), (-1, -2)])
def test_diagonal_and_trace(offset: int, axes: tuple[int, int]) -> None:
    x = doubles(3, 2, 4)
    a = exact(x)
    np.testing.assert_array_equal(value(mx.diagonal(a, offset, *axes)), x.diagonal(offset, *axes))
    np.testing.assert_allclose(value(mx.trace(a, offset, *axes)), x.trace(offset, *axes))
    check_derivatives(lambda b: mx.diagonal(b, offset, *axes), x)
    check_derivatives(lambda b: mx.trace(b, offset, *axes), x)
    check_vmap(lambda b: mx.diagonal(b, offset, *axes), doubles(3, 2, 5, 4), in_axes=[2])


def test_diagonals_are_views() -> None:
    x = exact(doubles(3, 4))
    assert np.shares_memory(mx.diagonal(x)._data, x._data)


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int8", "uint16", "int64", "float16"])
@pytest.mark.parametrize("given", [None, "int8", "float32"])
def test_dtype_of_traces(dtype: str, given: str | None) -> None:
    x = [[1, 0], [1, 1]]
    ours = mx.trace(
        mx.array(x, getattr(mx, dtype)), dtype=None if given is None else getattr(mx, given)
    )
    theirs = mlx.trace(
        mlx.array(x, getattr(mlx, dtype)), dtype=None if given is None else getattr(mlx, given)
    )
    assert f"mlx.core.{ours.dtype}".endswith(str(theirs.dtype).rsplit(".", 1)[-1])
    assert ours.item() == theirs.item()


@pytest.mark.parametrize("k", OFFSETS)
def test_triangles(k: int) -> None:
    x = doubles(2, 3, 4)
    np.testing.assert_array_equal(value(mx.tril(exact(x), k)), np.tril(x, k))
    np.testing.assert_array_equal(value(mx.triu(exact(x), k)), np.triu(x, k))
    check_derivatives(lambda a: mx.tril(a, k), x)
    check_vmap(lambda a: mx.triu(a, k), doubles(3, 5, 4), in_axes=[1])


def test_triangles_cut_off_what_is_not_a_number() -> None:
    x = mx.array([[1.0, np.nan], [np.inf, 2.0]])
    assert mx.tril(x).tolist() == [[1.0, 0.0], [np.inf, 2.0]]
    assert mx.triu(x, 1).tolist()[1] == [0.0, 0.0]


@pytest.mark.parametrize("k", OFFSETS)
@pytest.mark.parametrize(("n", "m"), [(3, None), (3, 4), (4, 3), (0, None), (2, 0)])
def test_ones_on_and_below_diagonals(n: int, m: int | None, k: int) -> None:
    np.testing.assert_array_equal(value(mx.eye(n, m, k)), np.eye(n, m, k))
    np.testing.assert_array_equal(value(mx.tri(n, m, k)), np.tri(n, m, k))


def test_dtypes_of_new_matrices() -> None:
    assert mx.eye(2).dtype is mx.eye(2, dtype=None).dtype is mx.tri(2).dtype is mx.float32
    assert mx.identity(2, mx.int8).dtype is mx.int8
    assert mx.tri(2, dtype=mx.bool_).tolist() == [[True, False], [True, True]]
    assert mx.tri(-1).shape == (0, 0)


V = mx.arange(3)
M = mx.reshape(mx.arange(6), (2, 3))

ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mx.diag(mx.array(1.0)),
        ValueError,
        "[diag] takes an array with 1 or 2 axes, got shape ().",
    ),
    (lambda: mx.diag(M, 1.0), TypeError, "[diag] k must be an int, got float: 1.0."),
    (lambda: mx.diagonal(V), ValueError, "[diagonal] needs at least 2 axes, got shape (3)."),
    (
        lambda: mx.diagonal(M, 0, 1, -1),
        ValueError,
        "[diagonal] axis1 and axis2 must differ, but both are axis 1.",
    ),
    (
        lambda: mx.trace(M, 0, 0, 2),
        IndexError,
        "[trace] axis 2 is out of range for an array with 2 axes.",
    ),
    (lambda: mx.tril(V), ValueError, "[tril] needs at least 2 axes, got shape (3)."),
    (lambda: mx.eye(2, -1), ValueError, "[eye] a matrix cannot have the shape (2, -1)."),
    (
        lambda: mx.tri(2.0),
        TypeError,
        "[tri] n must be an int, got float: 2.0.",
    ),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
