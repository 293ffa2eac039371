"""Maxima, minima, limits and replacements of special values against MLX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.elementwise import (
    assert_derivatives,
    assert_same,
    assert_same_derivatives,
    assert_same_error,
    assert_vmap,
)

import ingot.core as mx

INF = float("inf")
NAN = float("nan")
X = ([0.0, 1.0, 2.0, NAN, 1.0, -INF], "float32")
Y = ([0.0, 2.0, 1.0, 1.0, NAN, INF], "float32")
Z = ([1 + 1j, 1 + 2j, complex(NAN, 1), 2], "complex64")
W = ([1 + 3j, 1 + 0j, 1, 1 - 1j], "complex64")


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize(
    ("a", "b"),
    [
        (X, Y),
        (Z, W),
        (([1, -5], "int8"), 0),
        (([1, 5], "int32"), 2.5),
        (([True, False], "bool_"), ([False, False], "bool_")),
        (([1.5, NAN], "bfloat16"), ([2.5, 1.0], "bfloat16")),
    ],
)
def test_extremes(name: str, a: Any, b: Any) -> None:
    assert_same(name, a, b)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_derivatives(name: str) -> None:
    assert_derivatives(getattr(mx, name), [1.0, 2.0, -3.0], [2.0, 1.0, -4.0])
    assert_same_derivatives(name, X[0], Y[0])
    assert_vmap(getattr(mx, name), np.arange(6.0).reshape(2, 3), np.full((2, 3), 2.5))


@pytest.mark.parametrize(
    "limits",
    [
        (0, 1),
        (None, 1),
        (0.5, None),
        (3, 1),
        (([0.5], "float32"), 2),
        (([1, 1, 1, 1, 1, 1], "int32"), 9),
    ],
)
@pytest.mark.parametrize("a", [X, ([1, 5, 9, 2, 0, 7], "uint8"), ([2, -5, 0, 1, 1, 1], "int64")])
def test_clip(a: Any, limits: Any) -> None:
    assert_same("clip", a, *limits)


def test_derivatives_of_clip() -> None:
    assert_derivatives(lambda x: mx.clip(x, 0, 1), [-0.5, 0.3, 1.7])
    assert_same_derivatives("clip", [0.0, 1, 0.5, -1, 2], [0.0] * 5, [1.0] * 5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32", "bool_"])
def test_nan_to_num(dtype: str) -> None:
    values = [1, 0] if dtype in ("int32", "bool_") else [1.0, NAN, INF, -INF, -2.0]
    assert_same("nan_to_num", (values, dtype))
    assert_same("nan_to_num", (values, dtype), 1.5)
    assert_same("nan_to_num", (values, dtype), nan=1e9, posinf=3.0, neginf=-1)


def test_nan_to_num_elsewhere() -> None:
    assert_same("nan_to_num", 2.5)
    assert_same("nan_to_num", 3)
    assert_same("nan_to_num", ([NAN, INF], "float64"), posinf=1.0, neginf=2.0)
    assert_same_derivatives("nan_to_num", [1.0, NAN, INF, -INF])
    data = np.array([[1.0, NAN], [INF, 2.0]], np.float32)
    assert_vmap(mx.nan_to_num, data)


@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("clip", (X, None, None), "[clip] a_min and a_max cannot both be None"),
        ("clip", (1, 0, 2), "[clip] a must be an array, got int: 1."),
        ("clip", (X, 0), "clip"),
        ("nan_to_num", (([1.0], "float64"),), "[nan_to_num] needs posinf and neginf"),
        ("nan_to_num", (([1j], "complex64"), 0, 1.0), "[nan_to_num] needs posinf and neginf"),
        ("nan_to_num", ([1.0],), "[nan_to_num] takes arrays and numbers, got list."),
    ],
)
def test_refusals(name: str, arguments: Any, match: str) -> None:
    assert_same_error(name, *arguments, match=match)
