"""Rounding against MLX."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.elementwise import (
    assert_same,
    assert_same_derivatives,
    assert_same_error,
    assert_vmap,
    values_of,
)

import ingot.core as mx

INF = float("inf")
NAN = float("nan")
X = [0.5, 1.5, 2.5, -0.5, -1.5, -2.7, 3.2, INF, -INF, NAN, 1e20]
FUNCTIONS = ["floor", "ceil", "trunc", "round"]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "a",
    [
        (X, "float32"),
        (X[:7], "float16"),
        (X[:7], "bfloat16"),
        (X, "float64"),
        ([-7, 0, 127], "int8"),
        ([7, 255], "uint8"),
        ([True, False], "bool_"),
    ],
)
def test_whole_numbers(name: str, a: Any) -> None:
    assert_same(name, a)


@pytest.mark.parametrize("name", ["floor", "ceil", "round"])
def test_numbers(name: str) -> None:
    for number in (2.5, 3, True):
        assert_same(name, number)


@pytest.mark.parametrize("decimals", [-3, -2, -1, 0, 1, 2, 3])
@pytest.mark.parametrize(
    "a",
    [
        ([1.25, 1.35, -1.25, 155.0, 0.3, NAN, INF], "float32"),
        ([15, 25, -15, 14, 16, 250], "int32"),
        ([15, 25, 250], "uint8"),
        ([1.5 + 2.5j, -12.25 - 0.75j], "complex64"),
        ([True, False], "bool_"),
    ],
)
def test_decimals(decimals: int, a: Any) -> None:
    assert_same("round", a, decimals, rounding=2.5e-7)


def test_decimals_are_exact_where_the_dtype_is() -> None:
    """MLX goes through float32 for integers and scales in float32 for float64."""
    large = mx.array([123456789, -(2**31), 2**31 - 1], dtype=mx.int32)
    assert values_of(mx.round(large, 2)).tolist() == values_of(large).tolist()
    assert values_of(mx.round(large[:1], -2)).tolist() == [123456800]
    assert values_of(mx.round(mx.array([2500]), -3)).tolist() == [2000]
    double = mx.array([1.23456789012345, 2.5], dtype=mx.float64)
    assert values_of(mx.round(double, decimals=8)).tolist() == [1.23456789, 2.5]


def test_derivatives_are_zero() -> None:
    for name in FUNCTIONS:
        assert_same_derivatives(name, [0.0, 1.0, 2.5, -2.5])
        assert_vmap(getattr(mx, name), np.array([[0.5, 1.5], [-2.5, 3.0]]))


@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("floor", (([1j], "complex64"),), "[floor] does not take arrays of dtype"),
        ("ceil", (([1j], "complex64"),), "[ceil] does not take arrays of dtype"),
        ("trunc", (([1j], "complex64"),), "[trunc] does not take arrays of dtype"),
        ("trunc", (1.5,), "[trunc] a must be an array, got float: 1.5."),
        ("round", (([1.5], "float32"), 1.5), "[round] decimals must be an int, got float: 1.5."),
    ],
)
def test_refusals(name: str, arguments: Any, match: str) -> None:
    assert_same_error(name, *arguments, match=match)


def test_the_method_takes_decimals() -> None:
    assert values_of(mx.array([2.56]).round(decimals=1)).tolist() == [np.float32(2.6)]
    assert values_of(mx.array([2.56]).round(1)).tolist() == [np.float32(2.6)]
