"""What compile makes of `mx.fast`: few kernels and calls of BLAS, nothing on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx


def array(*shape: int, seed: int = 0) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def layer_norm(x: mx.array, weight: mx.array, bias: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, weight, bias, 1e-5)


def rms_norm(x: mx.array, weight: mx.array) -> mx.array:
    return mx.fast.rms_norm(x, weight, 1e-5)


def attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2)


def causal_attention(q: mx.array, k: mx.array, v: mx.array) -> mx.array:
    return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2, mask="causal")


def rope(x: mx.array) -> mx.array:
    return mx.fast.rope(x, x.shape[-1], traditional=False, base=1e4, scale=1.0, offset=2)


FEATURES = [array(64, 256), array(256, seed=1), array(256, seed=2)]
HEADS = [array(2, 4, 64, 32, seed=seed) for seed in range(3)]
SHARED = [HEADS[0], HEADS[1][:, ::2], HEADS[2][:, ::2]]
# Function, inputs, and at most so many kernels and calls of BLAS: of it, and of its gradient.
CASES: list[tuple[Callable[..., mx.array], list[mx.array], tuple[int, int], tuple[int, int]]] = [
    (layer_norm, FEATURES, (1, 0), (5, 0)),
    (rms_norm, FEATURES[:2], (1, 0), (4, 0)),
    (attention, HEADS, (1, 0), (6, 0)),
    (attention, SHARED, (1, 0), (6, 0)),
    (causal_attention, HEADS, (1, 0), (6, 0)),
    (rope, HEADS[:1], (5, 0), (9, 0)),
]


@pytest.mark.parametrize(("function", "inputs", "forward", "backward"), CASES)
def test_few_kernels_and_nothing_on_the_host(
    function: Callable[..., mx.array],
    inputs: list[mx.array],
    forward: tuple[int, int],
    backward: tuple[int, int],
) -> None:
    def loss(*inputs: mx.array) -> mx.array:
        return (function(*inputs) * inputs[0]).sum()

    gradient: Any = mx.grad(loss, argnums=tuple(range(len(inputs))))
    for compiled, (kernels, products) in (
        (mx.compile(function), forward),
        (mx.compile(gradient), backward),
    ):
        made = compiled.explain(*inputs).to_dict()["native"]
        assert made["host_steps"] == []
        assert made["blas_calls"] <= products
        assert made["kernels"] <= kernels
    np.testing.assert_allclose(
        np.array(mx.compile(function)(*inputs)), np.array(function(*inputs)), rtol=1e-4, atol=1e-5
    )
