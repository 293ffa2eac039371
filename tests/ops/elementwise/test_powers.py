"""Powers and roots against MLX and finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.elementwise import (
    assert_derivatives,
    assert_same,
    assert_same_derivatives,
    assert_vmap,
    values_of,
)

import ingot.core as mx
from ingot.ops.elementwise.powers import Cube, Square, _real_power

INF = float("inf")
NAN = float("nan")
X = ([0.0, -0.0, -2.0, -2.0, NAN, 1.0, 3.0, 2.5], "float32")
Y = ([-1.0, -1.0, 3.0, 0.5, 0.0, NAN, -2.0, 1.5], "float32")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, INF, NAN]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (X, Y),
        (([2, 3, -1, 1, 0, 5, -1], "int32"), ([-1, -2, -3, -1, 0, 31, -2], "int32")),
        (([2, 3], "int8"), ([7, 5], "int8")),
        (([2, 3], "uint8"), ([8, 255], "uint8")),
        (([True, True, False, False], "bool_"), ([True, False, True, False], "bool_")),
        (2, ([1, 2, 3], "int32")),
        (([2, 3], "int32"), 0.5),
        (([True, False], "bool_"), 2),
        (0, 0),
    ],
)
def test_powers(a: Any, b: Any) -> None:
    assert_same("power", a, b, rounding=2e-7)
    assert_same("pow", a, b, rounding=2e-7)


def test_complex_powers() -> None:
    z = ([1 + 2j, -3 + 0.5j, 0j, 2], "complex64")
    w = ([2 - 1j, 0.5 + 2j, 1 + 1j, 3], "complex64")
    assert_same("power", z, w, rounding=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int16", "complex64"])
def test_the_power_of_two_is_a_square(dtype: str) -> None:
    values = mx.array([1, -3, 5]).astype(getattr(mx, dtype))
    result = values**2
    assert isinstance(result._node.op, Square)
    assert result.dtype == values.dtype
    assert values_of(result).tolist() == [1, 9, 25]
    cubes = mx.power(values, 3)
    assert isinstance(cubes._node.op, Cube)
    assert cubes.dtype == values.dtype
    assert values_of(cubes).tolist() == [1, -27, 125]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_cubes_are_those_of_mlx(dtype: str) -> None:
    numbers = [-3.3, -0.0, 0.0, 1e-3, 0.7, 2.9, 7.0]
    given = ([int(x) for x in numbers] if dtype == "int32" else numbers, dtype)
    exact = 4e-3 if dtype == "bfloat16" else 5e-4 if dtype == "float16" else 3e-7
    assert_same("power", given, 3, rounding=exact)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("exponent", [0.5, -0.5, 1.5, 1 / 3])
def test_fractional_powers_of_special_values(dtype: str, exponent: float) -> None:
    """Powers of one half are square roots, except of -inf and -0.0."""
    exact = 8e-3 if dtype == "bfloat16" else 1e-3 if dtype == "float16" else 3e-7
    assert_same("power", (SPECIAL, dtype), exponent, rounding=exact)
    assert_same("power", ([0.0, 0.25, 7.0], dtype), exponent, rounding=exact)


def test_derivatives_of_cubes() -> None:
    assert_derivatives(lambda x: x**3, [-2.0, 0.0, 0.5, 3.0])


@pytest.mark.parametrize("name", ["square", "sqrt", "rsqrt"])
@pytest.mark.parametrize(
    "a", [(SPECIAL, "float32"), ([0, 1, 200], "uint8"), ([True, False], "bool_"), 4, 2.25]
)
def test_roots(name: str, a: Any) -> None:
    assert_same(name, a, rounding=2e-7)


@pytest.mark.parametrize("name", ["square", "sqrt", "rsqrt"])
def test_complex_roots(name: str) -> None:
    assert_same(name, ([1 + 2j, -3 + 0.5j, -4], "complex64"), rounding=1e-6)
    assert_derivatives(getattr(mx, name), [1 + 2j, -3 + 0.5j], complex_points=True)


@pytest.mark.parametrize(
    "function", [mx.square, mx.sqrt, mx.rsqrt], ids=lambda function: function.__name__
)
def test_derivatives(function: Any) -> None:
    points = np.array([0.3, 1.0, 2.7])
    assert_derivatives(function, points)
    assert_vmap(function, np.stack([points, points + 1]))


def test_derivatives_of_powers() -> None:
    bases = np.array([0.3, 1.0, 2.7])
    exponents = np.array([-1.2, 3.0, 0.4])
    assert_derivatives(mx.power, bases, exponents)
    assert_derivatives(lambda x: x**2, -bases)
    assert_derivatives(lambda x: x**3, -bases)
    assert_derivatives(lambda x: 2**x, exponents)
    assert_derivatives(mx.power, [1 + 2j, -3 + 0.5j], [2 - 1j, 0.5 + 0.2j], complex_points=True)
    assert_vmap(mx.power, np.stack([bases, bases + 1]), np.stack([exponents, exponents]))


def test_derivatives_at_special_points() -> None:
    for name in ("square", "sqrt", "rsqrt"):
        assert_same_derivatives(name, SPECIAL)
    bases = [0.0, 0, 0, 2, -2, -2, -2, 1, 0, 0]
    assert_same_derivatives("power", bases, [0.0, 1, 2, 3, 3, 2, 0.5, 0, 0.5, -1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("exponent", [None, 3.0, -3.0, 1.5, 4.0, -1.0, 0.5, INF, NAN])
def test_negative_bases(dtype: Any, exponent: float | None) -> None:
    """They are computed from their magnitudes, because NumPy takes long for them."""
    bases = np.array([*SPECIAL, -INF, -2.5, -7.0, -0.5, 1e30, -1e30], dtype)
    exponents = np.array([*SPECIAL, -INF, 3.0, -3.0, 4.0, 0.5, 2.0**24 + 2, -7.0], dtype)
    x, y = np.meshgrid(bases, exponents)
    if exponent is not None:
        y = np.broadcast_to(np.array(exponent, dtype), x.shape)
    with np.errstate(all="ignore"):
        # A copy, because NumPy takes square roots of -inf if one exponent of 0.5 is for all.
        found, expected = _real_power(x, y), np.power(x, y.copy())
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, rtol=3e-7)
    is_number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(expected[is_number]))
