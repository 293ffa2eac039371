"""Rows: reductions with what needs them in one kernel, and what is kept meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Loop
from ingot.tuning import MAX_KEPT_ROW_BYTES, MAX_PACKED_BYTES


def softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def test_a_softmax_is_one_kernel() -> None:
    (nest,) = nests_of(softmax, numbers(6, 600))
    assert nest.parallel[0].lengths == (6,)


def test_costly_elements_are_kept_in_the_output_until_they_are_divided() -> None:
    (text,) = texts_of(softmax, numbers(6, 600))
    assert text.count("exp(") == text.count("a1[i, ") // 2 or text.count("exp(") <= 2
    assert "local row" not in text


def test_cheap_elements_are_computed_again() -> None:
    def centred(x: mx.array) -> mx.array:
        return (x * 2 - (x * 2).mean(axis=-1, keepdims=True)).sum(axis=-1)

    for text in texts_of(centred, numbers(6, 600)):
        assert "local row" not in text


def test_elements_that_have_no_output_to_wait_in_are_kept_on_the_stack() -> None:
    def squares(x: mx.array) -> mx.array:
        e = mx.exp(mx.sin(x))
        return ((e - e.mean(axis=-1, keepdims=True)) ** 2).sum(axis=-1)

    (text,) = texts_of(squares, numbers(6, 600))
    assert "local row0: float32[600]" in text
    longer = MAX_KEPT_ROW_BYTES // 4 + 1
    assert all("local row" not in each for each in texts_of(squares, numbers(2, longer)))


def test_every_pass_is_a_loop_along_the_row() -> None:
    (nest,) = nests_of(softmax, numbers(6, 40))
    loops = [each for each in nest.parallel[0].body if isinstance(each, Loop)]
    assert len(loops) >= 3


LONG = (513, 600, 8192, 9001)  # blocks of 512, parts of 16 of these, and remainders


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_long_rows_with_any_remainder(dtype: str) -> None:
    rng = np.random.default_rng(0)
    run = mx.compile(lambda x: (x.sum(axis=1), (x + x).max(axis=1)))
    for length in LONG:
        values = rng.integers(-5, 6, (17, length)).astype(dtype)
        total, largest = run(mx.array(values))
        wide = values.astype(np.int64)
        assert np.array_equal(np.array(total), wide.sum(1).astype(dtype)), length
        assert np.array_equal(np.array(largest), 2 * wide.max(1)), length


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
