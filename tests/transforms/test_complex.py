"""Complex numbers: both modes belong together, agree with differences, and MLX gives the same.

A cotangent is multiplied by the conjugate of the derivative: the gradient of a real loss points to
where the loss grows. There is no complex dtype of double precision, so tolerances are wide.
"""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

Z = np.array([0.6 + 0.3j, -0.4 + 0.7j, 0.2 - 0.5j], np.complex64)
W = np.array([1.1 - 0.2j, 0.3 + 0.9j, -0.8 + 0.4j], np.complex64)

# name -> a function of two complex vectors; the flag says whether MLX differentiates it rightly.
FUNCTIONS: dict[str, tuple[Any, bool]] = {
    "add": (lambda m, z, w: z + w, True),
    "subtract": (lambda m, z, w: z - w, True),
    "multiply": (lambda m, z, w: z * w, True),
    "divide": (lambda m, z, w: z / w, True),
    "negative": (lambda m, z, w: -z, True),
    "square": (lambda m, z, w: m.square(z), True),
    "power": (lambda m, z, w: z**w, False),
    "exp": (lambda m, z, w: m.exp(z), True),
    "log": (lambda m, z, w: m.log(z), True),
    "log1p": (lambda m, z, w: m.log1p(z), True),
    "sqrt": (lambda m, z, w: m.sqrt(z), True),
    "rsqrt": (lambda m, z, w: m.rsqrt(z), True),
    "sin": (lambda m, z, w: m.sin(z), True),
    "cos": (lambda m, z, w: m.cos(z), True),
    "tan": (lambda m, z, w: m.tan(z), True),
    "sinh": (lambda m, z, w: m.sinh(z), True),
    "cosh": (lambda m, z, w: m.cosh(z), True),
    "tanh": (lambda m, z, w: m.tanh(z), True),
    "arcsin": (lambda m, z, w: m.arcsin(z), True),
    "arccos": (lambda m, z, w: m.arccos(z), True),
    "arctan": (lambda m, z, w: m.arctan(z), True),
    "abs": (lambda m, z, w: m.abs(z), True),
    "real": (lambda m, z, w: m.real(z * w), True),
    "imag": (lambda m, z, w: m.imag(z * w), True),
    "conjugate": (lambda m, z, w: m.conjugate(z) * w, True),
    "real to complex": (lambda m, z, w: m.real(z).astype(m.complex64) * w, True),
    "sum": (lambda m, z, w: (z * w).sum(), True),
    "prod": (lambda m, z, w: (z * w).prod(), True),
    "cumsum": (lambda m, z, w: m.cumsum(z), True),
    "cumprod": (lambda m, z, w: m.cumprod(z), False),
    "matmul": (lambda m, z, w: (z.reshape(3, 1) @ w.reshape(1, 3)) @ w, True),
    "where": (lambda m, z, w: m.where(m.real(z) > 0, z, w), True),
    "index": (lambda m, z, w: z[m.array([2, 0, 0])] * w, True),
    "concatenate": (lambda m, z, w: m.concatenate([z, w * 2]), True),
    "broadcast": (lambda m, z, w: m.broadcast_to(z, (2, 3)) * w, True),
}


def normal(shape: Any, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    return (random.normal(size=shape) + 1j * random.normal(size=shape)).astype(np.complex64)


def inner(xs: list[np.ndarray], ys: list[np.ndarray]) -> float:
    """The real inner product, in which the two modes are adjoint."""
    return sum(float(np.sum(np.conj(x) * y).real) for x, y in zip(xs, ys, strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_modes_belong_together_and_agree_with_differences(name: str) -> None:
    def function(z: mx.array, w: mx.array) -> mx.array:
        return FUNCTIONS[name][0](mx, z, w)

    point = [mx.array(Z), mx.array(W)]
    direction = [normal(3, 1), normal(3, 2)]
    (out,), (change,) = mx.jvp(function, point, [mx.array(d) for d in direction])
    assert change.dtype == out.dtype
    cotangent = normal(out.shape, 3)
    cotangent = cotangent if out.dtype == mx.complex64 else cotangent.real
    _, pulled = mx.vjp(function, point, [mx.array(cotangent)])
    assert [x.dtype for x in pulled] == [mx.complex64] * 2
    np.testing.assert_allclose(
        inner([np.array(x) for x in pulled], direction),
        inner([cotangent], [np.array(change)]),
        rtol=1e-3,
        atol=1e-4,
    )
    step = 1e-2
    above, below = (
        np.array(function(*[mx.array(x + h * d) for x, d in zip((Z, W), direction, strict=True)]))
        for h in (step, -step)
    )
    np.testing.assert_allclose(np.array(change), (above - below) / (2 * step), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("name", [name for name, (_, rightly) in FUNCTIONS.items() if rightly])
def test_cotangents_equal_mlx(name: str) -> None:
    function = FUNCTIONS[name][0]

    def pulled(m: Any) -> list[Any]:
        point = [m.array(Z), m.array(W)]
        out = function(m, *point)
        cotangent = normal(out.shape, 4)
        cotangent = cotangent if out.dtype == m.complex64 else cotangent.real
        return m.vjp(lambda z, w: function(m, z, w), point, [m.array(cotangent)])[1]

    for found, expected in zip(pulled(mx), pulled(mlx), strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-5)


def test_a_step_against_the_gradient_lowers_a_real_loss() -> None:
    def loss(z: mx.array) -> mx.array:
        return mx.abs(z * z - 1).sum()

    z = mx.array(Z)
    for _ in range(200):
        z = z - 0.01 * mx.grad(loss)(z)
    assert loss(z).item() < 0.1


def test_gradients_of_real_inputs_stay_real() -> None:
    def loss(x: mx.array) -> mx.array:
        return mx.abs(x.astype(mx.complex64) * (1 + 1j)).sum()

    found = mx.grad(loss)(mx.array([1.0, -2.0]))
    assert found.dtype == mx.float32
    np.testing.assert_allclose(np.array(found), [2**0.5, -(2**0.5)], rtol=1e-5)
