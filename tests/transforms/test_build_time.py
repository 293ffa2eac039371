"""Building the gradient of a small network takes no longer than MLX needs, give or take."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np

import ingot.core as mx

LIMIT = 2.0  # times what MLX takes; about 1 on a quiet machine


def step(m: Any) -> Callable[[], Any]:
    """Builds value_and_grad of a loss of three layers, 784-512-512-10, without evaluating it."""
    random = np.random.default_rng(0)

    def array(*shape: int) -> Any:
        return m.array(random.normal(size=shape).astype(np.float32))

    weights = [array(784, 512), array(512, 512), array(512, 10)]
    biases = [array(512), array(512), array(10)]
    inputs, targets = array(32, 784), array(32, 10)
    m.eval(weights, biases, inputs, targets)

    def loss(weights: Any, biases: Any, x: Any, y: Any) -> Any:
        for k in range(3):
            x = x @ weights[k] + biases[k]
            if k < 2:
                x = m.maximum(x, 0)
        return m.mean(m.square(x - y))

    function = m.value_and_grad(loss, argnums=(0, 1))
    return lambda: function(weights, biases, inputs, targets)


def test_against_mlx_in_turns() -> None:
    steps = [step(mx), step(mlx)]
    best = [float("inf")] * 2
    gc.collect()
    for _ in range(5):
        for _ in range(40):
            for number, build in enumerate(steps):
                start = time.perf_counter()
                for _ in range(10):
                    build()
                best[number] = min(best[number], (time.perf_counter() - start) / 10)
        if best[0] < LIMIT * best[1]:
            break  # more rounds only help if others kept the machine busy
    assert best[0] < LIMIT * best[1], "{:.1f} us against MLX's {:.1f} us".format(
        *(1e6 * seconds for seconds in best)
    )
