"""Trigonometric and hyperbolic functions against MLX and finite differences."""

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
    values_of,
)

import ingot.core as mx

INF = float("inf")
NAN = float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, NAN]
FUNCTIONS = "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh".split()
ALIASES = "asin acos atan atan2 asinh acosh atanh".split()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("a", [(SPECIAL, "float32"), ([0, 1], "uint8"), 0.5, True])
def test_values(name: str, a: Any) -> None:
    assert_same(name, a, rounding=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_accuracy(name: str, dtype: str) -> None:
    """Within NumPy's four units in the last place of what double precision gives."""
    low, high = (-0.99, 0.99) if name in ("arcsin", "arccos", "arctanh") else (1, 9)
    inputs = mx.array(np.random.default_rng(3).uniform(low, high, 1000)).astype(getattr(mx, dtype))
    exact = getattr(np, name)(np.array(inputs.astype(mx.float64)))
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
    found = np.array(getattr(mx, name)(inputs).astype(mx.float64))
    np.testing.assert_allclose(found, exact, 4 * unit[dtype], 1e-30)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_complex_values(name: str) -> None:
    points = [1 + 2j, -3 + 0.5j, 0.2 - 0.4j]
    assert_same(name, (points, "complex64"), rounding=1e-5)
    assert_derivatives(getattr(mx, name), points, complex_points=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    points = np.array([1.3, 2.2, 4.0]) if name == "arccosh" else np.array([-0.7, 0.2, 0.5])
    assert_derivatives(getattr(mx, name), points)
    assert_vmap(getattr(mx, name), np.stack([points, points]))
    assert_same_derivatives(name, SPECIAL, rounding=1e-5)


def test_arctan2() -> None:
    a = [0.0, -0.0, 0.0, -0.0, 1.0, INF, NAN, -2.0]
    b = [0.0, 0.0, -1.0, -1.0, 0.0, 1.0, 1.0, -3.0]
    assert_same("arctan2", (a, "float32"), (b, "float32"), rounding=2e-7)
    assert_same("arctan2", 1, ([2, 3], "int32"), rounding=2e-7)
    assert_derivatives(mx.arctan2, [1.0, -2.0, 0.3], [0.5, 1.5, -2.0])
    assert_same_derivatives("arctan2", a, b)
    assert_vmap(mx.arctan2, np.ones((2, 3)), np.arange(6.0).reshape(2, 3))
    assert_same_error("arctan2", ([1j], "complex64"), 1, match="[arctan2] does not take arrays")


@pytest.mark.parametrize("name", ALIASES)
def test_aliases(name: str) -> None:
    assert getattr(mx, name) is getattr(mx, name.replace("a", "arc", 1))


@pytest.mark.parametrize("name", ["degrees", "radians"])
def test_units_of_angles(name: str) -> None:
    for a in ((SPECIAL, "float32"), ([90, 180], "int32"), ([1.5], "float16"), 180, True):
        assert_same(name, a, rounding=1e-6)
    assert_derivatives(getattr(mx, name), [1.0, 2.0])


def test_the_largest_arguments_are_reduced() -> None:
    large = np.array([1e5, 1e10, 3e38], np.float32)
    for name in ("sin", "cos"):
        exact = getattr(np, name)(large.astype(np.float64))
        np.testing.assert_allclose(values_of(getattr(mx, name)(mx.array(large))), exact, 1e-5)
