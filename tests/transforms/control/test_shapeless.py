"""Loops and branches in functions compiled for all shapes, called with shapes that are new.

The reference is NumPy, or the same function uncompiled, whose loops have numbers for lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot import nn
from ingot.compiler.machine import generate
from ingot.utils import tree_flatten

Array = np.ndarray
WEIGHT = mx.array(np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32) * 0.3)
SHAPES = ((5, 4), (6, 4), (7, 9), (31, 40), (1, 5), (3, 1))  # those with a 1 need other kernels


def numbers(*shape: int) -> mx.array:
    rng = np.random.default_rng(sum(shape))
    return mx.array(rng.normal(size=shape).astype(np.float32) * 0.3)


def running_average(xs: mx.array) -> Any:
    return mx.scan(lambda c, x: (0.5 * c + x / xs.shape[1], c.mean()), xs[0], xs)


def numpy_running_average(xs: Array) -> Any:
    c, means = xs[0], []
    for x in xs:
        means.append(c.mean())
        c = np.float32(0.5) * c + x / np.float32(len(x))
    return c, np.array(means)


def sum_of_rows(xs: mx.array) -> Any:
    return mx.fori_loop(0, xs.shape[0], lambda i, total: total + xs[i] * i, mx.zeros(xs.shape[1]))


def numpy_sum_of_rows(xs: Array) -> Any:
    return sum((x * np.float32(i) for i, x in enumerate(xs)), np.zeros_like(xs[0]))


def shrunk(xs: mx.array) -> Any:
    return mx.while_loop(lambda v: (v * v).sum() > 0.01, lambda v: v * 0.5, xs)


def numpy_shrunk(xs: Array) -> Any:
    while (xs * xs).sum() > 0.01:
        xs = xs * np.float32(0.5)
    return xs


def chosen(xs: mx.array) -> Any:
    return mx.switch(
        mx.array(xs.shape[0]) % 3,
        [lambda x: x * 2, lambda x: x.mean() * mx.ones(x.shape), lambda x: x.cumsum(0)],
        xs,
    )


def numpy_chosen(xs: Array) -> Any:
    return [xs * 2, np.full_like(xs, xs.mean()), xs.cumsum(0)][len(xs) % 3]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (running_average, numpy_running_average),
        (sum_of_rows, numpy_sum_of_rows),
        (shrunk, numpy_shrunk),
        (chosen, numpy_chosen),
    ],
)
def test_against_numpy(function: Callable[..., Any], expected: Callable[..., Any]) -> None:
    compiled = mx.compile(function, shapeless=True)
    for shape in SHAPES:
        xs = numbers(*shape)
        agree(compiled(xs), expected(np.array(xs)))
    assert compiled.cache_info().misses == 1


def agree(found: Any, expected: Any) -> None:
    one, two = tree_flatten(found), tree_flatten(expected)
    assert len(one) == len(two)
    for (name, a), (_, b) in zip(one, two, strict=True):
        assert a.shape == b.shape, name
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=2e-5, atol=2e-6, err_msg=name)


def last(xs: mx.array) -> Any:
    """A loop whose body has a loop, a branch, a constant whose length varies, and a number."""
    scale = mx.array(2.0) * xs.shape[1] / (xs.shape[1] + 1)

    def step(c: mx.array, x: mx.array) -> Any:
        inner, _ = mx.scan(lambda d, y: (mx.sin(d * scale + y), None), c, xs)
        flipped = mx.cond(x.sum() > 0, lambda v: -v, lambda v: v * mx.ones(v.shape), inner)
        return flipped + mx.arange(c.shape[0]) / 10, inner.sum()

    return mx.scan(step, xs[0], xs)


def total(xs: mx.array) -> mx.array:
    end, sums = last(xs)
    return end.sum() + sums.sum()


def loss(weight: mx.array, xs: mx.array) -> mx.array:
    start = mx.zeros((xs.shape[1], 6))
    return mx.scan(lambda c, x: (mx.tanh(c @ weight + x[:, None]), None), start, xs)[0].sum()


def squared_gradient(xs: mx.array) -> mx.array:
    found = mx.grad(lambda xs: mx.scan(lambda c, x: (mx.sin(c * x), c), xs[0], xs)[1].sum())(xs)
    return (found * found).sum()


def step(c: mx.array, x: mx.array) -> Any:
    return mx.sin(c + x) * mx.ones(c.shape), None


def random_walk(xs: mx.array) -> Any:
    mx.random.seed(7)
    return mx.scan(lambda c, x: (c + x * mx.random.uniform(shape=x.shape), None), xs[0], xs)[0]


LAYER = nn.LSTM(3, 6)
TRANSFORMED: dict[str, Callable[[mx.array], Any]] = {
    "nested": last,
    "gradient": mx.grad(total),
    "gradient of a weight": lambda xs: mx.grad(loss)(WEIGHT, xs),
    "second order": mx.grad(squared_gradient),
    "jvp": lambda xs: mx.jvp(last, [xs], [mx.ones(xs.shape)])[1],
    "vmap": mx.vmap(lambda row: mx.scan(lambda c, x: (c * 0.5 + x, c), mx.array(0.0), row)),
    "vmap of while_loop": mx.vmap(shrunk),
    "gradient of while_loop": mx.grad(
        lambda xs: mx.while_loop(
            lambda v: mx.abs(v).sum() > 0.1, lambda v: v * 0.7, xs, max_steps=20
        ).sum()
    ),
    "checkpoint": mx.grad(lambda xs: mx.scan(mx.checkpoint(step), xs[0], xs)[0].sum()),
    "random": random_walk,
    "lstm": lambda xs: LAYER(mx.broadcast_to(xs[..., None], (*xs.shape, 3))),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms(name: str) -> None:
    function = TRANSFORMED[name]
    compiled = mx.compile(function, shapeless=True)
    for shape in ((5, 4), (6, 4), (7, 9)):
        xs = numbers(*shape)
        agree(compiled(xs), function(xs))


def test_new_shapes_generate_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mx.compile(lambda xs: (last(xs), shrunk(xs)), shapeless=True)
    for shape in ((5, 4), (4, 5)):  # in which both branches run
        mx.eval(compiled(numbers(*shape)))

    def refuse(texts: list[str]) -> Any:
        raise AssertionError("kernels are compiled again")

    monkeypatch.setattr(generate, "load_kernels", refuse)
    xs = numbers(6, 7)
    found = compiled(xs)
    mx.eval(found)
    monkeypatch.undo()
    agree(found, (last(xs), shrunk(xs)))
    assert compiled.cache_info().misses == 1


def test_explanations_show_bodies_for_the_shapes_at_hand() -> None:
    compiled = mx.compile(running_average, shapeless=True)
    text = str(compiled.explain(numbers(8, 3)))
    assert "in each of 8 iterations" in text
    assert "float32[3]" in text
