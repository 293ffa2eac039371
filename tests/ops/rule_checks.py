"""Checks that tests of reductions, scans and sorting share: derivatives and vmap of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import ingot.core as mx

Function = Callable[[mx.array], mx.array]


def numbers(a: Any) -> np.ndarray:
    """The values of an array of ingot or MLX."""
    return np.array(a.tolist())


def _weighted(function: Function, x: mx.array, seed: int) -> Function:
    """The function followed by a sum in which all its results have weights of their own."""
    weights = np.random.default_rng(seed).normal(size=function(x).shape)
    return lambda y: (function(y) * mx.array(weights, dtype=mx.float64)).sum()


def _differences(function: Function, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient of a scalar function by central differences."""
    gradient = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        above, below = x.copy(), x.copy()
        above[place] += step
        below[place] -= step
        up, down = (function(mx.array(y, dtype=mx.float64)).item() for y in (above, below))
        gradient[place] = (up - down) / (2 * step)
    return gradient


def check_derivatives(function: Function, x: np.ndarray) -> None:
    """vjp and jvp equal central differences in float64, to second order."""
    point = mx.array(x, dtype=mx.float64)
    scalar = _weighted(function, point, 1)
    gradient = numbers(mx.grad(scalar)(point))
    np.testing.assert_allclose(gradient, _differences(scalar, x), rtol=1e-6, atol=1e-7)

    direction = np.random.default_rng(2).normal(size=x.shape)
    _, change = mx.jvp(scalar, [point], [mx.array(direction, dtype=mx.float64)])
    np.testing.assert_allclose(change[0].item(), np.sum(gradient * direction), rtol=1e-9)

    slope = _weighted(mx.grad(scalar), point, 3)
    second = numbers(mx.grad(slope)(point))
    np.testing.assert_allclose(second, _differences(slope, x), rtol=1e-5, atol=1e-6)
    _, change = mx.jvp(slope, [point], [mx.array(direction, dtype=mx.float64)])
    np.testing.assert_allclose(change[0].item(), np.sum(second * direction), rtol=1e-6, atol=1e-9)


def check_vmap(function: Function, x: np.ndarray) -> None:
    """Mapping over the first axis, and over the last, equals a loop."""
    batch = mx.array(x)
    looped = np.stack([numbers(function(row)) for row in batch])
    np.testing.assert_array_equal(numbers(mx.vmap(function)(batch)), looped)
    along_last = mx.moveaxis(batch, 0, -1)
    mapped = mx.vmap(function, in_axes=-1, out_axes=0)(along_last)
    np.testing.assert_array_equal(numbers(mapped), looped)
