"""Sums, products, quotients, signs and magnitudes against MLX and finite differences."""

from __future__ import annotations

import operator
from typing import Any

import mlx.core as oracle
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
X = ([-7.5, 7.5, INF, -1.0, 0.0, 6.0, NAN, 3.0], "float32")
Y = ([2.0, -2.0, 2.0, INF, -3.0, 3.0, 1.0, NAN], "float32")
I8 = ([-7, 7, -8, 8, -128, 127], "int8")
J8 = ([3, -3, 4, -4, -1, 2], "int8")
YES = ([True, True, False, False], "bool_")
NO = ([True, False, True, False], "bool_")
Z = ([1 + 2j, -3 + 0.5j, 0j], "complex64")
W = ([2 - 1j, 0.5 + 2j, 1 + 1j], "complex64")


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(("a", "b"), [(X, Y), (I8, J8), (YES, NO), (Z, W), (I8, 2), (2.5, I8)])
def test_sums_and_products(name: str, a: Any, b: Any) -> None:
    assert_same(name, a, b)


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "divmod"])
@pytest.mark.parametrize(("a", "b"), [(X, Y), (I8, J8), (I8, 3), (7, J8), (-7.5, 2), (YES, True)])
def test_whole_quotients(name: str, a: Any, b: Any) -> None:
    assert_same(name, a, b)


