"""Indexing and indexed assignment against NumPy, on random shapes, layouts and indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from .strategies import (
    assert_same,
    dtypes,
    laid_out,
    mixed_index,
    mx,
    numbers,
    shapes,
    smaller,
    translate,
    twin,
)


@given(st.data(), shapes(), dtypes)
def test_basic_getitem(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """Integers, slices with any step, None and Ellipsis."""
    actual, expected = data.draw(laid_out(shape, dtype))
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=8))
    assert_same(actual[index], np.asarray(expected[index]))


@given(st.data(), shapes(min_side=1).filter(len), dtypes)
def test_gather(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """Integer arrays mixed with slices."""
    actual, expected = data.draw(laid_out(shape, dtype))
    index = data.draw(mixed_index(shape))
    assert_same(actual[translate(index)], expected[index])


@given(st.data(), shapes(min_side=1).filter(len))
def test_gather_with_shape(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Integer arrays of any shape that broadcast with each other."""
    actual, expected = data.draw(laid_out(shape))
    result_shape = hnp.array_shapes(max_dims=3, max_side=3)
    index = data.draw(hnp.integer_array_indices(shape, result_shape=result_shape, dtype=np.int32))
    assert_same(actual[translate(index)], expected[index])


@given(st.data(), shapes(), dtypes)
def test_basic_setitem(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """Assignment of a value that broadcasts, without a change to arrays that shared the values."""
    actual, expected = data.draw(laid_out(shape, dtype))
    expected = np.array(expected)
    index = data.draw(hnp.basic_indices(shape))
    target = np.asarray(expected[index]).shape
    value = numbers(data.draw(smaller(target)), dtype, 50)
    before = expected.copy()
    alias = mx.array(actual)
    actual[index] = twin(value)
    expected[index] = value
    assert_same(actual, expected)
    assert_same(alias, before)


@given(st.data(), shapes(min_side=1).filter(len), dtypes)
def test_scatter(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """Assignment through integer arrays that name no position twice."""
    actual, expected = data.draw(laid_out(shape, dtype))
    expected = np.array(expected)
    index = data.draw(mixed_index(shape, unique=True))
    value = numbers(expected[index].shape, dtype, 50)
    actual[translate(index)] = twin(value)
    expected[index] = value
    assert_same(actual, expected)


@pytest.mark.parametrize(
    ("name", "ufunc"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("maximum", np.maximum),
        ("minimum", np.minimum),
    ],
)
@given(data=st.data(), shape=shapes(min_side=1, max_dims=3).filter(len))
def test_at(name: str, ufunc: Any, data: st.DataObject, shape: tuple[int, ...]) -> None:
    """`a.at[index].add(v)` applies every update, even where an index comes twice."""
    actual, expected = data.draw(laid_out(shape))
    index = data.draw(mixed_index(shape))
    value = numbers(expected[index].shape, "int32", 50) % 3
    result = getattr(actual.at[translate(index)], name)(twin(value))
    updated = expected.copy()
    ufunc.at(updated, index, value)
    assert_same(result, updated)
    assert_same(actual, expected)


@given(st.data(), shapes(min_side=1).filter(len))
def test_take(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """take and take_along_axis along any axis."""
    actual, expected = data.draw(laid_out(shape))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    positions = st.integers(-shape[axis], shape[axis] - 1)
    indices = np.array(data.draw(st.lists(positions, max_size=5)), dtype=np.int32)
    assert_same(mx.take(actual, twin(indices), axis=axis), np.take(expected, indices, axis))
    along = np.sort(expected, axis).argsort(axis).astype(np.int32)
    result = mx.take_along_axis(actual, twin(along), axis=axis)
    assert_same(result, np.take_along_axis(expected, along, axis))
