"""Loops and branches in the bodies of loops: native code runs them, and they compute what the
program written out in MLX does.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx
from ingot.transforms.control.programs import program_of

ROWS = np.random.default_rng(3).normal(size=(7, 6)).astype(np.float32)
XS = mx.array(ROWS)
W = mx.array(np.random.default_rng(4).normal(size=(6, 6)).astype(np.float32) * 0.3)


class Unrolled:
    """The loops and branches as Python's own, with the arrays of MLX."""

    scan = staticmethod(partial(scanned, library=mlx))

    @staticmethod
    def fori_loop(lower: int, upper: int, body: Any, init: Any) -> Any:
        for number in range(lower, upper):
            init = body(number, init)
        return init

    @staticmethod
    def while_loop(cond: Any, body: Any, init: Any, max_steps: int) -> Any:
        count = 0
        while count < max_steps and cond(init):
            init, count = body(init), count + 1
        return init

    @staticmethod
    def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return yes(*operands) if pred.item() else no(*operands)

    @staticmethod
    def switch(index: Any, branches: Any, *operands: Any) -> Any:
        return branches[min(max(index.item(), 0), len(branches) - 1)](*operands)


# (array library, loops, carry, slice, weights) -> the next carry
Inner = Callable[[Any, Any, Any, Any, Any], Any]


def scanning(steps: int, reverse: bool = False) -> Inner:
    def inner(m: Any, loops: Any, c: Any, x: Any, w: Any) -> Any:
        given = m.stack([x * (n + 1) for n in range(steps)])
        end, (ys, zs) = loops.scan(
            lambda c, x: (m.tanh(c + x), (c * x, m.sum(c))), c, given, reverse=reverse
        )
        return end + m.sum(ys, 0) * 0.1 + m.sum(zs) * 0.01

    return inner


def repeating(steps: int) -> Inner:
    return lambda m, loops, c, x, w: loops.fori_loop(
        0, steps, lambda i, v: v * 0.9 + x * i * 0.1, c
    )


def going_on(most: int) -> Inner:
    def inner(m: Any, loops: Any, c: Any, x: Any, w: Any) -> Any:
        def step(state: Any) -> Any:
            v, other, number = state
            return other * 0.8 + 0.1, v * x, number + 1

        def goes_on(state: Any) -> Any:
            return (m.sum(state[0] * state[0]) > 0.3) & (state[2] < 5)

        a, b, number = loops.while_loop(goes_on, step, (c, x, m.array(0)), max_steps=most)
        return m.tanh(a + b) * 0.5 + number * 0.01

    return inner


def choosing(m: Any, loops: Any, c: Any, x: Any, w: Any) -> Any:
    v = loops.cond(m.sum(x) > 0, lambda v: v * 0.5 + x, lambda v: m.sin(v) - x, c)
    index = m.floor(m.sum(x * x)).astype(m.int32) % 4 - 1
    return loops.switch(index, [lambda v: v, lambda v: m.tanh(v @ w), lambda v: -v * x], v)


def three_deep(m: Any, loops: Any, c: Any, x: Any, w: Any) -> Any:
    def row(c: Any, number: Any) -> Any:
        def element(i: Any, v: Any) -> Any:
            smaller, larger = (lambda v: v * 0.7), (lambda v: m.tanh(v @ w) + number)
            return loops.cond(m.sum(v) > number, smaller, larger, v)

        return loops.fori_loop(0, 3, element, c), m.sum(c)

    end, sums = loops.scan(row, c, m.array([0.1, 0.2, 0.3, 0.4]))
    return m.tanh(end) + m.sum(sums) * 0.01


def columns(m: Any, loops: Any, c: Any, x: Any, w: Any) -> Any:
    """Operands that are not contiguous, and one that is repeated."""
    start = m.broadcast_to(m.sum(c) * 0.1, (6,))
    end, _ = loops.scan(lambda v, column: (m.tanh(v * 0.5 + column), None), start, w.T)
    return end * c


INNER: dict[str, Inner] = {
    **{f"scan of {n}": scanning(n) for n in (1, 2, 3)},
    "reverse": scanning(4, reverse=True),
    **{f"fori_loop of {n}": repeating(n) for n in (0, 1, 2, 5)},
    **{f"while_loop of at most {n}": going_on(n) for n in (0, 1, 2, 9)},
    "branches": choosing,
    "three deep": three_deep,
    "columns": columns,
}


def outer(inner: Inner, m: Any, loops: Any, xs: Any, w: Any) -> Any:
    def step(c: Any, x: Any) -> Any:
        new = inner(m, loops, c, x, w)
        return new, new * c

    return loops.scan(step, xs[0] * 0.5, xs)


@pytest.mark.parametrize("name", INNER)
def test_values_and_gradients_are_those_of_the_unrolled_program(name: str) -> None:
    function = partial(outer, INNER[name])
    rows, weights = mlx.array(ROWS), mlx.array(np.array(W))
    run = mx.compile(partial(function, mx, mx))
    expected = mx.array(function(mlx, Unrolled, rows, weights)[1])
    close(run(XS, W)[1], expected, 1e-5)

    def loss(m: Any, loops: Any, xs: Any, w: Any) -> Any:
        end, ys = function(m, loops, xs, w)
        return m.sum(end * end) + m.sum(m.sin(ys))

    found = mx.compile(mx.grad(partial(loss, mx, mx), (0, 1)))(XS, W)
    wanted = mlx.grad(partial(loss, mlx, Unrolled), (0, 1))(rows, weights)
    close(list(found), [mx.array(x) for x in wanted], 2e-5)


@pytest.mark.parametrize("name", INNER)
def test_native_code_runs_them(name: str) -> None:
    end, _ = outer(INNER[name], mx, mx, XS, W)
    op: Any = end._node.inputs[0].op
    program = program_of(op.body, op.carries, op.slices).executable
    assert program.native.can_loop
    assert any(work.kind == "nested" for work in program.work)


def test_vmap() -> None:
    batch = mx.array(np.random.default_rng(5).normal(size=(3, 7, 6)).astype(np.float32))
    for name in ("scan of 3", "while_loop of at most 9", "branches", "three deep"):
        run = partial(outer, INNER[name], mx, mx)
        found = mx.compile(mx.vmap(lambda xs, run=run: run(xs, W)[1]))(batch)
        close(found, mx.stack([run(xs, W)[1] for xs in batch]), 1e-5)


def test_bodies_with_host_steps_stay_on_the_host() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        inner = mx.fori_loop(0, 2, lambda i, v: mx.linalg.inv(v.reshape(2, 3)[:, :2]).sum() * x, x)
        return mx.fori_loop(0, 3, lambda i, v: v * 0.5 + inner, c), c

    found = mx.scan(step, XS[0], XS)
    close(found, scanned(lambda c, x: _written_out(c, x), XS[0], XS), 1e-4)


def _written_out(c: mx.array, x: mx.array) -> Any:
    inner, v = x, c
    for _ in range(2):
        inner = mx.linalg.inv(inner.reshape(2, 3)[:, :2]).sum() * x
    for _ in range(3):
        v = v * 0.5 + inner
    return v, c


def test_interrupting_an_inner_loop_that_does_not_end() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        return mx.while_loop(lambda v: v > -1.0, lambda v: v * 0.5, c + x), None

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        mx.eval(mx.scan(step, mx.array(1.0), mx.ones(3))[0])
    assert mx.array(2).item() == 2
