"""Misses: traces for one shape and for many, and what is said about them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call import misses
from ingot.compiler.call.lengths import Lengths, all_axes


def test_a_family_of_calls_that_differ_in_lengths() -> None:
    lengths = Lengths()
    shapes = [((2, length), (3,)) for length in (5, 6, 7)]
    assert [lengths.noted("key", each) for each in shapes] == [frozenset()] * 3
    assert lengths.noted("another key", ((2, 8), (3,))) == frozenset()
    assert lengths.noted("key", ((2, 8), (4,))) == {(0, 1)}
    assert lengths.symbolic_axes("key") == frozenset()  # there is no trace yet
    lengths.add_trace("key")
    assert lengths.symbolic_axes("key") == {(0, 1)}
    for _ in range(2):
        lengths.refuse("key")
    assert lengths.noted("key", ((2, 9), (4,))) == frozenset()


def test_all_axes() -> None:
    assert all_axes(((2, 3), (), (4,))) == {(0, 0), (0, 1), (2, 0)}


def test_programs_of_one_trace_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(misses, "MAX_LENGTH_CLASSES", 1)
    compiled = mx.compile(lambda x: mx.softmax(x, axis=-1))
    for length in (3, 4, 5, 6, 7, 5000, 100_000, 8):
        x = np.linspace(0, 1, length, dtype=np.float32)[None]
        expected = np.exp(x) / np.exp(x).sum()
        np.testing.assert_allclose(compiled(mx.array(x)), expected, rtol=1e-5)
    last = [each.reason for each in compiled.cache_info().reasons]
    assert any("because the machine code depends on them" in reason for reason in last)


def test_on_recompile_sees_the_trace_for_all_lengths_once() -> None:
    def function(x: Any) -> Any:
        return x + float(x.shape[0])

    compiled = mx.compile(function, on_recompile="warn")
    for length in (2, 3, 4):
        compiled(mx.zeros(length)) if length == 2 else _warned(compiled, length)
    (message,) = _warned(compiled, 5)
    assert "there is no program for all lengths" in message


def _warned(compiled: Any, length: int) -> list[str]:
    with pytest.warns(mx.RecompilationWarning) as caught:
        compiled(mx.zeros(length))
    return [str(each.message) for each in caught]
