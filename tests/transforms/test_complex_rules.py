"""Derivatives of every op that takes complex numbers, to second order, generated from the examples.

Functions of complex numbers are seen as functions of two real ones each: what is checked holds for
those that are not holomorphic too. Both modes belong together in the real inner product; first
derivatives equal differences of values, second ones differences of first ones. There is no complex
dtype of double precision: differences of fourth order over long steps are near enough.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.transforms.examples.example import Example
from tests.transforms.examples.search import ALL_EXAMPLES as EXAMPLES

import ingot.core as mx

Function = Callable[..., list[mx.array]]
Values = list[np.ndarray]

STEP = 0.02
TOLERANCE = 5e-3


def complex_inputs(example: Example) -> Values:
    """The example's inputs with the real ones moved off the real axis."""
    random = np.random.default_rng(5)
    return [
        (x + 0.3j * random.uniform(0.5, 1.5, x.shape)).astype(np.complex64)
        if x.dtype == np.float64
        else x
        for x in example.primals(1)
    ]


def function_of(example: Example) -> tuple[Function, Values]:
    """The example as a function of its complex inputs, and these."""
    primals = complex_inputs(example)
    varied = [k for k, x in enumerate(primals) if x.dtype == np.complex64]
    assert example.mlx is not None
    call = example.mlx

    def function(*inputs: mx.array) -> list[mx.array]:
        arguments = [mx.array(x) for x in primals]
        for k, x in zip(varied, inputs, strict=True):
            arguments[k] = x
        found = call(mx, *arguments)
        outputs = list(found) if isinstance(found, (list, tuple)) else [found]
        return [x for x in outputs if x.dtype in (mx.complex64, mx.float32)]

    return function, [primals[k] for k in varied]


def takes_complex(example: Example) -> bool:
    if example.mlx is None or example.stops:
        return False
    try:
        function, here = function_of(example)
        outputs = function(*map(mx.array, here))
        mx.eval(outputs)
    except (ValueError, TypeError):  # it does not take complex numbers
        return False
    return bool(here and outputs)


COMPLEX = [example for example in EXAMPLES if takes_complex(example)]


def random_like(arrays: Sequence[Any], seed: int) -> Values:
    """Random numbers, complex where the arrays are."""
    random = np.random.default_rng(seed)
    found = []
    for x in arrays:
        values = random.normal(size=x.shape)
        if np.array(x).dtype.kind == "c":
            found.append((values + 1j * random.normal(size=x.shape)).astype(np.complex64))
        else:
            found.append(values.astype(np.float32))
    return found


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    """The real inner product, in which the two modes are adjoint."""
    wide = [
        (np.array(x, np.complex128), np.array(y, np.complex128))
        for x, y in zip(xs, ys, strict=True)
    ]
    return sum(float(np.sum(np.conj(x) * y).real) for x, y in wide)


def differences(function: Function, here: Values, along: Values) -> Values:
    """The change of the outputs along a direction, by central differences of fourth order."""

    def at(distance: float) -> Values:
        moved = [mx.array(x + distance * d) for x, d in zip(here, along, strict=True)]
        return [np.array(x) for x in function(*moved)]

    near, far = (
        [(up - down) / (2 * h) for up, down in zip(at(h), at(-h), strict=True)]
        for h in (STEP, 2 * STEP)
    )
    return [(4 * a - b) / 3 for a, b in zip(near, far, strict=True)]


def check(function: Function, here: Values, seed: int) -> None:
    """jvp equals differences, and vjp belongs to jvp."""
    along = random_like(here, seed)
    along = [0.5 * d / max(1.0, float(np.abs(d).max(initial=0))) for d in along]
    point = [mx.array(x) for x in here]
    outputs, changes = mx.jvp(function, point, [mx.array(d) for d in along])
    for out, change in zip(outputs, changes, strict=True):
        assert change.dtype == out.dtype
    for change, expected in zip(changes, differences(function, here, along), strict=True):
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        np.testing.assert_allclose(np.array(change), expected, rtol=0, atol=TOLERANCE * scale)
    weights = random_like(outputs, seed + 1)
    _, pulled = mx.vjp(function, point, [mx.array(w) for w in weights])
    assert [x.dtype for x in pulled] == [x.dtype for x in point]
    size = sum(float(np.abs(np.array(x)).max(initial=0)) for x in changes)
    np.testing.assert_allclose(
        inner(pulled, along), inner(weights, changes), rtol=1e-3, atol=1e-3 * (1 + size)
    )


def test_many_ops_take_complex_numbers() -> None:
    kinds = {type(example.op).__name__ for example in COMPLEX}
    assert {"Abs", "Sign", "Square", "Sqrt", "Multiply", "Real", "Conjugate", "Matmul"} <= kinds


@pytest.mark.parametrize("example", COMPLEX, ids=str)
def test_first_derivatives(example: Example) -> None:
    check(*function_of(example), seed=10)


@pytest.mark.parametrize("example", COMPLEX, ids=str)
def test_second_derivatives(example: Example) -> None:
    function, here = function_of(example)
    outputs = function(*map(mx.array, here))
    along = [mx.array(d) for d in random_like(here, 20)]
    weights = [mx.array(w) for w in random_like(outputs, 21)]

    def forward(*inputs: mx.array) -> list[mx.array]:
        return mx.jvp(function, list(inputs), along)[1]

    def backward(*inputs: mx.array) -> list[mx.array]:
        return mx.vjp(function, list(inputs), weights)[1]

    check(forward, here, 30)
    check(backward, here, 40)
