"""Schedules against MLX at many steps, given as arrays and as ints, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core
import mlx.optimizers
import numpy as np
import pytest

import ingot.core as mx
import ingot.optimizers as optim

SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "exponential": lambda o: o.exponential_decay(0.1, 0.9),
    "step": lambda o: o.step_decay(0.1, 0.5, 7),
    "cosine": lambda o: o.cosine_decay(0.1, 20),
    "cosine to": lambda o: o.cosine_decay(0.1, 20, 0.03),
    "linear": lambda o: o.linear_schedule(0.0, 0.1, 15),
    "linear down": lambda o: o.linear_schedule(1.0, -0.5, 3),
    "joined": lambda o: o.join_schedules(
        [o.linear_schedule(0.0, 0.1, 5), o.cosine_decay(0.1, 10), o.exponential_decay(0.01, 0.8)],
        [5, 15],
    ),
    "one": lambda o: o.join_schedules([o.step_decay(0.2, 0.1, 3)], []),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_equal_mlx(name: str) -> None:
    ours, theirs = SCHEDULES[name](optim), SCHEDULES[name](mlx.optimizers)
    compiled = mx.compile(ours)
    for step in [*range(30), 1000]:
        expected = theirs(mlx.core.array(step, mlx.core.uint64))
        found = ours(mx.array(step, mx.uint64))
        assert str(found.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-5, atol=1e-8)
        again = compiled(mx.array(step, mx.uint64))
        np.testing.assert_allclose(again.item(), expected.item(), rtol=1e-5, atol=1e-8)
        plain, other = ours(step), theirs(step)
        np.testing.assert_allclose(float(plain), float(other), rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", SCHEDULES)
def test_learning_rates_follow_schedules(name: str) -> None:
    ours = optim.SGD(SCHEDULES[name](optim))
    theirs = mlx.optimizers.SGD(SCHEDULES[name](mlx.optimizers))
    for _ in range(20):
        np.testing.assert_allclose(
            ours.learning_rate.item(), theirs.learning_rate.item(), rtol=1e-5, atol=1e-8
        )
        ours.update({}, {})
        theirs.update({}, {})
