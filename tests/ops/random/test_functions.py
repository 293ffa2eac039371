"""The functions behind random numbers against SciPy, and their derivatives.

That their bits are MLX's is tested here for all that random numbers need of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core
import numpy as np
import pytest
import scipy.special
from tests.support.elementwise import assert_vmap

import ingot.core as mx
from ingot.ops.random.functions import (
    matching_erf,
    matching_erfinv,
    matching_log,
    matching_log1p,
    matching_product,
)

FUNCTIONS: dict[str, tuple[Callable[..., mx.array], Callable[..., Any]]] = {
    "log": (matching_log, np.log),
    "log1p": (matching_log1p, np.log1p),
    "erf": (matching_erf, scipy.special.erf),
    "erfinv": (matching_erfinv, scipy.special.erfinv),
}
RANGES = {"log": (0, 2), "log1p": (-1, 1), "erf": (-5, 5), "erfinv": (-1, 1)}
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 0.99999994, 1e-45, 11.0],
    np.float32,
)


def inputs(name: str, size: int = 300_000) -> np.ndarray:
    generator = np.random.default_rng(5)
    low, high = RANGES[name]
    plain = generator.uniform(low, high, size)
    near_the_ends = [low + (high - low) * plain**9 / (abs(low) + abs(high)) ** 9, high - plain**8]
    return np.concatenate([SPECIAL, plain, *near_the_ends]).astype(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_bits(name: str, dtype: str) -> None:
    if name == "log1p" and dtype != "float32":
        return  # it is taken of float32 and float64 only
    given = inputs(name)
    ours = FUNCTIONS[name][0](mx.array(given).astype(getattr(mx, dtype)))
    theirs = getattr(mlx.core, name)(mlx.core.array(given).astype(getattr(mlx.core, dtype)))
    found, expected = np.array(ours.astype(mx.float32)), np.array(theirs.astype(mlx.core.float32))
    np.testing.assert_array_equal(found, expected)


def test_bits_in_float64() -> None:
    given = inputs("log1p").astype(np.float64)
    theirs = mlx.core.log1p(mlx.core.array(given, dtype=mlx.core.float64))
    ours = matching_log1p(mx.array(given, dtype=mx.float64))
    np.testing.assert_array_equal(np.array(ours), np.array(theirs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(name: str) -> None:
    given = inputs(name, 1000)[SPECIAL.size :]
    function, reference = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        expected = reference(given.astype(np.float64))
    np.testing.assert_allclose(np.array(function(mx.array(given))), expected, 5e-7, 5e-7)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    points = mx.array([0.1, 0.5, 0.8])
    function = FUNCTIONS[name][0]
    ordinary = getattr(mx, name)
    for transform in (mx.grad, lambda f: mx.grad(lambda x: mx.grad(f)(x).sum())):
        found = transform(lambda x: function(x).sum())(points)
        expected = transform(lambda x: ordinary(x).sum())(points)
        np.testing.assert_allclose(found.tolist(), expected.tolist(), 1e-5)
    assert_vmap(function, np.array([[0.1, 0.5], [0.8, 0.3]], np.float32))


def test_products() -> None:
    """They are rounded before they are added to, compiled or not."""
    x, y, z = (mx.array(np.random.default_rng(i).normal(size=40_000)) for i in range(3))
    expected = np.array(x) * np.array(y) + np.array(z)
    together = mx.compile(lambda a, b, c: matching_product(a, b) + c)
    for _ in range(3):
        np.testing.assert_array_equal(np.array(matching_product(x, y) + z), expected)
        np.testing.assert_array_equal(np.array(together(x, y, z)), expected)
    a, b = mx.grad(lambda x, y: matching_product(x, y).sum(), argnums=(0, 1))(x, y)
    assert a.tolist() == y.tolist()
    assert b.tolist() == x.tolist()
