"""Machine code keeps to its memory: arrays that end at a guard page, and the planned arena."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.guard_pages import guarded_array

import ingot.core as mx

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "map": lambda x: mx.exp(x) * 2 + x,
    "rows": lambda x: x - mx.logsumexp(x, axis=-1, keepdims=True),
    "columns": lambda x: mx.sum(x * x, axis=0),
    "all": lambda x: mx.max(x + 1),
    "transposed": lambda x: x.T + 1,
    "transposed backwards": lambda x: x[::-1, ::-1].T * 2,
    "transposed rows": lambda x: mx.sum(x.T, axis=-1) + mx.max(x.T[::-1], axis=-1),
    "transposed softmax": lambda x: mx.exp(x.T - mx.logsumexp(x.T, axis=-1, keepdims=True)),
    "transposed half": lambda x: x.astype(mx.float16).T + x.astype(mx.int8).T,
    "backwards": lambda x: mx.sum(x[::-1, ::-1], axis=0),
    "stepped": lambda x: x[::-3, 1::2] * 2,
    "product": lambda x: x @ x.T,
    "place in rows": lambda x: mx.argmax(x, axis=-1) + mx.argmin(x * 2, axis=-1),
    "place in columns": lambda x: mx.argmax(x, axis=0),
    "place in all": lambda x: mx.argmin(x),
    "random": lambda x: x + mx.random.normal(x.shape, key=mx.random.key(0)),
    "counted": lambda x: x * mx.arange(x.shape[1]),
    "gathered rows": lambda x: x[mx.arange(x.shape[0] * 2) % x.shape[0] - x.shape[0]] + 1,
    "gathered elements": lambda x: mx.take_along_axis(x, mx.argmax(x, 1, keepdims=True), 1),
    "scattered rows": lambda x: x.at[mx.array([0, -1, 0])].add(x[:1] + mx.zeros((3, 1))),
    "scattered elements": lambda x: x.at[:, mx.array([-1, 0])].maximum(x[:, :2] * 2),
    "joined": lambda x: mx.concatenate([x[:1], x, x[:, ::-1]]),
    "padded": lambda x: mx.pad(x, ((1, 0), (0, 3))),
    "updated slice": lambda x: mx.grad(lambda x: (x[1:, ::2] * 2).sum())(x) + x,
    "one update": lambda x: mx.put_along_axis(x, mx.argmin(x, 1, keepdims=True), x[:, :1], 1),
}


@pytest.mark.parametrize("shape", [(1, 2), (3, 5), (17, 1023), (16, 16), (130, 33)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_outside_is_touched(name: str, shape: tuple[int, int]) -> None:
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x = guarded_array(mx.array(values))
    function = FUNCTIONS[name]
    found = np.array(mx.compile(function)(x))
    assert np.allclose(found, np.array(function(mx.array(values))), rtol=1e-4, atol=1e-3)


def test_the_arena_is_reused() -> None:
    def function(x: mx.array) -> mx.array:
        for _ in range(20):
            x = mx.sort(x + 1, axis=0) * 0.5
        return x

    stages = mx.compile(function).explain(mx.zeros((100, 100))).stages
    assert sum(each.kind == "host" for each in stages.nests.instructions) == 20
    assert stages.plan.arena <= 3 * 100 * 100 * 4


def test_memory_of_a_call_is_given_back() -> None:
    compiled = mx.compile(lambda x, w: mx.maximum(x @ w, 0) @ w)
    x, w = mx.ones((300, 300)), mx.ones((300, 300))
    mx.eval(compiled(x, w))
    before = mx.get_active_memory()
    for _ in range(20):
        mx.eval(compiled(x, w))
    assert mx.get_active_memory() == before
