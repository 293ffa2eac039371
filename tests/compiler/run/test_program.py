"""Programs: one for each layout that is worth it, and the same results for all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.run.program import MAX_LAYOUTS, MIN_BYTES_FOR_A_LAYOUT, Layouts, layout_text


def test_layouts_are_worth_code_when_they_come_again() -> None:
    layouts = Layouts()
    small = (np.zeros(3),)
    assert not layouts.is_due(((8,),), small)
    assert layouts.is_due(((8,),), small)
    large = (np.zeros((MIN_BYTES_FOR_A_LAYOUT // 8, 2))[:, 0],)
    assert layouts.is_due(((16,),), large)


def test_there_are_only_so_many() -> None:
    layouts = Layouts()
    large = (np.zeros((MIN_BYTES_FOR_A_LAYOUT // 8, 2))[:, 0],)
    due = [layouts.is_due(((8 * n,),), large) for n in range(MAX_LAYOUTS + 5)]
    assert due == [True] * MAX_LAYOUTS + [False] * 5


VIEWS: dict[str, Any] = {
    "rows": lambda x: x,
    "columns": lambda x: x.T.copy().T,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
}


@pytest.mark.parametrize("name", VIEWS)
def test_every_layout_gives_the_same_bits(name: str) -> None:
    x = np.random.default_rng(6).uniform(size=(40, 30)).astype(np.float32)
    program = mx.compile(lambda x: (mx.exp(x).sum(axis=0), x.T * 2)).explain(mx.array(x)).stages
    expected = [np.array(y) for y in program.program.run((x,))]
    view = VIEWS[name](x)
    for _ in range(3):
        for a, b in zip(program.program.run((view,)), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_layouts_are_described() -> None:
    x = np.zeros((40, 30), np.float32)
    tape = mx.compile(lambda x: x + 1).explain(mx.array(x)).stages.traced
    text = layout_text(tape, (x.T.copy().T,))
    assert text
    assert text != layout_text(tape, (x,))


def test_what_need_not_be_copied_does_not_count() -> None:
    contiguous = np.zeros(MIN_BYTES_FOR_A_LAYOUT // 8)
    one_element = np.broadcast_to(np.zeros(()), (MIN_BYTES_FOR_A_LAYOUT,))
    strided = np.zeros((4, 4)).T
    layouts = Layouts()
    assert not layouts.is_due(((8,), (0,), (8, 32)), (contiguous, one_element, strided))
