"""a[...], a[...] = v and a.at[...]: subscripts of every kind against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx
from ingot._native import placeholder
from ingot.graph.dimension import Guards, symbolic_shape

places = np.array  # an array of indices, made into one of the library that is indexed

SUBSCRIPTS = [
    (0,),
    (-1,),
    (np.int64(1),),
    (places(1),),
    (1, 2, 3),
    (slice(None),),
    (slice(1, None),),
    (slice(-2, None), slice(None, -1)),
    (slice(5, 1), 0),
    (slice(None, None, -1),),
    (slice(3, 0, -2), slice(None, None, 2)),
    (slice(-100, None, -1),),
    (slice(-1, -100, -3),),
    (slice(np.int64(1), np.int32(3)),),
    (None,),
    (None, 0, None, slice(1, 2)),
    (...,),
    (),
    (..., 0),
    (0, ..., 1),
    (slice(1, 3), ..., None),
    (None, ..., None, 2),
    (places([0, -1]),),
    ([0, 2],),
    ([[0, 1], [2, 0]],),
    (places([[0], [1]]), places([1, 2, 0])),
    (places([0, 1]), slice(None), places([1, 2])),
    (0, slice(None), places([1, 2])),
    (slice(None), 0, places([1, 2])),
    (slice(None), places([1, 2]), 0),
    (places([1, 2]), 0, places([1, 3])),
    (places([0, 1]), None, places([1, 2])),
    (None, places([0, 1])),
    (slice(1, 3), places([0, 1, 0])),
    (slice(None, None, -2), places([[0, 1]]), slice(1, 3)),
    (..., places([0, 3])),
    (places([0, 1]), ..., slice(2, 3)),
    (None, places([0, 1]), None, slice(None), None, places([[1], [2]])),
    (places(1), places([0, 1])),
    (np.zeros((0,), np.int64),),
    (np.zeros((2, 0), np.int64), slice(1, 2)),
    (places([1, 2], np.uint8), [0, 1]),
]

SHAPE = (4, 3, 5)


def indexed(m: Any, entries: tuple[Any, ...]) -> Any:
    """The subscript for a library: arrays of its own, and no tuple around a single entry."""
    made = tuple(
        m.array(entry) if isinstance(entry, np.ndarray) and entry.ndim else entry
        for entry in entries
    )
    return made[0] if len(made) == 1 else made


def numbers(dtype: Any = np.float32) -> np.ndarray:
    return np.arange(60).astype(dtype).reshape(SHAPE)


@pytest.mark.parametrize("entries", SUBSCRIPTS, ids=repr)
def test_getitem_matches_numpy_and_mlx(entries: tuple[Any, ...]) -> None:
    x = numbers()
    result = mx.array(x)[indexed(mx, entries)]
    expected = x[entries]
    assert result.shape == expected.shape
    assert result.dtype == mx.float32
    np.testing.assert_array_equal(value(result), expected)
    theirs = np.array(mlx.array(x)[indexed(mlx, entries)])
    assert theirs.shape == expected.shape
    np.testing.assert_array_equal(theirs, expected)


@pytest.mark.parametrize("entries", SUBSCRIPTS, ids=repr)
def test_setitem_matches_numpy(entries: tuple[Any, ...]) -> None:
    expected = numbers()
    shape = expected[entries].shape
    values = -1 - np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    result = mx.array(expected)
    result[indexed(mx, entries)] = mx.array(values)
    expected[entries] = values
    np.testing.assert_array_equal(value(result), expected)

    row = values[..., :1] if shape else values
    result[indexed(mx, entries)] = mx.array(row)
    expected[entries] = row
    result[indexed(mx, entries)] += 2
    expected[entries] += 2
    np.testing.assert_array_equal(value(result), expected)


@pytest.mark.parametrize("entries", SUBSCRIPTS, ids=repr)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
def test_updates_accumulate(entries: tuple[Any, ...], name: str) -> None:
    expected = numbers(np.float64)
    shape = expected[entries].shape
    values = doubles(*shape, seed=2) * 40
    x = exact(expected)
    result = getattr(x.at[indexed(mx, entries)], name)(exact(values))
    getattr(np, name).at(expected, entries, values)
    np.testing.assert_allclose(value(result), expected, rtol=1e-13)
    np.testing.assert_array_equal(value(x), numbers())  # x itself is unchanged


@pytest.mark.parametrize("entries", [entry for entry in SUBSCRIPTS if entry != ()], ids=repr)
def test_derivatives(entries: tuple[Any, ...]) -> None:
    place = indexed(mx, entries)
    x = doubles(*SHAPE)
    values = doubles(*x[entries].shape, seed=1)

    def assigned(a: Any, v: Any) -> Any:
        a = a * 1
        a[place] = v
        return a

    check_derivatives(lambda a: a[place], x, order=1)
    check_derivatives(assigned, x, values, order=1)
    check_derivatives(lambda a, v: a.at[place].add(v), x, values, order=1)
    check_derivatives(lambda a, v: a.at[place].multiply(v), x, values, order=2)


def test_vmap_over_arrays_and_indices() -> None:
    x = doubles(2, *SHAPE)
    rows, columns = places([[0, 1, -1], [2, 0, 0]]), places([[1, 1, 2], [0, 2, 0]])

    def read(a: Any, i: Any, j: Any) -> Any:
        return a[i, 1:, j]

    def assigned(a: Any, i: Any, j: Any) -> Any:
        a = a * 1
        a[i, ..., j] = mx.array([[1.0], [2.0], [3.0]])
        return a

    for function in (read, assigned):
        check_vmap(function, x, rows, columns, in_axes=[0, 0, 0])
        check_vmap(function, x[0], rows, columns, in_axes=[None, 0, 0])
        check_vmap(function, x, rows[0], columns, in_axes=[0, None, 0])
        check_vmap(function, x, rows[0], columns[0], in_axes=[0, None, None])


def test_an_ellipsis_for_no_axes_does_not_separate_as_with_mlx() -> None:
    x = numbers()
    shapes = [m.array(x)[:, m.array([[0, 1]]), ..., m.array([[1, 2]])].shape for m in (mx, mlx)]
    assert shapes == [(4, 1, 2), (4, 1, 2)]  # NumPy has (1, 2, 4)


def test_assignment_points_the_handle_elsewhere() -> None:
    a = mx.array([1.0, 2.0, 3.0])
    alias = a
    before = a * 2
    a[0] = 10
    assert alias.tolist() == [10, 2, 3]
    assert before.tolist() == [2, 4, 6]
    part = a[1:]
    part[0] = 7
    assert a.tolist() == [10, 2, 3]


ASSIGNMENTS = [
    ("int32", 0, 7.5),
    ("int32", 0, -1),
    ("int32", 0, True),
    ("int32", 0, 2j),
    ("int32", slice(None), [1.5, 2.5, -3.5]),
    ("float32", 0, float("nan")),
    ("float32", 0, 1j),
    ("float32", 1, [[[1.0, 2.0, 3.0]]]),
    ("float32", (0, slice(None)), [5.0]),
    ("float32", None, [1.0, 2.0, 3.0]),
    ("float32", (slice(None), None, 1), [[8.0], [9.0]]),
    ("float16", 0, 1e-3),
    ("bfloat16", 0, 3.3),
    ("bool_", 0, 5),
    ("uint8", 1, 255),
    ("complex64", 1, 2 - 1j),
    ("float32", ..., [[1.0], [2.0]]),
    ("float32", [0, 0], [[1.0], [2.0]]),
]


@pytest.mark.parametrize(("dtype", "index", "values"), ASSIGNMENTS)
def test_values_are_converted_as_by_mlx(dtype: str, index: Any, values: Any) -> None:
    def assigned(m: Any) -> Any:
        a = m.zeros((2, 3), getattr(m, dtype))
        a[index] = m.array(values) if isinstance(values, list) else values
        return a.astype(m.complex64 if dtype == "complex64" else m.float32)

    np.testing.assert_array_equal(np.array(assigned(mx)), np.array(assigned(mlx)))


def test_numpy_values() -> None:
    a = mx.zeros((2, 3))
    a[0] = np.array([1, 2, 3])
    a[1] = np.float64(2.5)
    assert a.tolist() == [[1, 2, 3], [2.5, 2.5, 2.5]]


UPDATES = [
    ("uint8", "subtract", 10),
    ("int32", "divide", 2),  # the reciprocal becomes an integer too
    ("int32", "divide", 0.5),
    ("bool_", "subtract", 2),
    ("int32", "add", 1.5),
    ("float16", "divide", 3),
    ("bool_", "add", True),
    ("bool_", "multiply", False),
    ("complex64", "multiply", 1 + 1j),
    ("complex64", "divide", 1 + 1j),
    ("complex64", "maximum", 1 + 1j),
]


@pytest.mark.parametrize(("dtype", "name", "values"), UPDATES)
@pytest.mark.parametrize("index", [[0, 0, 2], slice(0, 2), 1])
def test_updates_are_converted_as_by_mlx(dtype: str, name: str, values: Any, index: Any) -> None:
    def updated(m: Any) -> Any:
        a = m.array([7, 8, 9]).astype(getattr(m, dtype))
        place = m.array(index) if isinstance(index, list) else index
        result = getattr(a.at[place], name)(values)
        return result.astype(m.complex64 if dtype == "complex64" else m.float32)

    np.testing.assert_array_equal(np.array(updated(mx)), np.array(updated(mlx)))


ERRORS = [
    (lambda a: a[4], IndexError, "index 4 is out of range for an axis of length 4"),
    (lambda a: a[-5], IndexError, "index -5 is out of range for an axis of length 4"),
    (lambda a: a[0, 3], IndexError, "index 3 is out of range for an axis of length 3"),
    (lambda a: a[10**30], IndexError, "out of range"),
    (lambda a: a[0, 0, 0, 0], ValueError, "too many indices: 4 for an array with 3 axes"),
    (lambda a: mx.array(1)[0], ValueError, "too many indices: 1 for an array with 0 axes"),
    (lambda a: mx.array(1)[:], ValueError, "too many indices"),
    (lambda a: a[..., ...], ValueError, "only one ellipsis"),
    (lambda a: a[True], ValueError, "cannot be indexed with bool True"),
    (lambda a: a[1.5], ValueError, "float 1.5: indices are integers, use int"),
    (lambda a: a[0, "x"], ValueError, "cannot be indexed with str 'x'"),
    (lambda a: a[np.array([0, 1])], ValueError, "make it an array first"),
    (lambda a: a[range(2)], ValueError, "cannot be indexed with range"),
    (lambda a: a[mx.array([0.5])], ValueError, "indices must be integers, got dtype float32"),
    (lambda a: a[[]], ValueError, "indices must be integers, got dtype float32"),
    (lambda a: a[::0], ValueError, "step of a slice cannot be 0"),
    (lambda a: a[1.0:2], ValueError, "ints or None"),
    (lambda a: a[1:2:"x"], ValueError, "ints or None"),
    (lambda a: a[mx.array([0, 1]), mx.array([0, 1, 2])], ValueError, "cannot be broadcast"),
    (lambda a: mx.zeros((0, 3))[0], IndexError, "out of range for an axis of length 0"),
    (lambda a: mx.zeros((0, 3))[mx.array([0])], ValueError, "has no elements to index"),
    (lambda a: a.__setitem__(4, 1), IndexError, "index 4 is out of range"),
    (lambda a: a.__setitem__(0, None), TypeError, "got None"),
    (lambda a: a.__setitem__(0, "x"), ValueError, "got str"),
    (lambda a: a.__setitem__(0, [1, 2, 3]), ValueError, "got list"),
    (lambda a: a.__setitem__(0, mx.zeros((2,))), ValueError, r"\(2\) do not broadcast to shape"),
    (lambda a: a.__setitem__((0, True), 1), ValueError, "cannot be indexed with bool"),
    (lambda a: a.at[True].add(1), ValueError, "cannot be indexed with bool"),
    (lambda a: a.at[mx.array([True] * 7)].add(1), ValueError, "does not match the axes"),
    (lambda a: a.at[0].add(None), TypeError, "got None"),
    (lambda a: (a > 0).at[0].subtract(True), ValueError, "negative"),
]


@pytest.mark.parametrize(("call", "error", "message"), ERRORS)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(mx.zeros(SHAPE))


BOUNDS = [None, *range(-6, 7)]


@pytest.mark.parametrize("length", range(5))
@pytest.mark.parametrize("step", [None, 1, 2, 3, -1, -2, -3])
def test_all_slices_of_short_axes(length: int, step: int | None) -> None:
    x = np.arange(length)
    a = mx.array(x)
    for start in BOUNDS:
        for stop in BOUNDS:
            assert a[start:stop:step].tolist() == x[start:stop:step].tolist()


SYMBOLIC = [
    (lambda x: x[0], (5, 6)),
    (lambda x: x[-1], (5, 6)),
    (lambda x: x[1:, :-1], (3, 4, 6)),
    (lambda x: x[::-1, ..., 0], (4, 5)),
    (lambda x: x[::2, None], (2, 1, 5, 6)),
    (lambda x: x[:, mx.array([0, 1, 1])], (4, 3, 6)),
    (lambda x: x.at[1:].add(1), (4, 5, 6)),
]


@pytest.mark.parametrize(("function", "shape"), SYMBOLIC)
def test_lengths_stay_symbolic(function: Any, shape: tuple[int, ...]) -> None:
    guards = Guards()
    x = placeholder(symbolic_shape(0, (4, 5, 6), guards), mx.float32)
    result = function(x)
    assert guards.broken_by(guards.values([(40, 50, 60)])) is None
    assert result.shape == shape  # last, since it notes what it compares


def test_an_int_that_does_not_fit_is_refused() -> None:
    a = mx.zeros((3,), mx.int32)
    with pytest.raises(ValueError, match="3000000000"):
        a[0] = 3_000_000_000


def test_indices_out_of_range_raise_when_evaluated() -> None:
    a = mx.zeros((3, 4))
    result = a[mx.array([0, 1]), mx.array([1, 4])]
    with pytest.raises(IndexError, match="index 4 is out of range for an axis of length 4"):
        mx.eval(result)
    a[mx.array([-4])] = 1
    with pytest.raises(IndexError, match="index -4 is out of range for an axis of length 3"):
        mx.eval(a)


def test_at_is_a_class_of_its_own() -> None:
    a = mx.zeros((3,))
    assert isinstance(a.at, mx.ArrayAt)
    assert isinstance(a.at[0], mx.ArrayAt)
