"""Sort and partition, the orders behind them, largest elements, medians, binary search."""

from __future__ import annotations

import mlx.core as oracle
import numpy as np
import pytest
from tests.ops.rule_checks import check_derivatives, check_vmap, numbers

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()


def _values(dtype: str, shape: tuple[int, ...]) -> mx.array:
    """Many ties, and for floating-point dtypes NaN, infinities and both zeros."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, shape).astype(np.float32)
    if dtype.startswith(("int", "float", "bfloat", "complex")):
        values -= 4
    if dtype.startswith(("float", "bfloat")):
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, -np.nan]
        values = np.where(rng.random(shape) < 0.3, rng.choice(special, shape), values)
    if dtype == "complex64":
        values = values + 1j * rng.integers(-2, 2, shape)
    return mx.array(values).astype(getattr(mx, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [7, 300, 2500])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_sort_and_argsort_are_stable_with_nan_last(
    dtype: str, length: int, axis: int | None
) -> None:
    shape = (5, length) if axis else (length, 5)
    x = _values(dtype, shape)
    plain = numbers(x).reshape(-1) if axis is None else numbers(x)
    order = np.argsort(plain, axis or 0, kind="stable")
    ours = mx.argsort(x, axis)
    assert ours.dtype == mx.uint32
    np.testing.assert_array_equal(numbers(ours), order)
    np.testing.assert_array_equal(numbers(mx.sort(x, axis)), np.sort(plain, axis or 0))
    assert mx.sort(x, axis).dtype == x.dtype


def test_float16_with_negative_numbers_and_many_ties() -> None:
    """What NumPy's vectorised sort of float16 leaves unsorted on some processors."""
    numbers = np.random.default_rng(0).integers(-10, 10, 20_000)
    found = np.array(mx.sort(mx.array(numbers).astype(mx.float16)))
    np.testing.assert_array_equal(found, np.sort(numbers).astype(np.float16))


