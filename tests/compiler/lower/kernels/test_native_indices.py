"""Elements that kernels read by index: gathers, their gradients, and indices that lead outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.numpy_kernel import NumpyKernel

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES, Dtype
from ingot.ops.internal.indexed_elements import (
    CheckedIndex,
    ElementsAt,
    IsAt,
    IsOutside,
    SomeOutside,
)

RANDOM = np.random.default_rng(7)


def native(compiled: Any, *args: Any) -> dict[str, Any]:
    found: dict[str, Any] = compiled.explain(*args).to_dict()["native"]
    return found


def compared(function: Callable[..., Any], *args: mx.array) -> dict[str, Any]:
    """Holds a compiled call to NumPy's elements, which uncompiled calls give."""
    compiled = mx.compile(function)
    np.testing.assert_array_equal(compiled(*args)._data, function(*args)._data)
    return native(compiled, *args)


def indices(length: int, *shape: int) -> mx.array:
    return mx.array(RANDOM.integers(-length, length, shape).astype(np.int32))


@pytest.mark.parametrize("size", [1, 7, 1023, 4097])
@pytest.mark.parametrize("width", [1, 5, 64])
def test_rows_of_a_table(size: int, width: int) -> None:
    table = mx.array(RANDOM.standard_normal((50, width)).astype(np.float32))
    rows = indices(50, size)
    found = compared(lambda t, i: mx.maximum(t[i], 0), table, rows)
    assert found["host_steps"] == []
    np.testing.assert_array_equal(
        np.array(mx.compile(lambda t, i: mx.take(t, i, axis=0))(table, rows)),
        np.array(table)[np.array(rows)],
    )


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_elements_of_all_dtypes(dtype: Dtype) -> None:
    x = mx.array(RANDOM.integers(0, 9, (6, 5, 4))).astype(dtype)
    for axis in range(3):
        assert (
            compared(lambda x, i, a=axis: mx.take(x, i, axis=a), x, indices(4, 3, 2))["host_steps"]
            == []
        )
        along = indices(4, *(6, 5, 4)[:axis], 7, *(6, 5, 4)[axis + 1 :])
        assert (
            compared(lambda x, i, a=axis: mx.take_along_axis(x, i, a), x, along)["host_steps"] == []
        )


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
)
def test_indices_of_all_dtypes(dtype: str) -> None:
    x = mx.array(RANDOM.standard_normal((40, 3)).astype(np.float32))
    low = 0 if dtype.startswith("u") else -40
    rows = mx.array(RANDOM.integers(low, 40, (9,))).astype(getattr(mx, dtype))
    compared(lambda x, i: x[i] + 1, x, rows)


