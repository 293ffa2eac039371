"""The training examples of the documents that the project started from: as printed, compiled and
not.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim


def _losses(compiled: bool, dropout: bool) -> list[float]:
    mx.random.seed(7)
    x = mx.random.uniform(shape=(4, 10))
    y = mx.array([0, 1, 0, 1])
    layers = [nn.Dropout(0.3)] if dropout else []
    model = nn.Sequential(*layers, nn.Linear(10, 1))
    optimizer = optim.SGD(learning_rate=0.1, momentum=0.8)

    def loss_fn(model: Any, x: mx.array, y: mx.array) -> mx.array:
        logits = model(x).squeeze()
        return nn.losses.binary_cross_entropy(logits, y)

    state = [model.state, optimizer.state, mx.random.state]

    def step(x: mx.array, y: mx.array) -> mx.array:
        loss_and_grad_fn = nn.value_and_grad(model, loss_fn)
        loss, grads = loss_and_grad_fn(model, x, y)
        optimizer.update(model, grads)
        return loss

    run = partial(mx.compile, inputs=state, outputs=state)(step) if compiled else step
    losses = []
    for _ in range(10):
        loss = run(x, y)
        mx.eval(state)
        losses.append(loss.item())
    return losses


def test_compiled_training_gives_the_same_losses() -> None:
    for dropout in (False, True):
        losses = _losses(False, dropout)
        assert np.allclose(losses, _losses(True, dropout), rtol=1e-5)
        assert dropout or losses[-1] < losses[0]


def test_parameters_as_arguments() -> None:
    class MLP(nn.Module):
        def __init__(self, d_in: int, d_out: int) -> None:
            super().__init__()
            self.l1 = nn.Linear(d_in, 256)
            self.l2 = nn.Linear(256, d_out)

        def __call__(self, x: mx.array) -> mx.array:
            x = nn.relu(self.l1(x))
            return self.l2(x)

    model = MLP(10, 5)
    params = model.parameters()
    opt = optim.SGD(1e-2)

    def loss_fn(p: Any, x: mx.array, y: mx.array) -> mx.array:
        logits = model.apply(p, x)
        return mx.mean(nn.losses.cross_entropy(logits, y))

    loss_and_grad = mx.compile(mx.value_and_grad(loss_fn))
    x = mx.random.uniform(shape=(32, 10))
    y = mx.random.randint(0, 5, (32,))
    losses = []
    for _ in range(5):
        loss, grads = loss_and_grad(params, x, y)
        params = opt.update(params, grads)
        mx.eval(loss)
        losses.append(float(loss))
    assert losses == sorted(losses, reverse=True)
