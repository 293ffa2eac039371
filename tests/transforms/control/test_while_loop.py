"""`while_loop` and `fori_loop` against Python's own loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.transforms.control.unrolled import close

import ingot.core as mx


def powers(x: mx.array, max_steps: int | None = 20) -> mx.array:
    return mx.while_loop(
        lambda c: c[0] < 10,
        lambda c: (c[0] * x, c[1] + mx.sin(c[0])),
        (x, mx.array(0.0)),
        max_steps,
    )[1]


def powers_in_python(x: mx.array) -> mx.array:
    a, b = x, mx.array(0.0)
    while a.item() < 10:
        a, b = a * x, b + mx.sin(a)
    return b


@pytest.mark.parametrize("value", [1.7, 3.0, 50.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_and_derivatives(value: float, compiled: bool) -> None:
    x = mx.array(value)
    wrap = mx.compile if compiled else lambda f: f
    close(wrap(powers)(x), powers_in_python(x))
    close(wrap(mx.grad(powers))(x), mx.grad(powers_in_python)(x), 1e-5)
    close(mx.jvp(powers, (x,), (x,)), mx.jvp(powers_in_python, (x,), (x,)), 1e-5)
    close(mx.grad(mx.grad(powers))(x), mx.grad(mx.grad(powers_in_python))(x), 1e-4)


def test_vmap_runs_until_all_are_done() -> None:
    xs = mx.array([1.2, 3.0, 50.0, 9.9])
    expected = mx.stack([powers_in_python(x) for x in xs])
    close(mx.vmap(powers)(xs), expected)
    close(mx.vmap(mx.grad(powers))(xs), mx.stack([mx.grad(powers_in_python)(x) for x in xs]), 1e-5)
    # a condition that is the same for all, and a carry that is not
    found = mx.vmap(lambda x: mx.fori_loop(0, 3, lambda i, v: v * x + i, x))(xs)
    close(found, mx.stack([((x * x + 0) * x + 1) * x + 2 for x in xs]))


def test_gradients_without_a_bound_are_refused() -> None:
    with pytest.raises(ValueError, match="max_steps"):
        mx.grad(lambda x: powers(x, None))(mx.array(2.0))


def test_bounds() -> None:
    step = lambda x: x + 1  # noqa: E731
    assert mx.while_loop(lambda x: x < 100, step, 0, max_steps=7).item() == 7
    assert mx.while_loop(lambda x: x < 100, step, 0, max_steps=0).item() == 0
    assert mx.while_loop(lambda x: x < 0, step, 5).item() == 5
    with pytest.raises(ValueError, match="must not be negative"):
        mx.while_loop(lambda x: x < 0, step, 5, max_steps=-1)
    with pytest.raises(ValueError, match="an array of one bool"):
        mx.while_loop(lambda x: x < 0, step, mx.zeros((2,)))


def test_random_numbers_in_the_body() -> None:
    def run() -> Any:
        mx.random.seed(1)
        found = mx.while_loop(
            lambda c: c[0] < 2.0,
            lambda c: (c[0] + mx.random.uniform(), c[1] + 1),
            (mx.array(0.0), 0),
        )
        return found, mx.random.uniform()

    mx.random.seed(1)
    total, count = mx.array(0.0), 0
    while total.item() < 2:
        total, count = total + mx.random.uniform(), count + 1
    expected = (total, mx.array(count)), mx.random.uniform()
    close(run(), expected)
    with pytest.raises(ValueError, match="the condition draws random numbers"):
        mx.while_loop(lambda c: mx.random.uniform() < c, lambda c: c / 2, mx.array(1.0))


@pytest.mark.parametrize(("lower", "upper"), [(0, 5), (3, 3), (5, 2), (-2, 2)])
def test_fori_loop(lower: int, upper: int) -> None:
    body = lambda i, v: (v[0] + i, v[1] * 2)  # noqa: E731
    expected = (mx.array(sum(range(lower, upper))), mx.array(1.0) * 2 ** max(upper - lower, 0))
    for low, high in ((lower, upper), (mx.array(lower), mx.array(upper)), (lower, mx.array(upper))):
        found = mx.compile(lambda: mx.fori_loop(low, high, body, (mx.array(0), mx.array(1.0))))()  # noqa: B023
        close(found, expected)


def test_fori_loop_refuses_bounds_that_no_int32_holds() -> None:
    with pytest.raises(ValueError, match="int32"):
        mx.fori_loop(2**40, 2**40 + 2, lambda i, v: v + 1, 0)


def test_interrupting_a_loop_that_does_not_end() -> None:
    import _thread
    import threading

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        mx.eval(mx.while_loop(lambda x: x > -1.0, lambda x: x * 0.5, mx.array(1.0)))
    assert mx.array(2).item() == 2


def test_mandelbrot_counts_as_numpy() -> None:
    re, im = mx.meshgrid(mx.linspace(-2, 1, 31), mx.linspace(-1, 1, 17))
    c = re + 1j * im

    def body(state: Any) -> Any:
        z, inside, count = state
        z = mx.where(inside, z * z + c, z)
        inside = mx.abs(z) <= 2
        return z, inside, count + inside

    start = (mx.zeros_like(c), mx.ones(c.shape, mx.bool_), mx.zeros(c.shape, mx.int32))
    _, _, found = mx.while_loop(lambda s: mx.any(s[1]), body, start, max_steps=50)
    numbers = np.array(c)
    z, expected = np.zeros_like(numbers), np.zeros(c.shape, np.int32)
    for _ in range(50):
        inside = np.abs(z) <= 2
        z = np.where(inside, z * z + numbers, z)
        expected += np.abs(z) <= 2
    assert np.mean(np.array(found) != expected) < 0.02  # next to the border, rounding decides
