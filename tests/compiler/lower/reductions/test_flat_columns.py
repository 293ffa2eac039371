"""Few columns whose rows are adjacent: runs of rows, in the order of `reduction_order.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.graph.numerics.reduction_order import LANES


def is_flat(text: str, columns: int) -> bool:
    return f"lanes0: float32[{LANES * columns}]" in text


@pytest.mark.parametrize("columns", [2, 3, 7, 8, 16, 33, 100])
@pytest.mark.parametrize("rows", [33, 129, 200, 512, 513, 1000, 9000])
def test_sums_have_the_order_of_contiguous_rows(rows: int, columns: int) -> None:
    x = numbers(rows, columns)
    found = mx.compile(lambda x: (x.sum(axis=0), (x * x).sum(axis=0)))(x)
    expected = mx.compile(lambda x: (x.sum(axis=1), (x * x).sum(axis=1)))(mx.contiguous(x.T))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.array(a), np.array(b))


@pytest.mark.parametrize("shape", [(40, 5), (300, 33), (6, 77, 3), (2, 600, 17)])
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16, mx.int32, mx.bool_])
def test_sums_and_extremes(shape: tuple[int, ...], dtype: Any) -> None:
    x = (numbers(*shape) * 9).astype(dtype)
    axis = len(shape) - 2
    nests_of(lambda x: (x.sum(axis=axis), x.max(axis=axis), x.min(axis=axis)), x)


def test_what_is_flat() -> None:
    texts = texts_of(lambda x: x.sum(axis=0), numbers(700, 9))
    assert is_flat(texts[0], 9)
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(100, 33))  # few rows
    assert not is_flat(text, 33)
    texts = texts_of(lambda x: x[:, :9].sum(axis=0), numbers(700, 10))  # rows with gaps
    assert not is_flat(texts[0], 9)
    texts = texts_of(lambda x: x.sum(axis=0), numbers(700, 500))  # lanes beyond L1
    assert not is_flat(texts[0], 500)


def test_where_the_order_is_free_runs_fill_vectors() -> None:
    texts = texts_of(lambda x: x.max(axis=0), numbers(700, 9))
    assert "local lanes0: uint32[144]" in texts[0]
    texts = texts_of(lambda x: x.max(axis=0), numbers(700, 48))
    assert "local lanes0: uint32[48]" in texts[0]


@pytest.mark.parametrize("columns", [3, 33])
def test_rows_that_are_all_the_same_are_repeated(columns: int) -> None:
    x, y, z = numbers(700, columns), numbers(columns), mx.array(0.5)

    def centred(x: mx.array, y: mx.array, z: mx.array) -> mx.array:
        return ((x - y) * z).sum(axis=0)

    texts = texts_of(centred, x, y, z)
    assert f"local repeated0: float32[{LANES * columns}]" in texts[0]
    wide = (np.array(x, np.float64) - np.array(y)) * 0.5
    found = np.array(mx.compile(centred)(x, y, z))
    np.testing.assert_allclose(found, wide.sum(0), rtol=1e-4, atol=1e-4)


def test_images_of_few_columns() -> None:
    x, y = numbers(3, 200, 5), numbers(3, 1, 5)
    nests_of(lambda x, y: (x * y).sum(axis=1), x, y)
    nests_of(lambda x, y: mx.exp(x - y).max(axis=(0, 1)), x, y)
