"""The programs of the tour, as a user of MLX writes them. The tour prints them and runs them.

What the tour prints of this file has the file's own line numbers, so that messages which name a
line of it can be followed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

Step = Callable[[mx.array, mx.array], mx.array]


def gelu(x: mx.array) -> mx.array:
    return x * (1 + mx.erf(x / math.sqrt(2))) / 2


def scaled(x: mx.array, factor: float) -> mx.array:
    return x * factor


def call_differently(compiled: Callable[..., mx.array]) -> None:
    compiled(mx.ones(3), 0.5)
    compiled(mx.ones(3), 0.5)  # like the first
    compiled(mx.ones(5), 0.5)
    compiled(mx.ones(5), 0.25)
    compiled(mx.ones(5).astype(mx.float16), 0.25)


def scaled_by_array(x: mx.array, factor: mx.array) -> mx.array:
    return x * factor


def call_with_arrays(compiled: Callable[..., mx.array]) -> None:
    for length in range(3, 100):
        compiled(mx.ones(length), mx.array(1 / length))


def look_inside(x: mx.array) -> mx.array:
    z = -x
    print(z)
    return mx.exp(z)


class Network(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = [
            nn.Linear(2, width),
            nn.Linear(width, width),
            nn.Linear(width, width),
            nn.Linear(width, 1),
        ]

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers[:-1]:
            x = mx.tanh(layer(x))
        return self.layers[-1](x).squeeze(-1)


def loss_fn(model: Network, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.binary_cross_entropy(model(x), y)


def training_steps(model: Network, optimizer: optim.Optimizer) -> tuple[Step, Step]:
    def step(x: mx.array, y: mx.array) -> mx.array:
        loss, gradients = nn.value_and_grad(model, loss_fn)(model, x, y)
        optimizer.update(model, gradients)
        return loss

    state = [model.state, optimizer.state]
    return step, mx.compile(step, inputs=state, outputs=state)
