"""What the property tests share: the module under test, arrays with their NumPy twins, indices."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

# As in tests/oracle: MLX itself can be put to these tests.
mx: Any = importlib.import_module(os.environ.get("INGOT_ORACLE_MODULE", "ingot.core"))

DTYPES = ("bool", "uint8", "int8", "int16", "uint32", "int32", "int64", "float32")
dtypes = st.sampled_from(DTYPES)


def numbers(shape: tuple[int, ...], dtype: str = "int32", start: int = 0) -> np.ndarray:
    """Consecutive numbers, so that every element can be told from the others."""
    size = int(np.prod(shape))
    return (np.arange(start, start + size) % 120).reshape(shape).astype(dtype)


def twin(array: np.ndarray) -> Any:
    """The array of the module under test with the same values."""
    return mx.array(array)


def assert_same(actual: Any, expected: np.ndarray) -> None:
    """Equal shape, dtype and values."""
    result = np.array(actual)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def shapes(max_dims: int = 4, min_side: int = 0, max_side: int = 5) -> st.SearchStrategy[Any]:
    """Shapes from 0-d on."""
    return hnp.array_shapes(min_dims=0, max_dims=max_dims, min_side=min_side, max_side=max_side)


@st.composite
def laid_out(draw: st.DrawFn, shape: tuple[int, ...], dtype: str = "int32") -> Any:
    """An array of `shape` and its NumPy twin, made by random views of a larger array."""
    axes = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 2, -1, -2))) for _ in shape]
    base_shape = tuple(length * abs(step) for length, step in zip(shape, steps, strict=True))
    order = tuple(base_shape[axis] for axis in axes)
    back = tuple(int(i) for i in np.argsort(axes)) if shape else ()
    base = numbers(order, dtype)
    view = tuple(slice(None, None, step) for step in steps)
    expected = np.transpose(base, back)[view]
    actual = mx.transpose(twin(base), back)[view] if shape else twin(base)
    return actual, expected


@st.composite
def mixed_index(draw: st.DrawFn, shape: tuple[int, ...], *, unique: bool = False) -> Any:
    """An index of slices and of at least one integer array, as NumPy takes it.

    Integers are left out beside arrays: NumPy and MLX then place axes differently. With `unique`
    no position is named twice.
    """
    count = draw(st.integers(1, len(shape)))
    position = draw(st.integers(0, len(shape) - count))
    # Adjacent arrays keep their place; all broadcast to one shape.
    index: list[Any] = [draw(st.slices(shape[axis])) for axis in range(position)]
    length = draw(st.integers(1, 4))
    if unique:
        # Distinct positions along the first of them are enough.
        length = min(length, shape[position])
    for axis in range(position, position + count):
        size = shape[axis]
        numbers_ = st.integers(0, size - 1) if unique else st.integers(-size, size - 1)
        distinct = unique and axis == position
        values = draw(st.lists(numbers_, min_size=length, max_size=length, unique=distinct))
        index.append(np.array(values, dtype=np.int32))
    for axis in range(position + count, len(shape)):
        index.append(draw(st.slices(shape[axis])))
    return tuple(index)


@st.composite
def smaller(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `shape`: without leading axes, with ones in places."""
    kept = shape[draw(st.integers(0, len(shape))) :]
    return tuple(draw(st.sampled_from((length, 1))) for length in kept)


def translate(index: Any) -> Any:
    """A NumPy index with its arrays replaced by arrays of the module under test."""
    if isinstance(index, tuple):
        return tuple(translate(item) for item in index)
    return twin(index) if isinstance(index, np.ndarray) else index
