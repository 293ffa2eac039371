"""What depends on slices alone is computed before a loop: the results are those of the loop written
out, and the body no longer has it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.transforms.control.unrolled import close, scanned

import ingot.core as mx
from ingot.tuning_loops import MAX_HOISTED_BYTES

rng = np.random.default_rng(0)


def numbers(*shape: int) -> mx.array:
    return mx.array(rng.normal(size=shape).astype(np.float32) * 0.5)


W, V, XS, H = numbers(4, 5), numbers(5, 5), numbers(7, 3, 4), numbers(3, 5)


def split_gates(scan: Any, m: Any, w: Any, v: Any, xs: Any, h: Any, reverse: bool) -> Any:
    """A gated layer with all products in its body."""

    def step(state: Any, x: Any) -> Any:
        gate = 1 / (1 + m.exp(-(state @ v)))
        new = gate * state + (1 - gate) * m.tanh(m.log(x * x + 1) @ w - 0.1)
        return new, {"state": new, "given": m.exp(x).sum()}

    end, ys = scan(step, h, xs, reverse=reverse)
    return (end * end).sum() + (ys["state"] ** 3).mean() + ys["given"].sum()


def body_of(function: Callable[..., Any], *arguments: mx.array) -> str:
    """The ops in the body of the only loop of a function."""
    text = mx.compile(function).explain(*arguments).section("trace")
    (_, body) = text.split("in each of")
    return str(body.split("return")[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_and_gradients(reverse: bool, compiled: bool) -> None:
    def run(w: mx.array, v: mx.array, xs: mx.array, h: mx.array) -> Any:
        return mx.value_and_grad(
            lambda *args: split_gates(mx.scan, mx, *args, reverse), (0, 1, 2, 3)
        )(w, v, xs, h)

    def by_mlx(*arrays: Any) -> Any:
        return split_gates(partial(scanned, library=mlx), mlx, *arrays, reverse)

    found = (mx.compile(run) if compiled else run)(W, V, XS, H)
    arrays = [mlx.array(np.array(each)) for each in (W, V, XS, H)]
    expected = mlx.value_and_grad(by_mlx, (0, 1, 2, 3))(*arrays)
    np.testing.assert_allclose(found[0].item(), expected[0].item(), rtol=1e-5)
    for one, two in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(np.array(one), np.array(two), rtol=2e-5, atol=1e-5)


def test_second_derivatives_and_vmap() -> None:
    def curvature(scan: Any, h: mx.array) -> Any:
        def loss(w: mx.array, xs: mx.array) -> mx.array:
            return split_gates(scan, mx, w, V, xs, h, False)

        return mx.grad(lambda w: (mx.grad(loss, 1)(w, XS) ** 2).sum())(W)

    close(curvature(mx.scan, H), curvature(scanned, H), 1e-5)

    def each(scan: Any) -> Any:
        return mx.vmap(lambda x, h: split_gates(scan, mx, W, V, x, h, False), (2, None))(
            mx.stack([XS, XS + 1], 2), H
        )

    close(each(mx.scan), each(scanned), 1e-5)


def test_the_body_keeps_what_depends_on_carries() -> None:
    body = body_of(lambda xs, h: split_gates(mx.scan, mx, W, V, xs, h, False), XS, H)
    assert "Log(" not in body
    assert body.count("Tanh(") == 0
    assert body.count("Matmul(") == 1


def test_cheap_ops_stay() -> None:
    """Reading a slice of the result would take as long as computing it."""
    body = body_of(
        lambda xs: mx.scan(lambda c, x: (c * 0.5 + (x * 2 - 1), None), H[:, :4], xs)[0], XS
    )
    assert "Subtract(" in body


def test_results_much_larger_than_slices_stay() -> None:
    """The stacked results of all steps would take more memory than the whole loop."""
    steps, wide = 100, MAX_HOISTED_BYTES // 400 + 1

    def run(xs: mx.array) -> mx.array:
        return mx.scan(lambda c, x: (c + mx.sin(x * mx.arange(wide)), None), mx.zeros(wide), xs)[0]

    assert "Sin(" in body_of(run, mx.zeros(steps))
    assert "Sin(" not in body_of(run, mx.zeros((1000, wide)))


def test_random_numbers_and_fixed_carries() -> None:
    """The random state is carried, and a carry that never changes has no value in the body."""

    def run(scan: Any) -> Any:
        mx.random.seed(3)

        def step(carry: Any, x: mx.array) -> Any:
            total, scale = carry
            noise = mx.exp(mx.random.normal((4,)))
            return (total + noise * mx.sin(x) + mx.cos(x * scale), scale), noise

        return scan(step, (mx.zeros(4), numbers_of_scale), XS[:, 0])

    numbers_of_scale = mx.array([1.0, 2.0, 3.0, 4.0])
    close(run(mx.scan), run(scanned), 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_taken_elements(compiled: bool) -> None:
    """As in the forward recursion of CTC: each step takes some elements of its slice."""
    scores, labels = numbers(6, 3, 8), rng.integers(0, 8, (3, 5))

    def loss(scan: Any, m: Any, scores: Any, labels: Any) -> Any:
        def step(a: Any, row: Any) -> Any:
            return m.logaddexp(a, m.roll(a, 1, 1)) + m.take_along_axis(row, labels, 1), None

        return (scan(step, m.zeros((3, 5)), scores)[0] ** 2).sum()

    def run(scores: mx.array, labels: mx.array) -> Any:
        return mx.grad(lambda x: loss(mx.scan, mx, x, labels))(scores)

    found = (mx.compile(run) if compiled else run)(scores, mx.array(labels))
    expected = mlx.grad(lambda x: loss(partial(scanned, library=mlx), mlx, x, mlx.array(labels)))(
        mlx.array(np.array(scores))
    )
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-5)
    body = body_of(lambda x: loss(mx.scan, mx, x, mx.array(labels)), scores)
    assert "TakeAlongAxis(" not in body


def test_gathered_rows_and_loops_in_loops() -> None:
    table, tokens = numbers(11, 4), mx.array(rng.integers(0, 11, (6, 3)))

    def run(scan: Any) -> Any:
        def loss(table: mx.array) -> mx.array:
            def word(state: mx.array, token: mx.array) -> Any:
                return mx.tanh(state @ V + table[token] @ W), None

            def text(state: mx.array, row: mx.array) -> Any:
                return scan(word, state, row)[0], state.sum()

            end, sums = scan(text, numbers_of_state, tokens)
            return (end**2).sum() + sums.sum()

        return mx.value_and_grad(loss)(table)

    numbers_of_state = H[0]
    close(run(mx.scan), run(scanned), 1e-5)
    body = body_of(
        lambda state: mx.scan(lambda c, n: (c + table[n] @ W, None), state, tokens)[0], H
    )
    assert "Matmul(" not in body
    with pytest.raises(IndexError, match="index 12 is out of range"):
        mx.eval(mx.scan(lambda c, n: (c + table[n] @ W, None), H[0], mx.array([1, 12]))[0])


def test_transposed_matrices_stay_views_where_they_are_only_multiplied_by() -> None:
    def loop(function: Callable[[mx.array, mx.array], mx.array]) -> str:
        def run(v: mx.array, h: mx.array) -> Any:
            return mx.scan(lambda state, _: (function(state, v.T), None), h, length=3)[0]

        return body_of(run, V, V)

    assert "Transpose" in loop(lambda state, matrix: mx.tanh(state @ matrix))
    # A copy that all iterations read row by row is better than reading columns in each.
    assert "Transpose" not in loop(lambda state, matrix: mx.tanh(state @ matrix) + matrix)
