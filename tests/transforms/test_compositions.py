"""Any transform of any transform: all pairs and triples of them against what they must give.

Sums of exponentials make this exact: each transform below multiplies an exponential exp(a x) by a
number that depends on `a` only, so what several transforms give together is known, whatever the
order. The exponentials are computed by a function with products, indices and reductions in it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import ingot.core as mx

Scalar = Callable[[mx.array], mx.array]

RATES = np.array([0.5, -0.75, 1.25])
WEIGHTS = np.array([2.0, -1.0, 0.5])
SHIFTS = np.array([0.0, 0.25, -0.5])
POINT = 0.3

COTANGENT, TANGENT, WRONG = 1.5, -0.5, 3.0


def number(x: Any) -> mx.array:
    return mx.array(x, dtype=mx.float64)


def exponentials(x: mx.array) -> mx.array:
    """sum(WEIGHTS * exp(RATES * x)), the long way round."""
    rates = mx.broadcast_to(number(RATES), (2, 3)) * x
    table = mx.exp(rates[mx.array([1, 0])])
    mixed = mx.concatenate([table[:1], table[1:] * 0], axis=0) @ number(np.diag(WEIGHTS))
    return mixed.transpose(1, 0)[:, 0].sum() + mixed[1].max() * 0


def by_grad(f: Scalar) -> Scalar:
    return mx.grad(f)


def by_vjp(f: Scalar) -> Scalar:
    return lambda x: mx.vjp(f, [x], [number(COTANGENT)])[1][0]


def by_jvp(f: Scalar) -> Scalar:
    return lambda x: mx.jvp(f, [x], [number(TANGENT)])[1][0]


def by_vmap(f: Scalar) -> Scalar:
    return lambda x: mx.vmap(f)(x + number(SHIFTS)).sum()


def by_checkpoint(f: Scalar) -> Scalar:
    return mx.checkpoint(f)


def by_custom_function(f: Scalar) -> Scalar:
    """The function with derivatives that are too large by a factor, to see that they are used."""
    function = mx.custom_function(lambda x: f(x))

    @function.vjp
    def function(x: mx.array, cotangent: mx.array, output: mx.array) -> mx.array:
        return cotangent * WRONG * mx.grad(f)(x)

    @function.jvp
    def function(x: mx.array, tangent: mx.array) -> mx.array:
        return tangent * WRONG * mx.grad(f)(x)

    return function


TRANSFORMS = {
    "grad": by_grad,
    "vjp": by_vjp,
    "jvp": by_jvp,
    "vmap": by_vmap,
    "checkpoint": by_checkpoint,
    "custom": by_custom_function,
}


def expected(names: tuple[str, ...], x: float) -> float:
    """What the transforms give, applied to the exponentials in that order."""
    factor = np.ones(3)
    wrong = 1.0  # what the next derivative is too large by
    for name in names:
        if name == "vmap":
            factor = factor * np.exp(np.outer(RATES, SHIFTS)).sum(1)
        elif name == "custom":
            wrong *= WRONG
        elif name != "checkpoint":
            weight = {"grad": 1.0, "vjp": COTANGENT, "jvp": TANGENT}[name]
            factor = factor * RATES * weight * wrong
            wrong = 1.0
    return float((factor * WEIGHTS * np.exp(RATES * x)).sum())


def composed(names: tuple[str, ...]) -> Scalar:
    function: Scalar = exponentials
    for name in names:
        function = TRANSFORMS[name](function)
    return function


PAIRS = list(product(TRANSFORMS, repeat=2))
TRIPLES = list(product(TRANSFORMS, repeat=3))


def check(names: tuple[str, ...]) -> None:
    found = composed(names)(number(POINT))
    assert found.shape == ()
    assert found.dtype == mx.float64
    np.testing.assert_allclose(found.item(), expected(names, POINT), rtol=1e-10)


@pytest.mark.parametrize("names", [(name,) for name in TRANSFORMS], ids=" of ".join)
def test_one_transform(names: tuple[str, ...]) -> None:
    check(names)


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: " of ".join(reversed(names)))
def test_two_transforms(names: tuple[str, ...]) -> None:
    check(names)


@pytest.mark.parametrize("names", TRIPLES, ids=lambda names: " of ".join(reversed(names)))
def test_three_transforms(names: tuple[str, ...]) -> None:
    check(names)


def test_deeper() -> None:
    random = np.random.default_rng(0)
    for depth in (4, 4, 4, 5, 5, 6):
        check(tuple(random.choice(list(TRANSFORMS), depth)))


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: " of ".join(reversed(names)))
def test_under_compile(names: tuple[str, ...]) -> None:
    found = mx.compile(composed(names))(number(POINT))
    np.testing.assert_allclose(found.item(), expected(names, POINT), rtol=1e-10)


@pytest.mark.parametrize("names", PAIRS, ids=lambda names: " of ".join(reversed(names)))
def test_of_compile(names: tuple[str, ...]) -> None:
    function: Scalar = mx.compile(exponentials)
    for name in names:
        function = TRANSFORMS[name](function)
    np.testing.assert_allclose(function(number(POINT)).item(), expected(names, POINT), rtol=1e-10)


class TestJacobians:
    """Jacobians and Hessians by transforms of transforms agree with each other and with algebra."""

    A = np.random.default_rng(1).normal(size=(4, 3))
    X = np.random.default_rng(2).normal(size=3)

    def function(self, x: mx.array) -> mx.array:
        return mx.tanh(number(self.A) @ x)

    def slopes(self) -> np.ndarray:
        return 1 - np.tanh(self.A @ self.X) ** 2

    def forward(self, f: Any) -> Any:
        unit = mx.eye(3, dtype=mx.float64)
        return lambda x: mx.vmap(lambda t: mx.jvp(f, [x], [t])[1][0], out_axes=1)(unit)

    def backward(self, f: Any, count: int) -> Any:
        unit = mx.eye(count, dtype=mx.float64)
        return lambda x: mx.vmap(lambda c: mx.vjp(f, [x], [c])[1][0])(unit)

    def test_jacobian(self) -> None:
        x = number(self.X)
        expected = self.slopes()[:, None] * self.A
        for jacobian in (self.forward(self.function), self.backward(self.function, 4)):
            np.testing.assert_allclose(np.array(jacobian(x)), expected, rtol=1e-12)

    def test_hessian(self) -> None:
        x = number(self.X)
        values = np.tanh(self.A @ self.X)
        expected = self.A.T @ np.diag(-2 * values * self.slopes()) @ self.A

        def total(x: mx.array) -> mx.array:
            return self.function(x).sum()

        for function in (total, mx.checkpoint(total)):
            for jacobian in (self.forward, lambda f: self.backward(f, 3)):
                found = jacobian(mx.grad(function))(x)
                np.testing.assert_allclose(np.array(found), expected, rtol=1e-10, atol=1e-12)

    def test_hessian_vector_products(self) -> None:
        x, v = number(self.X), number(self.X[::-1].copy())

        def total(x: mx.array) -> mx.array:
            return (self.function(x) ** 3).sum()

        _, (forward,) = mx.jvp(mx.grad(total), [x], [v])
        backward = mx.grad(lambda x: (mx.grad(total)(x) * mx.stop_gradient(v)).sum())(x)
        other = mx.grad(lambda x: mx.jvp(total, [x], [v])[1][0])(x)
        np.testing.assert_allclose(np.array(forward), np.array(backward), rtol=1e-12)
        np.testing.assert_allclose(np.array(forward), np.array(other), rtol=1e-12)


def test_transforms_within_transforms_follow_their_own_inputs_only() -> None:
    # d/dx (x * d/dy (x + y)) = 1, where confusing the two derivatives would give 2.
    def outer(x: mx.array) -> mx.array:
        return x * mx.grad(lambda y: x + y)(number(1.0))

    assert mx.grad(outer)(number(1.0)).item() == 1

    def outer_forward(x: mx.array) -> mx.array:
        _, (change,) = mx.jvp(lambda y: x + y, [number(1.0)], [number(1.0)])
        return x * change

    assert mx.jvp(outer_forward, [number(1.0)], [number(1.0)])[1][0].item() == 1


def test_a_value_that_leaves_a_transform_can_be_used_in_the_next() -> None:
    kept = []

    def loss(x: mx.array) -> mx.array:
        kept.append(x * 2)
        return (x * x).sum()

    gradient = mx.grad(loss)(number([1.0, 2.0]))
    again = mx.grad(lambda x: (x * kept[0] * gradient).sum())(number([1.0, 1.0]))
    np.testing.assert_allclose(np.array(again), [4.0, 16.0])
