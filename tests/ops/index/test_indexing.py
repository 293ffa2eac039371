"""Gathers, scatters, and the functions take, take_along_axis and put_along_axis."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx
from ingot.graph.op import apply
from ingot.ops.index.along_axis import PutAlongAxis, TakeAlongAxis
from ingot.ops.index.indexing import Put, Take

SHAPE = (3, 4, 2, 5)
PAIR = (3, 2)  # the shape of the indices below


def indices_for(axes: tuple[int, ...], *batch: int) -> list[np.ndarray]:
    """Indices of those axes of an array of SHAPE, with repetitions and negative ones."""
    rng = np.random.default_rng(3)
    return [rng.integers(-SHAPE[axis], SHAPE[axis], (*batch, *PAIR)) for axis in axes]


def subscript(axes: tuple[int, ...], indices: list[np.ndarray]) -> tuple[Any, ...]:
    """NumPy's subscript for the same elements."""
    entries: list[Any] = [slice(None)] * len(SHAPE)
    for axis, index in zip(axes, indices, strict=True):
        entries[axis] = index
    return tuple(entries)


AXES = [(0,), (1,), (3,), (1, 2), (0, 1), (0, 2), (1, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize("axes", AXES)
def test_gather(axes: tuple[int, ...]) -> None:
    x, indices = doubles(*SHAPE), indices_for(axes)
    expected = x[subscript(axes, indices)]
    places = [mx.array(index) for index in indices]
    result = apply(Take(axes), exact(x), *places)
    assert result.shape == expected.shape
    np.testing.assert_array_equal(value(result), expected)
    check_derivatives(lambda a: apply(Take(axes), a, *places), x)


@pytest.mark.parametrize("axes", AXES)
def test_vmap_of_gather(axes: tuple[int, ...]) -> None:
    def function(x: Any, *indices: Any) -> Any:
        return apply(Take(axes), x, *indices)

    x, indices, some = doubles(2, *SHAPE), indices_for(axes, 2), indices_for(axes)
    count = len(axes)
    check_vmap(function, x, *indices, in_axes=[0] * (1 + count))
    check_vmap(function, x[0], *indices, in_axes=[None] + [0] * count)
    check_vmap(function, x, *some, in_axes=[0] + [None] * count)
    check_vmap(function, x, indices[0], *some[1:], in_axes=[0, 0] + [None] * (count - 1))
    check_vmap(function, x, *some[:-1], indices[-1], in_axes=[0] + [None] * (count - 1) + [0])


@pytest.mark.parametrize("mode", ["assign", "add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("axes", AXES)
def test_scatter(axes: tuple[int, ...], mode: str) -> None:
    x, indices = doubles(*SHAPE), indices_for(axes)
    place = subscript(axes, indices)
    updates = doubles(*x[place].shape, seed=1) * 1.1
    expected = x.copy()
    if mode == "assign":
        expected[place] = updates
    else:
        getattr(np, mode).at(expected, place, updates)
    places = [mx.array(index) for index in indices]
    op = Put(axes, mode)
    result = apply(op, exact(x), exact(updates), *places)
    np.testing.assert_allclose(value(result), expected, rtol=1e-14)
    if len(axes) < 4:
        # Maximum and minimum have no second derivative, but the square does.
        check_derivatives(lambda a, b: apply(op, a, b, *places), x, updates)


@pytest.mark.parametrize("mode", ["assign", "add", "maximum"])
@pytest.mark.parametrize("axes", AXES)
def test_vmap_of_scatter(axes: tuple[int, ...], mode: str) -> None:
    def function(x: Any, updates: Any, *indices: Any) -> Any:
        return apply(Put(axes, mode), x, updates, *indices)

    x, indices, some = doubles(2, *SHAPE), indices_for(axes, 2), indices_for(axes)
    updates = doubles(2, *x[0][subscript(axes, some)].shape, seed=1)
    count = len(axes)
    check_vmap(function, x, updates, *indices, in_axes=[0] * (2 + count))
    check_vmap(function, x, updates, *some, in_axes=[0, 0] + [None] * count)
    check_vmap(function, x[0], updates, *some, in_axes=[None, 0] + [None] * count)
    check_vmap(function, x[0], updates[0], *indices, in_axes=[None, None] + [0] * count)
    check_vmap(function, x, updates[0], *some, in_axes=[0, None] + [None] * count)


def test_scatter_products_with_zeros_have_derivatives() -> None:
    places = mx.array([0, 0, 1, 1, 2])

    def function(x: Any, updates: Any) -> Any:
        return apply(Put((0,), "multiply"), x, updates, places)

    x = doubles(4)
    check_derivatives(function, x, np.array([0.0, 2.0, 0.0, 0.0, 3.0]), order=1)


@pytest.mark.parametrize("mode", ["maximum", "minimum"])
def test_ties_of_scattered_extremes_count_for_all_as_with_mlx(mode: str) -> None:
    def pulled(m: Any) -> list[list[float]]:
        def function(x: Any, updates: Any) -> Any:
            return getattr(x.at[m.array([0, 0, 1, 2])], mode)(updates)

        primals = [m.array([2.0, 2.0, 2.0]), m.array([2.0, 2.0, 1.0, 3.0])]
        parts = m.vjp(function, primals, [m.array([1.0, 10.0, 100.0])])[1]
        return [part.tolist() for part in parts]

    assert pulled(mx) == pulled(mlx)


@pytest.mark.parametrize("dtype", ["bool_", "uint8", "int32", "float16", "bfloat16", "complex64"])
@pytest.mark.parametrize("mode", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("count", [50, 3000])  # updates by ufunc.at, and in bulk
def test_scatters_of_all_kinds_match_numpy(dtype: str, mode: str, count: int) -> None:
    rng = np.random.default_rng(0)
    x, updates = rng.integers(0, 2, (40, 3)), rng.integers(0, 2, (count, 3))
    rows = rng.integers(-40, 40, count)
    kind = getattr(mx, dtype)
    arrays = mx.array(x).astype(kind), mx.array(updates).astype(kind), mx.array(rows)
    result = apply(Put((0,), mode), *arrays)
    expected = x.astype(bool if dtype == "bool_" else np.int64)
    getattr(np, mode).at(expected, rows, updates.astype(expected.dtype))
    assert result.dtype == kind
    np.testing.assert_array_equal(
        value(result.astype(mx.int32)), expected.astype(np.uint8 if dtype == "uint8" else int)
    )


def test_half_sums_do_not_stall() -> None:
    # In bfloat16, 256 + 1 is 256.
    ones = mx.ones((1000,), mx.bfloat16)
    result = mx.zeros((1,), mx.bfloat16).at[mx.zeros((1000,), mx.int32)].add(ones)
    assert result.astype(mx.float32).tolist() == [1000.0]


ALONG = [
    ((3, 4), (3, 2), 1),
    ((3, 4), (5, 4), 0),
    ((3, 4), (1, 6), -1),
    ((1, 4), (3, 2), 1),
    ((2, 3, 4), (2, 1, 4), 1),
    ((2, 3, 4), (1, 1, 3), 2),
    ((6,), (0,), 0),
]


@pytest.mark.parametrize(("shape", "index_shape", "axis"), ALONG)
def test_take_along_axis(shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int) -> None:
    x = doubles(*shape)
    index = np.random.default_rng(2).integers(-shape[axis], shape[axis], index_shape)

    def function(a: Any, i: Any) -> Any:
        return mx.take_along_axis(a, i, axis)

    result = value(function(exact(x), mx.array(index)))
    theirs = mlx.take_along_axis(mlx.array(x), mlx.array(index), axis)
    np.testing.assert_array_equal(result.astype(np.float32), np.array(theirs))
    check_derivatives(lambda a: function(a, mx.array(index)), x)
    check_vmap(function, np.stack([x, x + 1]), np.stack([index, -1 - index]), in_axes=[0, 0])
    check_vmap(function, x, np.stack([index, -1 - index], -1), in_axes=[None, -1])
    check_vmap(function, np.stack([x, x + 1]), index, in_axes=[0, None])


@pytest.mark.parametrize(("shape", "index_shape", "axis"), ALONG)
@pytest.mark.parametrize("mode", ["assign", "add"])
def test_scatter_axis(
    shape: tuple[int, ...], index_shape: tuple[int, ...], axis: int, mode: str
) -> None:
    axis %= len(shape)
    kept = list(np.broadcast_shapes(_without(shape, axis), _without(index_shape, axis)))
    x = doubles(*kept[:axis], shape[axis], *kept[axis:])
    index = np.random.default_rng(2).integers(
        -shape[axis], shape[axis], (*kept[:axis], index_shape[axis], *kept[axis:])
    )
    updates = doubles(*index.shape, seed=1)
    op = PutAlongAxis(axis, mode)

    def function(a: Any, b: Any, i: Any) -> Any:
        return apply(op, a, b, i)

    expected = x.copy()
    if mode == "assign":
        np.put_along_axis(expected, index, updates, axis)
    else:
        grid = list(np.indices(index.shape, sparse=True))
        grid[axis] = index
        np.add.at(expected, tuple(grid), updates)
    result = function(exact(x), exact(updates), mx.array(index))
    np.testing.assert_allclose(value(result), expected, rtol=1e-14)
    check_derivatives(lambda a, b: function(a, b, mx.array(index)), x, updates)
    pairs = [np.stack([x, x + 1]), np.stack([updates, -updates]), np.stack([index, -1 - index])]
    check_vmap(function, *pairs, in_axes=[0, 0, 0])
    check_vmap(function, x, pairs[1], index, in_axes=[None, 0, None])
    check_vmap(function, x, updates, pairs[2], in_axes=[None, None, 0])


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


PUTS = [
    ((3, 4), [[0, 1], [2, -1], [3, 3]], 1, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
    ((3, 4), [[0, 1]], 1, 7.0),
    ((3, 4), [0, -1, 5], None, [1.0, 2.0, 3.0]),
    ((1, 4), [[0], [1], [2]], 1, [[1.0], [2.0], [3.0]]),
    ((6,), [0, 1, 1], 0, [1, 2, 5]),
]


@pytest.mark.parametrize(("shape", "index", "axis", "values"), PUTS)
def test_put_along_axis_matches_mlx(
    shape: tuple[int, ...], index: Any, axis: int | None, values: Any
) -> None:
    results = [
        np.array(m.put_along_axis(m.zeros(shape), m.array(index), m.array(values), axis))
        for m in (mx, mlx)
    ]
    np.testing.assert_array_equal(*results)


def test_the_gradient_of_repeated_assignments_goes_to_the_one_that_stays() -> None:
    def put(x: Any, v: Any) -> Any:
        return mx.put_along_axis(x, mx.array([0, 0, 1]), v, 0)

    cotangent = mx.array([1.0, 10.0, 100.0])
    pulled = mx.vjp(put, [mx.zeros(3), mx.ones(3)], [cotangent])[1]
    assert [part.tolist() for part in pulled] == [[0, 0, 100], [0, 1, 10]]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("indices", [1, 0, [1, 0], [[1, -1], [0, 0]], [], True])
def test_take_matches_mlx(axis: int | None, indices: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)

    def taken(m: Any) -> np.ndarray:
        places = m.array(indices, m.int32) if isinstance(indices, list) else indices
        return np.array(m.take(m.array(x), places, axis))

    np.testing.assert_array_equal(taken(mx), taken(mlx))


def test_take_counts_negative_ints_from_the_end() -> None:
    assert mx.take(mx.array([1, 2, 3]), -1).item() == 3


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "int8", "int16", "int64"])
def test_indices_of_all_integer_dtypes(dtype: str) -> None:
    index = mx.array([2, 0]).astype(getattr(mx, dtype))
    x = mx.array([1.0, 2.0, 3.0])
    assert mx.take(x, index).tolist() == [3, 1]
    assert mx.take_along_axis(x, index, 0).tolist() == [3, 1]
    assert x.at[index].add(1).tolist() == [2, 2, 4]


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: mx.take(x, i),
        lambda x, i: mx.take_along_axis(x, i, 0),
        lambda x, i: mx.put_along_axis(x, i, mx.array(1.0), 0),
        lambda x, i: x.at[i].add(1),
        lambda x, i: mx.vmap(lambda y: mx.take(x, y))(i),
    ],
)
@pytest.mark.parametrize("index", [3, -4, 2**31 - 1])
def test_indices_out_of_range_raise_when_evaluated(call: Any, index: int) -> None:
    result = call(mx.array([1.0, 2.0, 3.0]), mx.array([0, index]))
    with pytest.raises(IndexError, match=rf"index {index} is out of range for an axis of length 3"):
        mx.eval(result)


ERRORS = [
    (
        lambda a: mx.take(a, mx.array([1.0])),
        ValueError,
        "indices must be integers, got dtype float32",
    ),
    (
        lambda a: mx.take(a, mx.array([True])),
        ValueError,
        "indices must be integers, got dtype bool",
    ),
    (lambda a: mx.take(a, [1, 2]), TypeError, "an int or an array, got list"),
    (lambda a: mx.take(a, 1.0), TypeError, "got float"),
    (lambda a: mx.take([1], 0), TypeError, "a must be an array"),
    (lambda a: mx.take(a, 0, 2), IndexError, "axis 2 is out of range"),
    (lambda a: mx.take(a, 6), IndexError, "index 6 is out of range for an axis of length 6"),
    (lambda a: mx.take(mx.zeros((0,)), mx.array([0])), ValueError, "has no elements to index"),
    (lambda a: mx.take_along_axis(a, mx.array([0]), 0), ValueError, "indices with 1 axes"),
    (lambda a: mx.take_along_axis(a, mx.array([[0]]), 2), IndexError, "axis 2 is out of range"),
    (lambda a: mx.take_along_axis(a, mx.array([[0.5]])), RuntimeError, "indices must be integers"),
    (lambda a: mx.take_along_axis(a, [[0]]), TypeError, "indices must be an array"),
    (
        lambda a: mx.take_along_axis(a, mx.zeros((5, 1), mx.int32)),
        ValueError,
        "cannot be broadcast",
    ),
    (lambda a: mx.put_along_axis(a, mx.array([[0]]), 1, 0), TypeError, "values must be an array"),
    (
        lambda a: mx.put_along_axis(a, mx.array([[0]]), mx.zeros((2, 2)), 0),
        ValueError,
        "cannot be broadcast|do not broadcast",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(mx.zeros((2, 3)))


def test_ops_with_equal_parameters_are_equal() -> None:
    assert Take((0, 2)) == Take((0, 2))
    assert Put((0,), "add") != Put((0,), "assign")
    assert hash(TakeAlongAxis(1)) == hash(TakeAlongAxis(1))


BEYOND_INT64 = {
    "subscript": lambda a, i: a[i],
    "two subscripts": lambda a, i: mx.reshape(a, (2, 5))[mx.zeros_like(i), i],
    "assignment": lambda a, i: a.at[i].add(1),
    "take": lambda a, i: mx.take(a, i),
    "take_along_axis": lambda a, i: mx.take_along_axis(a, i, 0),
    "put_along_axis": lambda a, i: mx.put_along_axis(a, i, mx.array([1]), 0),
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", BEYOND_INT64)
def test_large_unsigned_indices_do_not_count_from_the_end(name: str, compiled: bool) -> None:
    function = mx.compile(BEYOND_INT64[name]) if compiled else BEYOND_INT64[name]
    a = mx.arange(10)
    mx.eval(function(a, mx.array(np.array([4], np.uint64))))
    with pytest.raises(IndexError, match="index 18446744073709551615 is out of range"):
        mx.eval(function(a, mx.array(np.array([2**64 - 1], np.uint64))))


def test_large_sums_with_symbolic_shapes_have_the_same_bits() -> None:
    def added(x: mx.array, rows: mx.array, updates: mx.array) -> mx.array:
        return x.at[rows].add(updates)

    shapeless = mx.compile(added, shapeless=True)
    rng = np.random.default_rng(0)
    # few updates are a loop nest; many are native, to a large table in order, to a small in parts
    for count, height, width in [(50, 7, 40), (30_000, 20_000, 40), (30_000, 500, 40)]:
        rows = rng.integers(-height, height, count)
        x, updates = (rng.normal(size=(n, width)).astype(np.float32) for n in (height, count))
        given = mx.array(x), mx.array(rows), mx.array(updates)
        expected = x.astype(np.float64)
        np.add.at(expected, rows, updates)
        result = np.array(shapeless(*given))
        np.testing.assert_array_equal(result, np.array(added(*given)))
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)
