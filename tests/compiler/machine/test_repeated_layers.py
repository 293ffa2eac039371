"""Equal layers share their machine code: how many kernels a training step has is counted, not
timed.
"""

from __future__ import annotations

from typing import Any

import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optimizers
from ingot import _native
from ingot.compiler.machine import kernels

VOCABULARY, WIDTH = 50, 16


class Model(nn.Module):
    """A small transformer with dropout."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = [
            nn.TransformerEncoderLayer(WIDTH, 2, 2 * WIDTH, dropout=0.1) for _ in range(layers)
        ]
        self.project = nn.Linear(WIDTH, VOCABULARY)

    def __call__(self, tokens: mx.array) -> Any:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, None)
        return self.project(x)


def explained(layers: int) -> Any:
    """What compilation makes of a training step."""
    model = Model(layers)
    optimizer = optimizers.AdamW(1e-3)

    def loss(model: Any, tokens: mx.array, targets: mx.array) -> mx.array:
        return nn.losses.cross_entropy(model(tokens), targets, reduction="mean")

    gradient = nn.value_and_grad(model, loss)

    def step(tokens: mx.array, targets: mx.array) -> mx.array:
        value, gradients = gradient(model, tokens, targets)
        optimizer.update(model, gradients)
        return value

    tokens = mx.random.randint(0, VOCABULARY, (3, 7))
    state = [model.state, optimizer.state, mx.random.state]
    optimizer.init(model.trainable_parameters())
    mx.eval(state, tokens)
    compiled = mx.compile(step, inputs=state, outputs=state)
    before = compiled(tokens, tokens).item()
    for _ in range(5):
        after = compiled(tokens, tokens).item()
    assert after < before
    return compiled.explain(tokens, tokens)


@pytest.fixture(scope="module")
def programs() -> dict[int, Any]:
    return {layers: explained(layers) for layers in (1, 2, 4)}


def test_a_training_step_has_no_host_steps(programs: dict[int, Any]) -> None:
    for program in programs.values():
        assert program.to_dict()["native"]["host_steps"] == []


def test_more_layers_need_no_more_machine_code(programs: dict[int, Any]) -> None:
    every = {layers: len(program.code) for layers, program in programs.items()}
    distinct = {layers: len(set(program.code)) for layers, program in programs.items()}
    assert every[4] - every[2] == 2 * (every[2] - every[1])  # so many kernels has a layer
    # between two layers there are kernels that the first and the last do not need
    assert distinct[2] <= distinct[1] + 3
    assert distinct[4] == distinct[2]
    assert set(programs[4].code) == set(programs[2].code)


def test_equal_kernels_are_compiled_once(programs: dict[int, Any]) -> None:
    texts = sorted(set(programs[4].code))
    codes = kernels.load_kernels(texts).codes
    assert len({code.address for code in codes}) == len(texts)
    known = _native.code_in_memory()
    assert kernels.load_kernels(texts).codes == codes
    assert _native.code_in_memory() == known
