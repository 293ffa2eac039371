"""Concatenating, stacking, splitting, tiling, repeating and rolling against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx

FUNCTIONS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda m, x: m.concatenate([x, x * 2, m.ones((2, 1), dtype=x.dtype)], 1), (2, 3)),
    (lambda m, x: m.concat([x, x * x], None), (2, 3)),
    (lambda m, x: m.concatenate([x]), (2, 3)),
    (lambda m, x: m.stack([x, x * x], -1), (2, 3)),
    (lambda m, x: m.stack([x, x], 1), (2, 3)),
    (lambda m, x: m.unstack(x, axis=1)[1], (2, 3)),
    (lambda m, x: m.split(x, 2, 1)[1], (2, 4)),
    (lambda m, x: m.concatenate(m.split(x, [3, 1, -1], 1)[::-1], 1), (2, 4)),
    (lambda m, x: m.tile(x, (2, 1, 3)), (2, 3)),
    (lambda m, x: m.tile(x, 2), (2, 3)),
    (lambda m, x: m.repeat(x, 3, 1), (2, 3)),
    (lambda m, x: m.repeat(x, 2), (2, 3)),
    (lambda m, x: m.roll(x, (1, -2), (0, 1)), (3, 4)),
    (lambda m, x: m.roll(x, 5), (3, 4)),
    (lambda m, x: m.roll(x, (1, 2), -1), (3, 4)),
    (lambda m, x: m.meshgrid(x, x * 2, indexing="ij")[1], (3,)),
    (lambda m, x: m.meshgrid(x, m.ones(2, dtype=x.dtype))[0], (3,)),
]


@pytest.mark.parametrize(("function", "shape"), FUNCTIONS)
def test_values_and_rules(function: Any, shape: tuple[int, ...]) -> None:
    x = doubles(*shape)
    single = x.astype(np.float32)
    expected = np.array(function(mlx, mlx.array(single)))
    result = value(function(mx, mx.array(single)))
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    check_derivatives(lambda a: function(mx, a), x)
    check_vmap(lambda a: function(mx, a), doubles(5, *shape), in_axes=[0])


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 1)])
def test_concatenate_of_partly_batched_arrays(in_axes: Any) -> None:
    inputs = [
        doubles(4, 3, seed=n) if axis is None else doubles(4, 4, 3, seed=n)
        for n, axis in enumerate(in_axes)
    ]
    check_vmap(lambda a, b: mx.concatenate([a, b], 1), *inputs, in_axes=in_axes)


def test_derivatives_of_several_inputs() -> None:
    check_derivatives(lambda a, b: mx.concatenate([a, b * b], 1), doubles(2, 3), doubles(2, 1))


def test_tangents_of_constants_are_zero_and_not_nan() -> None:
    constant = mx.array([np.inf, np.nan])
    x = mx.array([1.0])
    tangent = mx.jvp(lambda a: mx.concatenate([a, constant]), [x], [x])[1][0]
    assert tangent.tolist() == [1.0, 0.0, 0.0]


def test_dtypes_promote() -> None:
    parts = [mx.array([1], mx.int8), mx.array([2.5], mx.float16), mx.array([True])]
    joined = mx.concatenate(parts)
    assert joined.dtype is mx.float16
    assert joined.tolist() == [1.0, 2.5, 1.0]
    half = [mx.array([1.0], mx.float16), mx.array([1.0], mx.bfloat16)]
    assert mx.stack(half).dtype is mx.float32


def test_many_arrays() -> None:
    parts = [mx.array([float(n)]) for n in range(500)]
    assert mx.concatenate(parts).tolist() == [float(n) for n in range(500)]


def test_an_array_stands_for_its_rows() -> None:
    rows = mx.array([[1, 2], [3, 4]])
    assert mx.concatenate(rows).tolist() == [1, 2, 3, 4]
    assert mx.stack(rows, 1).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("places", [[], [2], [-2], [3, 1], [0, 9], [-20, 4], [2, -1, 4]])
def test_split_places_are_those_of_slices(places: list[int]) -> None:
    x = np.arange(6)
    parts = [value(part).tolist() for part in mx.split(mx.array(x), places)]
    starts, stops = [None, *places], [*places, None]
    assert parts == [x[a:b].tolist() for a, b in zip(starts, stops, strict=True)]


def test_equal_splits_share_their_ops() -> None:
    x = mx.arange(12).reshape(3, 4)
    first, second = ([part._node.op for part in mx.split(x, [1, 3], 1)] for _ in range(2))
    assert all(a is b for a, b in zip(first, second, strict=True))
    assert len(set(first)) == 3
    rows = [[row._node.op for row in x] for _ in range(2)]
    assert all(a is b for a, b in zip(*rows, strict=True))
    by_columns = mx.compile(lambda x: mx.split(x, [1], 1)[1], shapeless=True)
    for columns in (2, 3, 5, 4):
        assert by_columns(mx.ones((2, columns))).shape == (2, columns - 1)


def test_splits_are_views() -> None:
    x = exact(doubles(4, 6))
    left, right = mx.split(x, 2, 1)
    mx.eval(left, right)
    assert np.shares_memory(left._data, x._data)
    assert np.shares_memory(right._data, x._data)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(sparse: bool, indexing: Any) -> None:
    arrays = [np.arange(n, dtype=np.float32) for n in (2, 3, 4)]
    expected = np.meshgrid(*arrays, sparse=sparse, indexing=indexing)
    grids = mx.meshgrid(*map(mx.array, arrays), sparse=sparse, indexing=indexing)
    assert isinstance(grids, tuple)
    for grid, right in zip(grids, expected, strict=True):
        np.testing.assert_array_equal(value(grid), right)


A = mx.arange(6)
B = mx.reshape(A, (2, 3))

ERRORS: list[tuple[Any, type[Exception], str]] = [
    (lambda: mx.concatenate([]), ValueError, "[concatenate] needs at least one array."),
    (
        lambda: mx.concatenate([1]),
        TypeError,
        "[concatenate] arrays must be a sequence of arrays, got list: [1].",
    ),
    (
        lambda: mx.concatenate({}),
        TypeError,
        "[concatenate] arrays must be a sequence of arrays, got dict: {}.",
    ),
    (
        lambda: mx.concatenate([A, B]),
        ValueError,
        "[concatenate] arrays must have equally many axes, got shapes (6) and (2, 3).",
    ),
    (
        lambda: mx.concatenate([B, B.T]),
        ValueError,
        "[concatenate] shapes (2, 3) and (3, 2) differ in more than axis 0.",
    ),
    (
        lambda: mx.concatenate([B, B], 2),
        IndexError,
        "[concatenate] axis 2 is out of range for an array with 2 axes.",
    ),
    (
        lambda: mx.stack([A, B]),
        ValueError,
        "[stack] arrays must have equal shapes, got (6) and (2, 3).",
    ),
    (
        lambda: mx.split(A, 4),
        ValueError,
        "[split] axis 0 of shape (6) does not divide into 4 equal parts: "
        "give the indices at which to split.",
    ),
    (
        lambda: mx.split(A, 0),
        ValueError,
        "[split] the number of parts must be positive, got 0.",
    ),
    (
        lambda: mx.tile(A, (2, -1)),
        ValueError,
        "[tile] an array cannot be repeated (2, -1) times.",
    ),
    (
        lambda: mx.repeat(A, -1),
        ValueError,
        "[repeat] the number of repeats cannot be negative, got -1.",
    ),
    (
        lambda: mx.repeat(A, [1, 2]),
        TypeError,
        "[repeat] repeats must be an int, got list: [1, 2].",
    ),
    (
        lambda: mx.roll(B, (1,), (0, 1)),
        ValueError,
        "[roll] 2 axes need as many shifts, got (1) for axes (0, 1).",
    ),
    (
        lambda: mx.meshgrid(A, indexing="zz"),
        ValueError,
        '[meshgrid] indexing is "xy" or "ij", got \'zz\'.',
    ),
    (lambda: mx.meshgrid(A, 2), RuntimeError, "[meshgrid] takes arrays, got int: 2."),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
