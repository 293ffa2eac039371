"""What compiled programs know about their integers, and the checks of indices that it saves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.ops.internal.intervals import interval_of

X = mx.array([[-7, 3, 12], [0, 5, 100]])
Y = mx.array([[1, -2, 3], [4, 250, -6]])
INTEGERS = {
    "argument": lambda x, y: x,
    "clip": lambda x, y: mx.clip(x, 2, 9),
    "maximum": lambda x, y: mx.maximum(x, 4),
    "sum": lambda x, y: mx.clip(x, -3, 5) + mx.clip(y, 10, 20),
    "difference": lambda x, y: mx.clip(x, -3, 5) - mx.clip(y, 10, 20),
    "product": lambda x, y: mx.clip(x, -3, 5) * mx.clip(y, -10, 20),
    "remainder": lambda x, y: x % 7,
    "negative divisor": lambda x, y: x % -7,
    "quotient": lambda x, y: mx.clip(x, -9, 50) // mx.clip(y, 2, 4),
    "where": lambda x, y: mx.where(x > y, mx.clip(x, 0, 3), mx.clip(y, -5, 1)),
    "cast": lambda x, y: mx.clip(x, 0, 3).astype(mx.uint8),
    "wraps": lambda x, y: mx.clip(x, 250, 260).astype(mx.uint8),
    "overflows": lambda x, y: mx.maximum(x, 2**31 - 2) + 5,
    "comparison": lambda x, y: x > y,
    "iota": lambda x, y: x * 0 + mx.arange(4, 10, 2),
    "views": lambda x, y: mx.clip(x, 1, 6).T[::-1].reshape(6),
    "of numbers": lambda x, y: mx.clip(x.astype(mx.float32), 0, 3).astype(mx.int32),
}
EXPECTED = {
    "clip": (2, 9),
    "maximum": (4, 2**31 - 1),
    "sum": (7, 25),
    "difference": (-23, -5),
    "product": (-60, 100),
    "remainder": (0, 6),
    "quotient": (-5, 25),
    "where": (-5, 3),
    "cast": (0, 3),
    "wraps": (0, 255),
    "comparison": (0, 1),
    "views": (1, 6),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_intervals_hold_what_is_computed(name: str) -> None:
    function = mx.compile(INTEGERS[name])
    found = np.array(function(X, Y))
    step = function.explain(X, Y).stages.simplified.outputs[0]
    low, high = interval_of(step) or (0, 0)
    assert low <= found.min()
    assert found.max() <= high
    whole = (-(2**31), 2**31 - 1)
    if name != "iota":
        assert (low, high) == EXPECTED.get(name, whole)


def _gather(index: Any) -> Any:
    return lambda table, x: table[index(x)]


INSIDE = {
    "clip": lambda x: mx.clip(x, 0, 9),
    "remainder": lambda x: x % 10,
    "from the end": lambda x: mx.clip(x, -10, -1),
    "where": lambda x: mx.where((x >= 0) & (x < 10), mx.clip(x, 0, 9), 0),
    "iota": lambda x: mx.arange(10),
}
OUTSIDE = {
    "argument": lambda x: x,
    "clip": lambda x: mx.clip(x, 0, 10),
    "of numbers": lambda x: mx.clip(x.astype(mx.float32), 0, 9).astype(mx.int32),
}


@pytest.mark.parametrize("name", INSIDE)
def test_indices_that_are_inside_are_not_checked(name: str) -> None:
    function = mx.compile(_gather(INSIDE[name]))
    table, x = mx.arange(10.0) * 2, mx.array([-3, 4, 25])
    expected = np.array(table)[np.array(INSIDE[name](x))]
    np.testing.assert_array_equal(np.array(function(table, x)), expected)
    assert not [work for work in function.explain(table, x).work if work.kind == "check"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_other_indices_are_checked(name: str) -> None:
    function = mx.compile(_gather(OUTSIDE[name]))
    table = mx.arange(10.0)
    function(table, mx.array([3]))
    assert [work for work in function.explain(table, mx.array([3])).work if work.kind == "check"]
    if name != "of numbers":
        with pytest.raises(IndexError, match="out of range"):
            mx.eval(function(table, mx.array([10])))


def test_an_unrolled_search_checks_no_index() -> None:
    """The bounds of each step follow from those of all steps before it."""
    numbers = mx.array(np.sort(np.random.default_rng(2).random(300)).astype(np.float32))

    def search(wanted: mx.array) -> mx.array:
        low, high = mx.zeros((1000,), mx.int32), mx.full((1000,), 300, mx.int32)
        for _ in range(9):
            middle = (low + high) // 2
            is_above = numbers[mx.minimum(middle, 299)] < wanted
            low, high = mx.where(is_above, middle + 1, low), mx.where(is_above, high, middle)
        return mx.minimum(low, 300)

    wanted = mx.array(np.random.default_rng(3).random(1000).astype(np.float32))
    compiled = mx.compile(search)
    assert "CheckedIndex" not in str(compiled.explain(wanted))
    expected = np.searchsorted(np.array(numbers), np.array(wanted))
    np.testing.assert_array_equal(np.array(compiled(wanted)), expected)
