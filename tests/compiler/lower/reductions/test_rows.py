"""Rows: reductions with what needs them in one kernel, and what is kept meanwhile."""

from __future__ import annotations

from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Loop
from ingot.tuning import MAX_KEPT_ROW_BYTES


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
