"""Broadcasting and movement against NumPy, on random shapes and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from .strategies import assert_same, dtypes, laid_out, mx, shapes

OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "less": np.less,
    "equal": np.equal,
}
pairs = hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=4)
triples = hnp.mutually_broadcastable_shapes(num_shapes=3, max_dims=4, min_side=0, max_side=4)


@pytest.mark.parametrize("name", OPERATIONS)
@given(data=st.data(), shapes=pairs)
def test_binary(name: str, data: st.DataObject, shapes: Any) -> None:
    """A binary op on two layouts."""
    (a, numpy_a), (b, numpy_b) = (data.draw(laid_out(shape)) for shape in shapes.input_shapes)
    assert_same(getattr(mx, name)(a, b), OPERATIONS[name](numpy_a, numpy_b))


@given(data=st.data(), shapes=triples)
def test_where(data: st.DataObject, shapes: Any) -> None:
    """where with three shapes."""
    first, second, third = shapes.input_shapes
    condition, numpy_condition = data.draw(laid_out(first, "bool"))
    (a, numpy_a), (b, numpy_b) = (data.draw(laid_out(shape)) for shape in (second, third))
    assert_same(mx.where(condition, a, b), np.where(numpy_condition, numpy_a, numpy_b))


@given(data=st.data(), shapes=pairs)
def test_broadcast_shapes(data: st.DataObject, shapes: Any) -> None:
    """broadcast_shapes, broadcast_arrays and broadcast_to agree."""
    arrays = [data.draw(laid_out(shape)) for shape in shapes.input_shapes]
    assert tuple(mx.broadcast_shapes(*shapes.input_shapes)) == shapes.result_shape
    for result, (_, expected) in zip(
        mx.broadcast_arrays(*(array for array, _ in arrays)), arrays, strict=True
    ):
        assert_same(result, np.broadcast_to(expected, shapes.result_shape))


@given(st.data(), shapes(), dtypes)
def test_reshape_round_trip(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """To one axis and back, and to a shape with other factors."""
    array, expected = data.draw(laid_out(shape, dtype))
    flat = mx.reshape(array, (expected.size,))
    assert_same(flat, expected.reshape(expected.size))
    assert_same(mx.reshape(flat, shape), expected)
    divisors = [n for n in range(1, expected.size + 1) if expected.size % n == 0] or [1]
    rows = data.draw(st.sampled_from(divisors))
    assert_same(
        mx.reshape(array, (rows, expected.size // rows)),
        expected.reshape(rows, -1 if expected.size else 0),
    )


@given(st.data(), shapes(), dtypes)
def test_transpose_round_trip(data: st.DataObject, shape: tuple[int, ...], dtype: str) -> None:
    """A permutation and its inverse."""
    array, expected = data.draw(laid_out(shape, dtype))
    axes = data.draw(st.permutations(range(len(shape))))
    moved = mx.transpose(array, axes)
    assert_same(moved, expected.transpose(axes))
    assert_same(mx.transpose(moved, [int(i) for i in np.argsort(axes)]), expected)


@given(st.data(), shapes(min_side=1).filter(len))
def test_split_and_concatenate(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Parts put together again."""
    array, expected = data.draw(laid_out(shape))
    axis = data.draw(st.integers(0, len(shape) - 1))
    cuts = sorted(data.draw(st.lists(st.integers(0, shape[axis]), max_size=3)))
    parts = mx.split(array, cuts, axis)
    for part, right in zip(parts, np.split(expected, cuts, axis), strict=True):
        assert_same(part, right)
    assert_same(mx.concatenate(parts, axis), expected)


@given(st.data(), shapes(min_side=1).filter(len))
def test_reductions(data: st.DataObject, shape: tuple[int, ...]) -> None:
    """Sums and extremes over any set of axes of any layout."""
    array, expected = data.draw(laid_out(shape))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    keepdims = data.draw(st.booleans())
    for name in ("sum", "max", "min"):
        right = getattr(np, name)(expected, axis=axes, keepdims=keepdims)
        result = getattr(mx, name)(array, axis=axes, keepdims=keepdims)
        assert_same(result, np.asarray(right, dtype=np.int32))
