"""Hyperparameters of optimizers that compiled steps close over: what is assigned counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

OPTIMIZERS: dict[str, Callable[[], optim.Optimizer]] = {
    "SGD": lambda: optim.SGD(0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    "AdamW": lambda: optim.AdamW(0.1),
}


def _changed(value: Any) -> Any:
    """Another value of a hyperparameter; None for what is none."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value * 0.5
    if isinstance(value, (list, tuple)):
        return type(value)(each * 0.5 for each in value)
    return None


def _training(make: Callable[[], optim.Optimizer], compiled: bool) -> tuple[Any, Any, Any]:
    """A model, its optimizer, and a step that closes over both."""
    model, optimizer = nn.Linear(3, 2, bias=False), make()
    model.weight = mx.array(np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3))
    gradient = nn.value_and_grad(model, lambda x: mx.sum(model(x) ** 2))

    def step(x: mx.array) -> mx.array:
        loss, gradients = gradient(x)
        optimizer.update(model, gradients)
        return loss

    state = [model.state, optimizer.state]
    run = mx.compile(step, inputs=state, outputs=state) if compiled else step
    return model, optimizer, run


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_hyperparameter_can_be_assigned_between_steps(name: str) -> None:
    x = mx.array([[1.0, 2.0, 3.0]])
    trainings = [_training(OPTIMIZERS[name], compiled) for compiled in (False, True)]
    values = {key: _changed(value) for key, value in vars(trainings[0][1]).items()}
    changes = {key: value for key, value in values.items() if value is not None}
    assert len(changes) > 2
    for key, value in (None, None), (None, None), *changes.items():
        for model, optimizer, step in trainings:
            if key is not None:
                setattr(optimizer, key, value)
            mx.eval(step(x), model.state)
        weights = [np.array(model.weight) for model, _, _ in trainings]
        np.testing.assert_allclose(weights[1], weights[0], rtol=1e-5, atol=1e-6, err_msg=str(key))


def test_steps_that_nothing_was_assigned_between_are_traced_no_more_than_before() -> None:
    """Once for the state before the first step, and once for that which it made."""
    _, _, step = _training(OPTIMIZERS["AdamW"], True)
    for _ in range(4):
        step(mx.array([[1.0, 2.0, 3.0]]))
    info = step.cache_info()
    assert (info.misses, info.hits) == (2, 2)