SUBSCRIPTS: dict[str, Callable[[mx.array, mx.array, mx.array], mx.array]] = {
    "neighbours": lambda x, i, j: x[:, i, j],
    "apart": lambda x, i, j: x[i, :, j],
    "last": lambda x, i, j: x[..., i],
    "all": lambda x, i, j: x[i, j, i],
    "of a view": lambda x, i, j: x[::-1, 1:].transpose(2, 0, 1)[i, j],
    "of a broadcast": lambda x, i, j: mx.broadcast_to(x[:1], (6, 6, 6))[i, :, j],
    "of what is computed": lambda x, i, j: (x * 2 + 1)[i, j] - 1,
    "by what is computed": lambda x, i, j: x[(i + j) // 2, j % 3],
    "rows that are summed": lambda x, i, j: x[i].sum(axis=-1),
    "columns that are summed": lambda x, i, j: x[i].sum(axis=0),
    "everything summed": lambda x, i, j: x[i, j].sum(),
}


@pytest.mark.parametrize("name", SUBSCRIPTS)
def test_subscripts(name: str) -> None:
    function = SUBSCRIPTS[name]
    x = mx.array(RANDOM.integers(-9, 9, (6, 6, 6)).astype(np.float32))
    for shape in [(1,), (40,), (4, 9)]:
        i, j = indices(5, *shape), indices(5, *shape)
        assert compared(function, x, i, j)["host_steps"] == []


@pytest.mark.parametrize("wrong", [50, -51, 2**31 - 1])
@pytest.mark.parametrize("count", [1, 9, 5000])
def test_indices_outside_raise(wrong: int, count: int) -> None:
    rows = np.zeros(count, np.int32)
    rows[count // 2] = wrong
    x, i = mx.zeros((50, 3)), mx.array(rows)
    functions: list[Callable[..., Any]] = [
        lambda x, i: x[i] * 2,
        lambda x, i: mx.take_along_axis(x, mx.broadcast_to(i[:, None], (count, 3)), 0),
        lambda x, i: mx.put_along_axis(x, i[:1, None] * mx.ones((1, 3), mx.int32), x[:1], 0),
    ]
    message = rf"\[index\] index {wrong} is out of range for an axis of length 50\."
    for function in functions[: 3 if count == 1 else 2]:
        compiled = mx.compile(function)
        assert native(compiled, x, i)["host_steps"] == []
        with pytest.raises(IndexError, match=message):
            mx.eval(compiled(x, i))
        with pytest.raises(IndexError, match=message):
            mx.eval(function(x, i))
    fine = mx.compile(functions[0])(x, mx.zeros((count,), mx.int32))
    assert fine.shape == (count, 3)


def test_an_unsigned_index_beyond_all_signed_ones() -> None:
    rows = mx.array(np.array([2**64 - 1], np.uint64))
    with pytest.raises(IndexError, match="out of range"):
        mx.eval(mx.compile(lambda x, i: x[i] + 1)(mx.zeros((5,)), rows))


@pytest.mark.parametrize("axis", [0, 1])
def test_one_update_along_an_axis(axis: int) -> None:
    x = mx.array(RANDOM.standard_normal((31, 17)).astype(np.float32))
    places = indices(17, 1, 17) if axis == 0 else indices(17, 31, 1)
    values = mx.array(RANDOM.standard_normal(places.shape).astype(np.float32))
    found = compared(lambda x, i, v: mx.put_along_axis(x, i, v, axis) * 2, x, places, values)
    assert found["host_steps"] == []


# Scatters

MODES = ("add", "multiply", "maximum", "minimum")
UPDATED: dict[str, tuple[tuple[int, ...], Callable[..., Any]]] = {
    "rows": ((40, 6), lambda i, j: (i,)),
    "columns": ((5, 40), lambda i, j: (slice(None), i)),
    "elements": ((40, 30), lambda i, j: (i, j % 30)),
    "neighbours": ((3, 40, 40, 2), lambda i, j: (slice(None), i, j)),
    "apart": ((40, 3, 40), lambda i, j: (i, slice(None), j)),
    "one axis": ((40,), lambda i, j: (i,)),
}


@pytest.mark.parametrize("name", UPDATED)
@pytest.mark.parametrize("shape", [(1,), (7,), (1023,), (4, 50)], ids=str)
def test_scatters(name: str, shape: tuple[int, ...]) -> None:
    lengths, subscript_of = UPDATED[name]
    x = RANDOM.integers(-9, 9, lengths).astype(np.float32)
    i, j = (RANDOM.integers(-20, 20, shape) for _ in range(2))
    subscript = subscript_of(i, j)
    updates = RANDOM.integers(-2, 3, x[subscript].shape).astype(np.float32)

    def scattered(mode: str, x: mx.array, i: mx.array, j: mx.array, u: mx.array) -> mx.array:
        return getattr(x.at[subscript_of(i, j)], mode)(u)

    for mode in MODES:
        if mode == "multiply":
            updates = np.sign(updates)
        arguments = [mx.array(each) for each in (x, i, j, updates)]
        compiled = mx.compile(lambda *args, mode=mode: scattered(mode, *args))
        assert native(compiled, *arguments)["host_steps"] == []
        expected = x.copy()
        getattr(np, mode).at(expected, subscript, updates)
        np.testing.assert_array_equal(np.array(compiled(*arguments)), expected, mode)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_scatters_of_all_dtypes(dtype: Dtype) -> None:
    x = mx.array(RANDOM.integers(0, 5, (9, 8))).astype(dtype)
    rows = mx.array(RANDOM.integers(-9, 9, 60))
    updates = mx.array(RANDOM.integers(0, 3, (60, 8))).astype(dtype)

    def assigned(x: mx.array, i: mx.array, u: mx.array) -> mx.array:
        x = x[:]
        x[i] = u
        return x

    assert compared(assigned, x, rows, updates)["host_steps"] == []
    compared(lambda x, i, u: x.at[i].add(u), x, rows, updates)
    compared(lambda x, i, u: x.T.at[:, i].maximum(u.T), x, rows, updates)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extremes_of_special_numbers(dtype: str) -> None:
    """Of all pairs, in rows that are processed as vectors: NaN propagates, and -0 is less than +0,
    as in IEEE 754's maximum and minimum.
    """
    special = np.array(
        [-np.inf, -1.5, -(2.0**-90), -0.0, 0.0, 2.0**-90, 1.5, np.inf, np.nan, -np.nan]
    )
    ranks = np.arange(special.size)
    (a, b), (i, j) = np.meshgrid(special, special), np.meshgrid(ranks, ranks)
    table, updates = (mx.array(x.ravel()[None]).astype(getattr(mx, dtype)) for x in (a, b))
    for mode, chosen in (("maximum", np.maximum(i, j)), ("minimum", np.minimum(i, j))):
        expected = np.where(np.isnan(a) | np.isnan(b), np.nan, special[chosen])
        expected = expected.ravel().astype(dtype)
        found = np.array(getattr(table.at[mx.array([0])], mode)(updates))[0]
        scanned = mx.cummax if mode == "maximum" else mx.cummin
        together = mx.concatenate([table, updates])
        for each in (found, np.array(scanned(together.T, axis=1))[:, -1]):
            np.testing.assert_array_equal(each, expected)
            signs = np.signbit(each) == np.signbit(expected)
            assert np.all(signs | np.isnan(expected))


def test_scatters_do_not_depend_on_the_number_of_threads() -> None:
    rows = mx.array(RANDOM.integers(0, 500, 20_000))
    updates = mx.array(RANDOM.standard_normal((20_000, 64)).astype(np.float32))
    compiled = mx.compile(lambda i, u: mx.zeros((500, 64)).at[i].add(u))
    threads = mx.get_num_threads()
    found = []
    try:
        for count in (1, 2, 3):
            mx.set_num_threads(count)
            found.append(np.array(compiled(rows, updates)))
    finally:
        mx.set_num_threads(threads)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    expected = np.zeros((500, 64))
    np.add.at(expected, np.array(rows), np.array(updates, np.float64))
    np.testing.assert_allclose(found[0], expected, 1e-4, 1e-4)


@pytest.mark.parametrize("wrong", [40, -41])
def test_scatters_outside_raise_and_touch_nothing(wrong: int) -> None:
    x, u = mx.zeros((40, 3)), mx.ones((2, 3))
    compiled = mx.compile(lambda x, i, u: x.at[i].add(u))
    with pytest.raises(
        IndexError, match=rf"index {wrong} is out of range for an axis of length 40"
    ):
        mx.eval(compiled(x, mx.array([3, wrong]), u))
    assert compiled(x, mx.array([3, 4]), u).sum().item() == 6


def test_the_cross_entropy_of_labels_has_no_host_steps() -> None:
    logits = mx.array(RANDOM.standard_normal((64, 100)).astype(np.float32))
    labels = mx.array(RANDOM.integers(0, 100, (64, 1)))

    def loss(logits: mx.array) -> mx.array:
        scores = mx.take_along_axis(logits, labels, -1).squeeze(-1)
        return (mx.logsumexp(logits, axis=-1) - scores).mean()

    compiled = mx.compile(mx.value_and_grad(loss))
    assert native(compiled, logits)["host_steps"] == []
    value, gradient = compiled(logits)
    x = np.array(logits, np.float64)
    softmax = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    chosen = np.arange(100) == np.array(labels)
    np.testing.assert_allclose(value.item(), -np.log(softmax[chosen]).mean(), 1e-5)
    np.testing.assert_allclose(np.array(gradient), (softmax - chosen) / 64, 1e-4, 1e-7)


def test_the_rules() -> None:
    index = np.array([-6, -5, 0, 4, 5], np.int32)
    outside = IsOutside(5).evaluate(index)
    np.testing.assert_array_equal(outside, [True, False, False, False, True])
    np.testing.assert_array_equal(IsOutside(5).emit(NumpyKernel(), index), outside)
    flag = SomeOutside((0,)).evaluate(outside)
    with pytest.raises(IndexError, match="index -6 is out of range for an axis of length 5"):
        CheckedIndex(5).evaluate(index, flag)
    inside = index[1:-1]
    assert CheckedIndex(5).evaluate(inside, np.array([False])) is inside
    position = np.array([0, 1, 4])
    np.testing.assert_array_equal(IsAt(5).evaluate(position, inside), [True, False, True])
    np.testing.assert_array_equal(
        IsAt(5).emit(NumpyKernel(), position, inside), [True, False, True]
    )
    x = RANDOM.standard_normal((5, 4))
    along = ElementsAt((0,), (-1, 1)).evaluate(x, np.repeat(inside[:, None], 4, 1))
    np.testing.assert_array_equal(along, x[inside])
