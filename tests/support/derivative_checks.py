"""Checks of derivatives and of vmap for any function of arrays: for ops and for compositions.

Functions take arrays and return a list of arrays. Primals are NumPy arrays; those of float64 are
differentiated by, the others are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

import ingot.core as mx

Function = Callable[..., list[mx.array]]


def exact(x: np.ndarray) -> mx.array:
    """A NumPy array as an array of the same dtype, float64 included."""
    return mx.array(x, dtype=mx.float64) if x.dtype == np.float64 else mx.array(x)


def value(x: mx.array) -> np.ndarray:
    """The array as NumPy's, bfloat16 widened."""
    return np.array(x.astype(mx.float32) if x.dtype == mx.bfloat16 else x)


def _inexact(outputs: Sequence[mx.array]) -> list[mx.array]:
    return [x for x in outputs if x.dtype in (mx.float64, mx.float32, mx.complex64)]


class Point:
    """A function at a point, seen as a function of only what is differentiated by."""

    def __init__(self, function: Function, primals: Sequence[np.ndarray], seed: int = 0) -> None:
        self.function = function
        self.primals = list(primals)
        self.varied = [k for k, x in enumerate(primals) if x.dtype == np.float64]
        self.random = np.random.default_rng(seed)

    def __call__(self, *varied: mx.array) -> list[mx.array]:
        arguments: list[Any] = [exact(x) for x in self.primals]
        for k, x in zip(self.varied, varied, strict=True):
            arguments[k] = x
        return _inexact(self.function(*arguments))

    @property
    def here(self) -> list[np.ndarray]:
        """The values of what is differentiated by."""
        return [self.primals[k] for k in self.varied]

    def like(self, arrays: Sequence[Any]) -> list[np.ndarray]:
        """Random numbers in the shapes of `arrays`."""
        return [self.random.normal(size=x.shape) for x in arrays]


def _moved(primals: list[np.ndarray], step: float, direction: list[np.ndarray]) -> list[mx.array]:
    return [exact(x + step * d) for x, d in zip(primals, direction, strict=True)]


