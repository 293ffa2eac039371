"""Large graphs: no traversal recurses, and work grows with the size of the graph, not faster."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot._native import topological

LONG = 100_000


def chain(length: int) -> Any:
    def function(x: mx.array) -> mx.array:
        for _ in range(length):
            x = x * 1.0001
        return x

    return function


class TestLongChains:
    def test_gradient(self) -> None:
        found = mx.grad(chain(LONG))(mx.array(1.0, dtype=mx.float64))
        np.testing.assert_allclose(found.item(), 1.0001**LONG, rtol=1e-9)

    def test_tangent(self) -> None:
        one = mx.array(1.0, dtype=mx.float64)
        _, (change,) = mx.jvp(chain(LONG), [one], [one])
        np.testing.assert_allclose(change.item(), 1.0001**LONG, rtol=1e-9)

    def test_vmap(self) -> None:
        found = mx.vmap(chain(LONG))(mx.array([1.0, 2.0], dtype=mx.float64))
        np.testing.assert_allclose(np.array(found), [1.0001**LONG, 2 * 1.0001**LONG], rtol=1e-9)

    def test_checkpoint(self) -> None:
        found = mx.grad(mx.checkpoint(chain(LONG)))(mx.array(1.0, dtype=mx.float64))
        np.testing.assert_allclose(found.item(), 1.0001**LONG, rtol=1e-9)

    def test_second_derivative(self) -> None:
        def function(x: mx.array) -> mx.array:
            return chain(10_000)(x) ** 2

        found = mx.grad(mx.grad(function))(mx.array(1.0, dtype=mx.float64))
        np.testing.assert_allclose(found.item(), 2 * 1.0001**20_000, rtol=1e-9)

    def test_chains_that_are_dropped_without_being_evaluated(self) -> None:
        for _ in range(2):
            mx.value_and_grad(chain(LONG))(mx.array(1.0))

    def test_updates(self) -> None:
        def function(x: mx.array) -> mx.array:
            total = mx.zeros((2,))
            for _ in range(5_000):
                total[0] += x
            return total.sum()

        assert mx.grad(function)(mx.array(2.0)).item() == 5_000


def gradient_size(function: Any, *inputs: mx.array) -> int:
    """How many nodes the gradient consists of."""
    return len(topological([mx.grad(function)(*inputs)]))


def used_many_times(count: int) -> Any:
    def function(x: mx.array) -> mx.array:
        y = mx.exp(x)
        total = y
        for number in range(count):
            total = total + y * (number + 2)
        return total.sum()

    return function


def indexed_many_times(count: int) -> Any:
    return lambda x: mx.concatenate(
        [x[number % 3 : number % 3 + 1] for number in range(count)]
    ).sum()


def split_many_times(count: int) -> Any:
    return lambda x: sum((part * part).sum() for part in mx.split(mx.tile(x, count), count))


def checkpointed_many_times(count: int) -> Any:
    def function(x: mx.array) -> mx.array:
        for _ in range(count):
            x = mx.checkpoint(lambda x: mx.sin(x) * x)(x)
        return x.sum()

    return function


@pytest.mark.parametrize(
    "family",
    [used_many_times, indexed_many_times, split_many_times, checkpointed_many_times],
    ids=lambda family: family.__name__,
)
def test_work_grows_linearly(family: Any) -> None:
    x = mx.array([1.0, 2.0, 3.0])
    small, middle, large = (gradient_size(family(count), x) for count in (20, 40, 80))
    assert large - middle == 2 * (middle - small)


def test_paths_are_not_followed_one_by_one() -> None:
    def doubled(x: mx.array) -> mx.array:
        for _ in range(50):
            x = x + x
        return x

    x = mx.array(1.0, dtype=mx.float64)
    assert mx.grad(doubled)(x).item() == 2.0**50
    assert gradient_size(doubled, x) < 200
    assert mx.jvp(doubled, [x], [x])[1][0].item() == 2.0**50
    assert mx.vmap(doubled)(mx.array([1.0, 2.0], dtype=mx.float64)).tolist() == [2.0**50, 2.0**51]


def test_only_what_depends_on_the_inputs_is_looked_at() -> None:
    constant = chain(2_000)(mx.array(1.0))
    calls = []

    def loss(x: mx.array) -> mx.array:
        calls.append(x)
        return x * constant

    assert gradient_size(loss, mx.array(2.0)) < 2_000 + 20


def test_nothing_is_built_for_inputs_that_are_not_differentiated_by() -> None:
    weights = mx.ones((3, 3))

    def loss(x: mx.array) -> mx.array:
        return (x @ weights).sum()

    nodes = topological([mx.grad(loss)(mx.ones((2, 3)))])
    products = [node for node in nodes if type(node.op).__name__ == "Matmul"]
    assert len(products) == 1