INTEGERS = [sign + f"int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool_"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_integers_divided_by_zero(name: str, dtype: str) -> None:
    values = np.arange(40).astype("bool" if dtype == "bool_" else dtype)
    expected = getattr(oracle, name)(oracle.array(values), oracle.zeros(40, getattr(oracle, dtype)))
    x, zero = mx.array(values), mx.array(0, getattr(mx, dtype))
    function = getattr(mx, name)
    found = [
        function(x, zero),
        function(x, mx.zeros(40, zero.dtype)),
        mx.compile(function)(x, mx.zeros(40, zero.dtype)),
        mx.compile(lambda x: function(x, mx.array(0, x.dtype)))(x),
        mx.compile(lambda: function(mx.array(values), mx.array(0, x.dtype)))(),
    ]
    for result in found:
        np.testing.assert_array_equal(values_of(result), np.array(expected))


def test_divmod_by_zero() -> None:
    """MLX's divmod of these integers ends the process by a signal; its // and % do not."""
    x = mx.array([-7, 0, 7])
    zero = mx.zeros(3, x.dtype)
    for function in (mx.divmod, mx.compile(mx.divmod)):
        quotient, rest = function(x, zero)
        assert quotient.tolist() == [0, 0, 0]
        assert rest.tolist() == [-7, 0, 7]


@pytest.mark.parametrize(("a", "b"), [(X, Y), (I8, J8), (1, 3), (YES, 2)])
def test_quotients(a: Any, b: Any) -> None:
    assert_same("divide", a, b)


def test_complex_quotients() -> None:
    assert_same("divide", Z, W, rounding=1e-6)
    assert_same("floor_divide", Z, W, rounding=1e-6)


def test_the_lowest_integer_stays_where_it_is() -> None:
    lowest = mx.array([-(2**31)], dtype=mx.int32)
    for result in (lowest // -1, mx.abs(lowest), -lowest):
        assert values_of(result).tolist() == [-(2**31)]
    assert values_of(lowest % -1).tolist() == [0]


@pytest.mark.parametrize("name", ["abs", "sign", "negative", "reciprocal"])
@pytest.mark.parametrize("a", [X, I8, Z, ([0, 3, 255], "uint8"), -3, 2.5, 3 - 4j])
def test_of_one_argument(name: str, a: Any) -> None:
    if name == "reciprocal" and a is Z:
        a = W
    assert_same(name, a, rounding=1e-6)


@pytest.mark.parametrize("name", ["abs", "sign", "reciprocal"])
def test_of_booleans(name: str) -> None:
    assert_same(name, YES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "remainder"])
def test_half_types_are_rounded_once(name: str, dtype: str) -> None:
    values = np.random.default_rng(1).normal(0, 3, (2, 200)).astype(np.float32)
    assert_same(name, (values[0], dtype), (values[1], dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_quotients_of_half_types_are_rounded_before_they_are_rounded_down(dtype: str) -> None:
    values = np.random.default_rng(2).uniform(0.1, 5, 3000).astype(np.float32)
    assert_same("floor_divide", 2, (values, dtype))
    assert_same("floor_divide", (values * 7, dtype), (values[::-1].copy(), dtype))


def test_operators_are_the_functions() -> None:
    a, b = mx.array([7.0, -7.0]), mx.array([2.0, 3.0])
    for name, symbol in {
        "add": operator.add,
        "subtract": operator.sub,
        "multiply": operator.mul,
        "divide": operator.truediv,
        "floor_divide": operator.floordiv,
        "remainder": operator.mod,
        "divmod": divmod,
    }.items():
        for left, right in ((a, b), (a, 2), (2, b)):
            expected = values_of(getattr(mx, name)(left, right))
            np.testing.assert_array_equal(values_of(symbol(left, right)), expected)
    np.testing.assert_array_equal(values_of(-a), [-7, 7])
    np.testing.assert_array_equal(values_of(abs(a)), [7, 7])


def test_positive_does_no_work() -> None:
    a = mx.array([1, 2])
    assert mx.positive(a)._node is a._node


@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        ("negative", (YES,), "[negative] does not take arrays of dtype"),
        ("remainder", (Z, W), "[remainder] does not take arrays of dtype"),
        ("divmod", (Z, W), "[remainder] does not take arrays of dtype"),
        ("add", (X, I8), "[add]"),
        ("add", (X, "a"), "[add] takes arrays and numbers, got str."),
        ("abs", ([1, 2],), "[abs] takes arrays and numbers, got list."),
        ("positive", (3,), "[positive] a must be an array, got int: 3."),
        ("add", (1,), "add()"),
        ("add", (1, 2, None), "add()"),
    ],
)
def test_refusals(name: str, arguments: Any, match: str) -> None:
    assert_same_error(name, *arguments, match=match)


POINTS = np.array([-2.3, -0.7, 0.4, 1.9])
OTHERS = np.array([1.3, -0.6, 2.2, -3.1])


@pytest.mark.parametrize(
    "function",
    [mx.add, mx.subtract, mx.multiply, mx.divide, mx.remainder, mx.floor_divide],
    ids=lambda function: function.__name__,
)
def test_derivatives_by_two(function: Any) -> None:
    assert_derivatives(function, POINTS, OTHERS)
    assert_vmap(function, np.stack([POINTS, OTHERS]), np.stack([OTHERS, POINTS]))


@pytest.mark.parametrize(
    "function",
    [mx.negative, mx.abs, mx.sign, mx.reciprocal, mx.positive],
    ids=lambda function: function.__name__,
)
def test_derivatives_by_one(function: Any) -> None:
    assert_derivatives(function, POINTS)
    assert_vmap(function, np.stack([POINTS, OTHERS]))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide"])
def test_complex_derivatives(name: str) -> None:
    assert_derivatives(getattr(mx, name), Z[0][:2], W[0][:2], complex_points=True)


def test_the_modulus_grows_outward() -> None:
    point, direction = mx.array(Z[0][:2]), mx.array(W[0][:2])
    ones = mx.array([1.0, 2.0])
    with oracle.stream(oracle.cpu):
        same = oracle.array(Z[0][:2])
        expected = oracle.vjp(oracle.abs, [same], [oracle.array([1.0, 2.0])])[1][0]
        tangent = oracle.jvp(oracle.abs, [same], [oracle.array(W[0][:2])])[1][0]
    found = mx.vjp(mx.abs, [point], [ones])[1][0]
    np.testing.assert_allclose(values_of(found), values_of(expected), 1e-6)
    found = mx.jvp(mx.abs, [point], [direction])[1][0]
    np.testing.assert_allclose(values_of(found), values_of(tangent), 1e-6, 1e-6)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, NAN]


@pytest.mark.parametrize("name", ["abs", "sign", "negative", "reciprocal"])
def test_derivatives_at_special_points(name: str) -> None:
    assert_same_derivatives(name, SPECIAL)


def test_quotient_derivatives_at_special_points() -> None:
    assert_same_derivatives("divide", [5.0, -5.0, 0.0, 1.0], [3.0, 3.0, 0.0, 0.0])
    assert_same_derivatives("remainder", [5.0, -5.0, 5.0, 6.0], [3.0, 3.0, -3.0, 3.0])
    assert_same_derivatives("floor_divide", [5.0, -5.0], [3.0, 3.0])