def differences(
    function: Function, primals: list[np.ndarray], direction: list[np.ndarray], step: float
) -> list[np.ndarray]:
    """The change of the outputs along a direction, by central differences of fourth order."""

    def at(distance: float) -> list[np.ndarray]:
        return [value(x) for x in function(*_moved(primals, distance, direction))]

    nearer, farther = (
        [(up - down) / (2 * h) for up, down in zip(at(h), at(-h), strict=True)]
        for h in (step, 2 * step)
    )
    return [(4 * near - far) / 3 for near, far in zip(nearer, farther, strict=True)]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The sum of products."""
    return sum(float(np.sum(np.array(x) * np.array(y))) for x, y in zip(xs, ys, strict=True))


def check_first_order(point: Point, step: float, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    """Both modes equal central differences; each input alone gives what all give together."""
    here = [exact(x) for x in point.here]
    direction = point.like(here)
    outputs, changes = mx.jvp(point, here, [exact(d) for d in direction])
    expected = differences(point, point.here, direction, step)
    for change, other in zip(changes, expected, strict=True):
        np.testing.assert_allclose(value(change), other, rtol=rtol, atol=atol, err_msg="jvp")
    weights = point.like(outputs)
    _, pulled = mx.vjp(point, here, [exact(w) for w in weights])
    for x, back in zip(here, pulled, strict=True):
        assert back.shape == x.shape
        assert back.dtype == x.dtype
    np.testing.assert_allclose(
        inner(map(value, pulled), direction),
        inner(weights, map(value, changes)),
        rtol=1e-9,
        atol=1e-9,
        err_msg="vjp does not belong to jvp",
    )
    if len(here) > 1:
        _check_one_at_a_time(point, here, direction, weights, pulled, changes)


def _check_one_at_a_time(
    point: Point,
    here: list[mx.array],
    direction: list[np.ndarray],
    weights: list[np.ndarray],
    pulled: list[mx.array],
    changes: list[mx.array],
) -> None:
    totals = [np.zeros(change.shape) for change in changes]
    for k, x in enumerate(here):

        def alone(one: mx.array, k: int = k) -> list[mx.array]:
            return point(*here[:k], one, *here[k + 1 :])

        _, (back,) = mx.vjp(alone, [x], [exact(w) for w in weights])
        np.testing.assert_allclose(value(back), value(pulled[k]), rtol=1e-12, atol=1e-12)
        _, parts = mx.jvp(alone, [x], [exact(direction[k])])
        for total, part in zip(totals, parts, strict=True):
            total += value(part)
    for total, change in zip(totals, changes, strict=True):
        np.testing.assert_allclose(total, value(change), rtol=1e-9, atol=1e-9)


def gradient_of(point: Point) -> Function:
    """The gradient of a sum of squares of the outputs: a function that is not linear."""
    weights: list[mx.array] = []

    def loss(*varied: mx.array) -> mx.array:
        outputs = point(*varied)
        if not weights:
            weights.extend(exact(w) for w in point.like(outputs))
        terms = [(x * w + x * x).sum() for x, w in zip(outputs, weights, strict=True)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    def gradient(*varied: mx.array) -> list[mx.array]:
        found = mx.grad(loss, argnums=list(range(len(varied))))(*varied)
        return list(found) if isinstance(found, tuple) else [found]

    return gradient


def check_second_order(point: Point, step: float, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """All four combinations of the modes equal central differences of first derivatives."""
    here = [exact(x) for x in point.here]
    along = [exact(d) for d in point.like(here)]

    def change(*varied: mx.array) -> list[mx.array]:
        return mx.jvp(point, list(varied), along)[1]

    for function in (gradient_of(point), change):
        direction = point.like(here)
        results = function(*here)
        expected = differences(function, point.here, direction, step)
        _, found = mx.jvp(function, here, [exact(d) for d in direction])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(value(one), other, rtol=rtol, atol=atol)
        weights = point.like(results)
        _, pulled = mx.vjp(function, here, [exact(w) for w in weights])
        np.testing.assert_allclose(
            inner(map(value, pulled), direction),
            inner(weights, map(value, found)),
            rtol=1e-7,
            atol=1e-8,
        )


def check_vmap(
    function: Function,
    batches: Sequence[np.ndarray],
    axes: Sequence[int | None],
    out_axis: int = 0,
    tolerance: float = 1e-12,
) -> None:
    """vmap equals a stacked loop. `batches` have the examples first; `axes` say where they go."""
    size = len(batches[0])
    inputs = [
        exact(x[0] if axis is None else np.moveaxis(x, 0, axis))
        for x, axis in zip(batches, axes, strict=True)
    ]
    mapped = mx.vmap(function, in_axes=tuple(axes), out_axes=out_axis)(*inputs)
    rows = [
        function(
            *[exact(x[0 if axis is None else k]) for x, axis in zip(batches, axes, strict=True)]
        )
        for k in range(size)
    ]
    for found, *examples in zip(mapped, *rows, strict=True):
        expected = np.stack([value(x) for x in examples], out_axis)
        assert found.shape == expected.shape
        assert found.dtype == examples[0].dtype
        np.testing.assert_allclose(value(found), expected, rtol=tolerance, atol=tolerance)


def check_vmap_everywhere(function: Function, batches: Sequence[np.ndarray]) -> None:
    """vmap over every axis of every input, and with every choice of inputs that have no batch."""
    choices = [(None, *range(x.ndim)) for x in batches]
    depth = max(x.ndim for x in batches)
    for axis in range(depth):
        axes = [min(axis, x.ndim - 1) for x in batches]
        check_vmap(function, batches, axes)
        check_vmap(
            function, batches, [place - x.ndim for place, x in zip(axes, batches, strict=True)]
        )
    for chosen in product(*[(None, choice[1], choice[-1]) for choice in choices]):
        if any(axis is not None for axis in chosen):
            check_vmap(function, batches, chosen, out_axis=-1)
