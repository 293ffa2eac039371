"""Verification: which differences between uncompiled and compiled results are noticed, and how."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call.verify import VerificationError, compare, flat_values


def problem(before: Any, after: Any) -> str:
    with pytest.raises(VerificationError) as caught:
        compare("function", flat_values(before), flat_values(after))
    return str(caught.value)


def test_equal_results() -> None:
    nan = float("nan")
    tree = {"a": [mx.array([1.0, nan, float("inf")]), 3], "b": (None, "text"), "c": mx.array(1)}
    compare("function", flat_values(tree), flat_values(tree))
    near = mx.array([1.0 + 1e-6])
    compare("function", flat_values(mx.array([1.0])), flat_values(near))
    half = mx.array([1.0, 2.0], mx.float16)
    compare("function", flat_values(half), flat_values(half + 0.005))
    compare("function", flat_values(mx.array(1 + 2j)), flat_values(mx.array(1 + 2j)))


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ([mx.array(1.0)], [], "[compile] function gives 1 results uncompiled and 0 compiled."),
        (
            [1, mx.array([1.0, 2.0])],
            [1, mx.array([1.0, 2.5])],
            "[compile] result 1 of function differs: 1 of 2 elements are off, by up to 0.5.",
        ),
        (
            mx.array(1.0),
            mx.array(1),
            "[compile] result 0 of function differs: dtype float32 uncompiled, int32 compiled.",
        ),
        (
            mx.zeros((2, 3)),
            mx.zeros((3, 2)),
            "[compile] result 0 of function differs: shape (2, 3) uncompiled, (3, 2) compiled.",
        ),
        (
            mx.array([1, 2, 3]),
            mx.array([1, 3, 2]),
            "[compile] result 0 of function differs: 2 of 3 elements are not equal.",
        ),
        ("a", "b", "[compile] result 0 of function differs: 'a' uncompiled, 'b' compiled."),
        (
            mx.array([float("nan")]),
            mx.array([1.0]),
            "[compile] result 0 of function differs: 1 of 1 elements are off, by up to nan.",
        ),
    ],
)
def test_differences(before: Any, after: Any, sentence: str) -> None:
    assert problem(before, after) == sentence


def test_values_are_taken_at_once() -> None:
    x = mx.array([1.0])
    kept = flat_values([x])
    x += 1
    np.testing.assert_array_equal(kept[0][1], [1.0])


def test_random_functions_are_verified_from_the_same_state() -> None:
    compiled = mx.compile(lambda x: x * mx.random.uniform(shape=(3,)), verify=True)
    mx.random.seed(1)
    first = compiled(mx.ones(3)).tolist()
    second = compiled(mx.ones(3)).tolist()
    assert first != second
    mx.random.seed(1)
    np.testing.assert_allclose(mx.random.uniform(shape=(3,)), first, rtol=1e-6)


def test_arguments_that_the_function_changes() -> None:
    def function(x: Any) -> Any:
        x += 1
        return x * 2

    x = mx.array([1.0])
    assert mx.compile(function, verify=True)(x).tolist() == [4.0]
    assert x.tolist() == [1.0]
