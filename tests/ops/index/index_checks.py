"""Checks that tests of slices, gathers and scatters share: both derivatives, and vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import ingot.core as mx

Function = Callable[..., Any]


def value(x: Any) -> np.ndarray:
    """An array of ingot as a NumPy array."""
    return np.array(x)


def exact(x: np.ndarray) -> Any:
    """A NumPy array as an array of ingot, without rounding float64 to float32."""
    return mx.array(x, mx.float64) if x.dtype == np.float64 else mx.array(x)


def doubles(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers between 0.5 and 1.5, all different: no zeros, no ties."""
    count = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(count)
    return (0.5 + (order + 0.3) / max(count, 1)).reshape(shape)


def check_derivatives(function: Function, *primals: np.ndarray, order: int = 2) -> None:
    """vjp and jvp of a function of float64 arrays against central differences, to that order."""
    rng = np.random.default_rng(1)
    inputs = [exact(primal) for primal in primals]
    tangents = [rng.standard_normal(primal.shape) for primal in primals]
    step = 1e-5
    pairs = list(zip(primals, tangents, strict=True))
    ahead, behind = (
        value(function(*[exact(primal + h * tangent) for primal, tangent in pairs]))
        for h in (step, -step)
    )
    expected = (ahead - behind) / (2 * step)

    pushed = mx.jvp(function, inputs, [exact(tangent) for tangent in tangents])[1][0]
    np.testing.assert_allclose(value(pushed), expected, rtol=1e-6, atol=1e-7)

    cotangent = rng.standard_normal(expected.shape)
    pulled = mx.vjp(function, inputs, [exact(cotangent)])[1]
    product = sum(float((value(p) * t).sum()) for p, t in zip(pulled, tangents, strict=True))
    np.testing.assert_allclose(product, (cotangent * expected).sum(), rtol=1e-6, atol=1e-6)

    if order > 1:
        weights = exact(cotangent)

        def total(*arguments: Any) -> Any:
            # Squared, so that also linear functions have a second derivative.
            return mx.sum(mx.square(function(*arguments)) * weights)

        def gradient(*arguments: Any) -> Any:
            parts = mx.grad(total, argnums=list(range(len(arguments))))(*arguments)
            several = parts if isinstance(parts, tuple) else (parts,)
            return mx.concatenate([mx.flatten(part) for part in several])

        check_derivatives(gradient, *primals, order=order - 1)


def check_vmap(function: Function, *inputs: np.ndarray, in_axes: Sequence[int | None]) -> None:
    """vmap of a function, also nested, against a loop over the batch."""
    pairs = list(zip(inputs, in_axes, strict=True))
    size = next(x.shape[axis] for x, axis in pairs if axis is not None)
    items = [
        [exact(x if axis is None else np.take(x, number, axis)) for x, axis in pairs]
        for number in range(size)
    ]
    expected = np.stack([value(function(*item)) for item in items])
    arrays = [exact(x) for x in inputs]
    mapped = mx.vmap(function, in_axes=tuple(in_axes))
    np.testing.assert_array_equal(value(mapped(*arrays)), expected)

    for outer in range(len(inputs)):
        # One more batch axis for one of the inputs.
        more = [mx.stack([a, a]) if at == outer else a for at, a in enumerate(arrays)]
        outer_axes = tuple(0 if at == outer else None for at in range(len(inputs)))
        nested = mx.vmap(mapped, in_axes=outer_axes)(*more)
        np.testing.assert_array_equal(value(nested), np.stack([expected, expected]))
