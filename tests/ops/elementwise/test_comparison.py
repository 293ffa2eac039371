"""Comparisons, logic, selection and questions for special values against MLX."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from tests.support.elementwise import (
    assert_derivatives,
    assert_same,
    assert_same_derivatives,
    assert_same_error,
    assert_vmap,
    values_of,
)

import ingot.core as mx

INF = float("inf")
NAN = float("nan")
X = ([1.0, 2.0, NAN, INF, -INF, 0.0, -0.0], "float32")
Y = ([2.0, 2.0, NAN, INF, INF, -0.0, 1.0], "float32")
Z = ([1 + 1j, 1 + 2j, 1j, 0j, 2], "complex64")
W = ([1 + 3j, 1 + 0j, 1j, 1, 1], "complex64")
I8 = ([-5, 0, 7], "int8")
YES = ([True, True, False, False], "bool_")
NO = ([True, False, True, False], "bool_")
OPERATORS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}
PAIRS = [(X, Y), (Z, W), (I8, 0), (2.5, I8), (YES, NO), (I8, ([0, 1, 200], "uint8"))]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_comparisons(name: str, a: Any, b: Any) -> None:
    assert_same(name, a, b)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_the_functions(name: str) -> None:
    a, b = mx.array(X[0]), mx.array(Y[0])
    for left, right in ((a, b), (a, 1), (1.0, b)):
        expected = values_of(getattr(mx, name)(left, right))
        np.testing.assert_array_equal(values_of(OPERATORS[name](left, right)), expected)


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
@pytest.mark.parametrize(("a", "b"), [*PAIRS, (True, 0)])
def test_logic(name: str, a: Any, b: Any) -> None:
    assert_same(name, a, b)


@pytest.mark.parametrize("a", [X, Z, I8, YES, 2, 0.0])
def test_logical_not(a: Any) -> None:
    assert_same("logical_not", a)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "isposinf", "isneginf"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_special_values(name: str, dtype: str) -> None:
    assert_same(name, ([1.0, NAN, INF, -INF, 0.0], dtype))


COMPLEX = [complex(NAN, 1), complex(1, NAN), complex(INF, 1), complex(1, -INF), complex(INF, NAN)]


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "isposinf", "isneginf"])
@pytest.mark.parametrize("a", [I8, YES, (COMPLEX, "complex64"), ([3e38 + 3e38j], "complex64"), 1.5])
def test_special_values_elsewhere(name: str, a: Any) -> None:
    assert_same(name, a)


@pytest.mark.parametrize(
    ("condition", "a", "b"),
    [
        (YES, ([1, 2, 3, 4], "int8"), 2.5),
        (([0.0, 2.0, NAN, -0.0], "float32"), ([1, 2, 3, 4], "float16"), 0),
        (([1j, 0j], "complex64"), 1, 2),
        (True, 1, ([2, 3], "uint8")),
        (YES, ([[1], [2]], "int32"), ([1.5, 2.5, NAN, 0.5], "bfloat16")),
    ],
)
def test_where(condition: Any, a: Any, b: Any) -> None:
    assert_same("where", condition, a, b)


def test_selection_keeps_the_derivative_of_what_is_not_selected_out() -> None:
    condition = mx.array([True, False])
    a, b = mx.array([1.0, 2.0]), mx.array([NAN, INF])
    ones = mx.array([1.0, 1.0])
    _, found = mx.vjp(lambda x, y: mx.where(condition, x, y), [a, b], [ones])
    assert [values_of(item).tolist() for item in found] == [[1, 0], [0, 1]]
    assert_derivatives(lambda x, y: mx.where(x > y, x * y, y * y), [1.0, 3.0], [2.0, 2.0])
    assert_derivatives(lambda x: mx.where(x > 1, x * x, 7), [0.5, 3.0])
    assert_same_derivatives("where", [1.0, 0.0], [1.0, 2.0], [NAN, INF])
    data = np.arange(6.0).reshape(2, 3)
    assert_vmap(mx.where, data > 2, data, -data)


def test_comparisons_have_no_derivative() -> None:
    for name in ("less", "equal", "logical_and"):
        assert_same_derivatives(name, [1.0, 2.0], [2.0, 2.0])
    assert_vmap(mx.less, np.arange(6.0).reshape(2, 3), np.ones((2, 3)))


@pytest.mark.parametrize(
    ("a", "b"),
    [(X, Y), (X, X), (Z, Z), (I8, I8), (YES, NO), (([1e-3], "float16"), ([0.0], "float16"))],
)
def test_isclose(a: Any, b: Any) -> None:
    assert_same("isclose", a, b)
    assert_same("isclose", a, b, 0.5, 1e-3, equal_nan=True)
    assert_same("isclose", a, b, rtol=0, atol=1.0)


def test_refusals() -> None:
    assert_same_error("isclose", 1, 2, match="[isclose] a must be an array, got int: 1.")
    assert_same_error("isnan", "a", match="[isnan] takes arrays and numbers, got str.")
    assert_same_error("isnan", None, match="[isnan] takes arrays and numbers, got NoneType.")
    assert_same_error("where", YES, ([1, 2], "int32"), ([1, 2, 3], "int32"), match="[where]")
