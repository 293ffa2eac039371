"""Fusion without `compile` where shapes change: programs that are not used again are not made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call import eager

ROWS = 64  # enough numbers for a graph to be offered as a whole


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_structures", eager._Structures())


def attention(length: int) -> mx.array:
    """What a step of generation does with a cache of this length."""
    keys = mx.ones((ROWS, length)) * mx.arange(length)
    return mx.sum(mx.exp(mx.sin(keys)) * 2 + 1, axis=1)


def chain(length: int) -> mx.array:
    return mx.cos(mx.exp(mx.tanh(mx.ones((ROWS, length)) * mx.arange(length))) - 1)


def programs_after(function: Callable[[int], mx.array], lengths: list[int]) -> int:
    before = mx.eager_fusion_info()["programs"]
    for length in lengths:
        mx.eval(function(length))
    return mx.eager_fusion_info()["programs"] - before


def test_a_growing_length_soon_makes_no_more_programs() -> None:
    lengths = list(range(1000, 1040))
    assert programs_after(attention, lengths) == 0  # each came once
    assert programs_after(attention, lengths) == eager.PROGRAMS_ON_TRIAL
    assert programs_after(chain, [1100, 1100]) == 1  # other ops are another family


def test_programs_that_are_run_make_room_for_more() -> None:
    lengths = list(range(1000, 1006))
    assert programs_after(attention, lengths * 2) == eager.PROGRAMS_ON_TRIAL
    enough = eager.RUNS_THAT_PAY * eager.PROGRAMS_ON_TRIAL
    assert programs_after(attention, [1000] * enough) == 0
    assert programs_after(attention, lengths[-2:]) == 1


def test_results_are_the_same_with_and_without_a_program() -> None:
    for _ in range(3):
        for length in range(1000, 1006):
            expected = np.sum(np.exp(np.sin(np.arange(length))) * 2 + 1)
            np.testing.assert_allclose(attention(length), np.full(ROWS, expected), rtol=1e-4)


def test_a_graph_that_moves_much_memory_is_compiled_whatever_became_of_its_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs_after(attention, list(range(1000, 1010)) * 2)
    monkeypatch.setattr(eager, "AT_ONCE", 1)
    assert programs_after(attention, [2000]) == 0  # many nodes for so few bytes
    monkeypatch.setattr(eager, "AT_ONCE_FOR_A_NODE", 1)
    assert programs_after(attention, [2001]) == 1
