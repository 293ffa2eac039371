"""Gradients of strided views, in which windows overlap, against sums by NumPy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ingot.core as mx
from ingot.ops.shape.folding import fold

Shape = tuple[int, ...]
# array, view, strides, offset
WINDOWS: list[tuple[Shape, Shape, Shape, int]] = [
    ((2, 7, 7, 3), (2, 3, 3, 3, 3, 3), (147, 42, 6, 21, 3, 1), 0),
    ((2, 9, 8, 3), (2, 4, 3, 2, 3, 3), (216, 48, 6, 24, 3, 1), 27),
    ((10,), (4, 3), (2, 1), 0),
    ((10,), (3, 4), (1, 2), 0),  # elements first, windows second
    ((12,), (4, 3), (2, 2), 1),
    ((11,), (3, 2), (4, 1), 0),  # gaps between windows
    ((5, 4), (4, 5), (1, 4), 0),
    ((5, 6), (3, 2), (6, 4), 1),
    ((6,), (1, 6, 1), (99, 1, 77), 0),
    ((3, 1, 4), (3, 2, 2), (4, 1, 2), 0),
]
OTHERS: list[tuple[Shape, Shape, Shape, int]] = [
    ((30,), (3, 3, 3), (9, 3, 1), 0),  # three axes along one
    ((12,), (3, 4), (0, 3), 0),
    ((7, 5), (6, 10), (5, 1), 0),  # rows that run into the next
    ((7,), (7,), (-1,), 6),
    ((100,), (2, 40), (50, 1), 0),  # many elements
    ((), (1,), (1,), 0),
]


@pytest.mark.parametrize(("shape", "lengths", "strides", "offset"), WINDOWS + OTHERS)
def test_gradients(shape: Shape, lengths: Shape, strides: Shape, offset: int) -> None:
    random = np.random.default_rng(len(lengths))
    x = mx.array(random.normal(size=shape).astype(np.float32))
    cotangent = random.normal(size=lengths).astype(np.float32)
    wanted = np.zeros(x.size)
    for index in product(*map(range, lengths)):
        at = offset + sum(i * stride for i, stride in zip(index, strides, strict=True))
        wanted[at] += cotangent[index]

    def gradient(x: mx.array, cotangent: mx.array) -> mx.array:
        views = mx.vjp(lambda x: mx.as_strided(x, lengths, strides, offset), [x], [cotangent])
        return views[1][0]

    for function in (gradient, mx.compile(gradient)):
        found = function(x, mx.array(cotangent))
        assert found.shape == shape
        np.testing.assert_allclose(np.array(found).reshape(-1), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("shape", "lengths", "strides", "offset"), WINDOWS)
def test_windows_need_no_scatter(shape: Shape, lengths: Shape, strides: Shape, offset: int) -> None:
    assert fold(mx.zeros(lengths), strides, offset, shape) is not None


@pytest.mark.parametrize(("shape", "lengths", "strides", "offset"), OTHERS[:-1])
def test_other_views(shape: Shape, lengths: Shape, strides: Shape, offset: int) -> None:
    assert fold(mx.zeros(lengths), strides, offset, shape) is None
