"""What type checkers see of transformed functions: mypy checks the claims, pytest that they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, assert_type

import ingot.core as mx
import ingot.nn as nn
from ingot.utils import tree_flatten


def scaled_sum(x: mx.array, scale: float = 1.0) -> mx.array:
    return mx.sum(x * scale)


def of_a_dict(parameters: dict[str, mx.array]) -> mx.array:
    return mx.sum(parameters["w"])


class Doubling(nn.Module):
    @mx.compile
    def __call__(self, x: mx.array, times: int = 1) -> mx.array:
        return x * 2**times


x = mx.array([1.0, 2.0])


def test_compiled_functions_keep_their_signatures() -> None:
    compiled = mx.compile(scaled_sum)
    assert_type(compiled(x, scale=2.0), mx.array)
    options = partial(mx.compile, shapeless=True)
    assert_type(options(scaled_sum)(x), mx.array)
    assert compiled(x, scale=2.0).item() == 6
    assert compiled.cache_info().misses == 1


def test_compiled_methods_lose_their_receiver() -> None:
    assert_type(Doubling()(x, times=2), mx.array)
    assert Doubling()(x, times=2).tolist() == [4, 8]
    assert len(Doubling().__call__.explain(x).kernels) == 1


def test_gradients_by_an_array_are_arrays() -> None:
    assert_type(mx.grad(scaled_sum)(x, 3.0), mx.array)
    assert_type(mx.value_and_grad(scaled_sum)(x), tuple[mx.array, mx.array])
    assert_type(mx.value_and_grad(of_a_dict)({"w": x}), tuple[mx.array, Any])
    assert mx.grad(scaled_sum)(x, 3.0).tolist() == [3, 3]


def test_other_transforms_keep_signatures() -> None:
    mapped = mx.vmap(scaled_sum)
    assert_type(mx.checkpoint(scaled_sum)(x, scale=2.0), mx.array)
    assert_type(mapped(x), mx.array)
    assert mapped(x).tolist() == [1, 2]
    model = nn.Linear(2, 1)

    def loss(x: mx.array) -> tuple[mx.array, int]:
        return mx.sum(model(x)), 7

    differentiated: Callable[[mx.array], Any] = nn.value_and_grad(model, loss)
    assert_type(nn.value_and_grad(model, loss)(x), tuple[tuple[mx.array, int], dict[str, Any]])
    assert differentiated(x)[0][1] == 7


def test_results_that_depend_on_arguments() -> None:
    matrix = mx.array([[2.0, 0.0], [0.0, 1.0]])
    assert_type(mx.linalg.svd(matrix), tuple[mx.array, mx.array, mx.array])
    assert_type(mx.linalg.svd(matrix, compute_uv=False), mx.array)
    assert_type(tree_flatten({"a": 1}), list[tuple[str, Any]])
    assert_type(tree_flatten({"a": 1}, destination={}), dict[str, Any])
    assert mx.linalg.svd(matrix, compute_uv=False).tolist() == [2, 1]
