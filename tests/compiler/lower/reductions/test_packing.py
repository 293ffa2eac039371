"""Rows with gaps between their elements, which are copied to the stack before they are reduced."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import numbers, texts_of
from tests.support.guard_pages import guarded_array

import ingot.core as mx
from ingot.tuning import MAX_PACKED_BYTES


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("step", [2, -3])
def test_rows_with_gaps_are_reduced_in_the_order_of_others(step: int) -> None:
    """Bit for bit, whether they fit onto the stack or not."""
    run = mx.compile(lambda x: x - x.mean(axis=1, keepdims=True))
    for length in (700, MAX_PACKED_BYTES // 4 + 5):
        x = numbers(17, abs(step) * length)[:, ::step]
        found = [np.array(run(x)) for _ in range(2)][1]  # the second time without a copy
        assert np.array_equal(found, np.array(run(mx.contiguous(x)))), length


def test_rows_with_gaps_are_copied_once() -> None:
    """A softmax reads its rows twice."""
    (text,) = texts_of(lambda x: softmax(x[:, ::2]), numbers(17, 1200))
    assert text.count("local packed") == 1
    assert text.count("a0[") == 1


@pytest.mark.parametrize("step", [2, 3, 4])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint8", "float64", "bool_"])
def test_sums_and_maxima_of_elements_with_gaps(dtype: str, step: int) -> None:
    """Also where the last element is the last of the array, beyond which nothing may be read."""
    rng = np.random.default_rng(step)
    run = mx.compile(lambda x: (x.sum(axis=1), x.max(axis=1)))
    for length in (40, 513, 700):
        values = rng.integers(0, 90, (17, step * length))
        x = mx.array(values).astype(getattr(mx, dtype))[:, step - 1 :: step]
        for _ in range(2):  # the second time without a copy
            total, largest = run(x)
        expected = run(mx.contiguous(x))
        assert np.array_equal(np.array(total), np.array(expected[0])), length
        assert np.array_equal(np.array(largest), np.array(x).max(axis=1)), length


def test_elements_that_are_read_once_are_picked_in_registers() -> None:
    (text,) = texts_of(lambda x: x[:, ::2].sum(axis=1), numbers(17, 1200))
    assert "local packed" not in text
    assert "[0..31 by 2]" in text
    (text,) = texts_of(lambda x: x[:, ::3].sum(axis=1), numbers(17, 1200))
    assert "local packed" in text


def test_nothing_is_read_beyond_the_last_element() -> None:
    """The first and the last element of the array are followed by memory that may not be read."""
    x = numbers(17, 1200)
    run = mx.compile(lambda x: (x[:, 1::2].sum(axis=1), x[:, 3::4].max(axis=1)))
    expected = [np.array(each) for each in run(x)]
    for at_end in (True, False):
        found = run(guarded_array(x, at_end))
        assert all(np.array_equal(np.array(a), b) for a, b in zip(found, expected, strict=True))