def test_extreme_integers() -> None:
    for dtype in ("uint32", "int32", "uint64", "int64"):
        limits = np.iinfo(dtype)
        x = np.array([limits.max, limits.min, limits.max // 2, limits.min, 5] * 40, dtype)
        order = np.argsort(x, kind="stable")
        np.testing.assert_array_equal(np.array(mx.argsort(mx.array(x))), order)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kth", [0, 3, -1, -4])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_partition(dtype: str, kth: int, axis: int | None) -> None:
    x = _values(dtype, (20, 20))
    plain = numbers(x).reshape(-1) if axis is None else numbers(x)
    along = axis or 0
    ordered = np.moveaxis(np.sort(plain, along), along, -1)
    place = mx.argpartition(x, kth, axis)
    assert place.dtype == mx.uint32
    by_place = np.take_along_axis(plain, numbers(place), along)
    for result in (numbers(mx.partition(x, kth, axis)), by_place):
        rows = np.moveaxis(result, along, -1)
        np.testing.assert_array_equal(rows[..., kth], ordered[..., kth])
        np.testing.assert_array_equal(np.sort(rows[..., :kth]), ordered[..., :kth])
        np.testing.assert_array_equal(np.sort(rows), ordered)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float16", "float32"])
@pytest.mark.parametrize("length", [1, 2, 9, 31, 32, 33, 65, 257, 1000, 2049, 5000])
def test_partition_of_rows_of_every_kind(length: int, dtype: str) -> None:
    rng = np.random.default_rng(length)
    rows = [
        rng.integers(0, 200, length),
        rng.integers(0, 2, length),
        np.full(length, 7),
        np.arange(length) % 199,
        np.arange(length)[::-1] % 199,
        np.where(rng.random(length) < 0.02, rng.integers(0, 200, length), 3),
    ]
    x = np.array(rows).astype(dtype)
    for kth in {0, length // 9, length // 2, length - 1 - length // 100, length - 1}:
        found = np.array(mx.partition(mx.array(x), kth, axis=1))
        order = np.array(mx.argpartition(mx.array(x), kth, axis=1))
        np.testing.assert_array_equal(found, np.take_along_axis(x, order.astype(np.int64), 1))
        np.testing.assert_array_equal(np.sort(order, 1), np.tile(np.arange(length), (len(x), 1)))
        ranked = np.sort(x, 1)
        np.testing.assert_array_equal(found[:, kth], ranked[:, kth])
        np.testing.assert_array_equal(np.sort(found[:, :kth], 1), ranked[:, :kth])


@pytest.mark.parametrize("k", [0, 1, 4, 20])
@pytest.mark.parametrize("axis", [0, 1])
def test_topk(k: int, axis: int) -> None:
    x = _values("float32", (20, 20))
    largest = numbers(mx.topk(x, k, axis)).reshape((k, 20) if axis == 0 else (20, k))
    expected = np.sort(numbers(x), axis)
    expected = expected[20 - k :] if axis == 0 else expected[:, 20 - k :]
    np.testing.assert_array_equal(np.sort(largest, axis), expected)
    assert mx.topk(x, 3, None).shape == (3,)


def test_wrong_arguments() -> None:
    x = mx.zeros((2, 6))
    with pytest.raises(
        ValueError, match=r"\[topk\] cannot take the 7 largest of 6 elements.*\(2, 6\)"
    ):
        mx.topk(x, 7)
    with pytest.raises(ValueError, match=r"\[topk\] cannot take the -1 largest"):
        mx.topk(x, -1)
    with pytest.raises(TypeError, match=r"\[topk\] k must be an int, got float: 2.0"):
        mx.topk(x, 2.0)
    for name in ("partition", "argpartition"):
        with pytest.raises(ValueError, match=rf"\[{name}\] there is no element 6 among the 6"):
            getattr(mx, name)(x, 6)
        with pytest.raises(ValueError, match=rf"\[{name}\] there is no element -7"):
            getattr(mx, name)(x, -7)
    for name in ("sort", "argsort", "topk", "partition"):
        arguments = (1,) if name in ("topk", "partition") else ()
        with pytest.raises(IndexError, match=rf"\[{name}\] axis 2 is out of range"):
            getattr(mx, name)(x, *arguments, axis=2)
        with pytest.raises(IndexError, match=rf"\[{name}\] axis -1 is out of range"):
            getattr(mx, name)(mx.array(1.0), *arguments)
        with pytest.raises(TypeError, match=rf"\[{name}\] a must be an array, got list"):
            getattr(mx, name)([3, 1], *arguments)


SMOOTH = {
    "sort": lambda x: mx.sort(x * x, 0),
    "partition": lambda x: mx.partition(x * x, 2, -1),
    "topk": lambda x: mx.topk(x * x, 2, -1),
    "median of odd": lambda x: mx.median(x * x, 0),
    "median of even": lambda x: mx.median(x * x, -1, keepdims=True),
    "median of all": lambda x: mx.median(x * x),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str) -> None:
    check_derivatives(SMOOTH[name], np.random.default_rng(4).normal(size=(3, 4)))


@pytest.mark.parametrize("name", [*SMOOTH, "argsort", "argpartition"])
def test_vmap(name: str) -> None:
    functions = {
        **SMOOTH,
        "argsort": lambda x: mx.argsort(x, 0),
        "argpartition": lambda x: mx.argpartition(x, 1),
    }
    check_vmap(functions[name], np.random.default_rng(4).normal(size=(5, 3, 4)).astype(np.float32))


def test_equal_elements_keep_their_cotangents_as_in_mlx() -> None:
    x, weights = [3.0, 1.0, 3.0, np.nan, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    _, ours = mx.vjp(mx.sort, [mx.array(x)], [mx.array(weights)])
    _, theirs = oracle.vjp(oracle.sort, [oracle.array(x)], [oracle.array(weights)])
    assert ours[0].tolist() == theirs[0].tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 2), (2, 1)])
def test_median_is_mlxs(dtype: str, axis: int | tuple[int, ...] | None) -> None:
    values = np.random.default_rng(0).integers(0, 5, (3, 4, 2))
    ours = mx.median(mx.array(values).astype(getattr(mx, dtype)), axis)
    theirs = oracle.median(oracle.array(values).astype(getattr(oracle, dtype)), axis)
    assert str(ours.dtype).rsplit(".")[-1] == str(theirs.dtype).rsplit(".")[-1]
    np.testing.assert_array_equal(numbers(ours), numbers(theirs))


def test_median_of_nan_and_of_nothing() -> None:
    x = mx.array([[1.0, np.nan, 3.0], [1.0, 5.0, 3.0]])
    np.testing.assert_array_equal(numbers(mx.median(x, 1)), [np.nan, 3.0])
    assert mx.median(mx.array(3)).item() == 3.0
    assert mx.median(x, 1, True).shape == (2, 1)
    with pytest.raises(ValueError, match=r"\[median\] shape \(0, 3\) has no elements along axis 0"):
        mx.median(mx.zeros((0, 3)), 0)
    with pytest.raises(ValueError, match=r"\[median\] needs an axis"):
        mx.median(x, ())


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_searchsorted_is_mlxs(side: str, dtype: str) -> None:
    sequence, values = [0, 1, 1, 1, 2, 4], [[0, 1], [3, 5], [2, 4]]
    ours = mx.searchsorted(
        mx.array(sequence).astype(getattr(mx, dtype)), mx.array(values).astype(mx.float32), side
    )
    theirs = oracle.searchsorted(
        oracle.array(sequence).astype(getattr(oracle, dtype)),
        oracle.array(values).astype(oracle.float32),
        side,
    )
    assert ours.dtype == mx.uint32
    assert ours.tolist() == theirs.tolist()


def test_searchsorted_of_nan() -> None:
    sequence = mx.array([1.0, 2.0, np.nan, np.nan])
    assert mx.searchsorted(sequence, mx.array([np.nan, 1.0, np.inf])).tolist() == [2, 0, 2]
    assert mx.searchsorted(sequence, mx.array([np.nan]), side="right").tolist() == [4]
    assert mx.searchsorted(mx.zeros((0,)), mx.array(1.0)).item() == 0


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint32", "int64"])
def test_searchsorted_of_any_length(side: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    compiled = mx.compile(lambda sequence, values: mx.searchsorted(sequence, values, side=side))
    for length, count in [(1, 1), (2, 17), (3, 16), (31, 15), (32, 33), (33, 100), (1000, 50)]:
        sequence, values = (rng.integers(0, 40, (2, n)).astype(dtype) for n in (length, count))
        if dtype.startswith("float"):
            sequence[0, rng.random(length) < 0.3] = np.nan
            values[:, rng.random(count) < 0.2] = np.nan
            values[:, :1] = -0.0
        sequence.sort(-1)
        for row in range(2):
            given = [mx.array(each[row], getattr(mx, dtype)) for each in (sequence, values)]
            expected = np.searchsorted(sequence[row], values[row], side)
            np.testing.assert_array_equal(np.array(mx.searchsorted(*given, side)), expected)
            np.testing.assert_array_equal(np.array(compiled(*given)), expected)


def test_searchsorted_of_many_values() -> None:
    rng = np.random.default_rng(0)
    sequence = np.sort(rng.integers(0, 5000, 20_000)).astype(np.int32)
    values = rng.integers(-9, 5009, (100, 200)).astype(np.int32)
    for side in ("left", "right"):
        found = np.array(mx.searchsorted(mx.array(sequence), mx.array(values), side))
        np.testing.assert_array_equal(found, np.searchsorted(sequence, values, side))


def test_searchsorted_refusals() -> None:
    s = mx.array([1.0, 2.0])
    with pytest.raises(ValueError, match=r"\[searchsorted\] side is 'left' or 'right', got 'top'"):
        mx.searchsorted(s, s, "top")
    with pytest.raises(ValueError, match=r"one axis, got shape \(1, 2\)"):
        mx.searchsorted(s[None], s)
    with pytest.raises(TypeError, match=r"\[searchsorted\] values must be an array, got float"):
        mx.searchsorted(s, 1.0)


def test_vmap_of_searchsorted() -> None:
    rng = np.random.default_rng(0)
    sequences = np.sort(rng.random((3, 6), np.float32))
    values = rng.random((3, 2, 2), np.float32)
    expected = [[np.searchsorted(s, v) for v in values] for s in sequences]
    both = mx.vmap(mx.searchsorted)(mx.array(sequences), mx.array(values))
    np.testing.assert_array_equal(numbers(both), [expected[i][i] for i in range(3)])
    one = mx.vmap(mx.searchsorted, (None, 0))(mx.array(sequences[0]), mx.array(values))
    np.testing.assert_array_equal(numbers(one), expected[0])
    nested = mx.vmap(mx.vmap(mx.searchsorted, (None, 0)), (0, None))
    result = nested(mx.array(sequences), mx.array(values))
    np.testing.assert_array_equal(numbers(result), expected)
