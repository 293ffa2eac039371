"""Compositions as one node outside transforms, with the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core
import numpy as np
import pytest

import ingot.core as mx
from ingot.ops.attention.fast import RMSNorm, Rope
from ingot.ops.attention.step import AttentionStep


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def norm(module: Any, x: Any) -> Any:
    return module.fast.rms_norm(x, module.arange(x.shape[-1]) * 0.1, 1e-5)


def rope(module: Any, x: Any) -> Any:
    return module.fast.rope(x, 6, traditional=False, base=1e4, scale=1.0, offset=module.array(5))


def rope_from_an_int(module: Any, x: Any) -> Any:
    return module.fast.rope(x, 8, traditional=True, base=1e4, scale=0.5, offset=70)


def attention(module: Any, x: Any) -> Any:
    return module.fast.scaled_dot_product_attention(x, x, x, scale=0.3, mask="causal")


FUNCTIONS = [norm, rope, rope_from_an_int, attention]
Function = Callable[[Any, Any], Any]


@pytest.mark.parametrize("function", FUNCTIONS)
class TestCompositions:
    def test_are_one_node_that_equals_mlx(self, function: Function) -> None:
        x = numbers(2, 3, 4, 8)
        result = function(mx, mx.array(x))
        assert isinstance(result._node.op, (RMSNorm, Rope, AttentionStep))
        expected = np.array(function(mlx.core, mlx.core.array(x)))
        np.testing.assert_allclose(np.array(result), expected, rtol=2e-6, atol=2e-6)

    def test_transforms_see_what_they_are_made_of(self, function: Function) -> None:
        x = numbers(2, 3, 4, 8)

        def total(module: Any, x: Any) -> Any:
            weights = module.arange(x.size).reshape(x.shape) / x.size
            return (function(module, x) * weights).sum()

        found = np.array(mx.grad(lambda x: total(mx, x))(mx.array(x)))
        expected = np.array(mlx.core.grad(lambda x: total(mlx.core, x))(mlx.core.array(x)))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        batch = numbers(5, 2, 3, 4, 8)
        mapped = mx.vmap(lambda x: function(mx, x))(mx.array(batch))
        looped = np.stack([np.array(function(mx, mx.array(one))) for one in batch])
        np.testing.assert_allclose(np.array(mapped), looped, rtol=2e-6, atol=2e-6)

    def test_give_the_same_compiled_and_checked(self, function: Function) -> None:
        x = mx.array(numbers(2, 3, 4, 8))
        expected = np.array(function(mx, x))
        compiled = mx.compile(lambda x: function(mx, x))(x)
        np.testing.assert_allclose(np.array(compiled), expected, rtol=2e-6, atol=2e-6)
        with mx.debug_nans():
            checked = np.array(function(mx, x))
        np.testing.assert_allclose(checked, expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("function", [norm, rope, rope_from_an_int])
def test_many_elements_are_one_node_that_equals_mlx(function: Function) -> None:
    x = numbers(1, 9, 300, 8)
    result = function(mx, mx.array(x))
    assert isinstance(result._node.op, (RMSNorm, Rope))
    expected = np.array(function(mlx.core, mlx.core.array(x)))
    np.testing.assert_allclose(np.array(result), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "added", "sinks"])
def test_attention_of_few_queries_equals_float64(kind: str, queries: int, dtype: str) -> None:
    random = np.random.default_rng(3)
    q, k, v = (
        mx.array(random.normal(size=(2, heads, length, 16))).astype(getattr(mx, dtype))
        for heads, length in ((6, queries), (2, 11), (2, 11))
    )
    mask: Any = {"causal": "causal"}.get(kind)
    hidden = np.zeros((2, 6, queries, 11), bool)
    added = np.zeros((2, 6, queries, 11))
    if kind == "causal":
        hidden[:] = np.arange(11 - queries, 11)[:, None] < np.arange(11)
    if kind == "boolean":
        hidden = random.uniform(size=hidden.shape) < 0.4
        mask = mx.array(~hidden)
    if kind == "added":
        added = random.normal(size=added.shape).astype(np.float32).astype(np.float64)
        mask = mx.array(added.astype(np.float32)).astype(q.dtype)
        added = np.array(mask.astype(mx.float32)).astype(np.float64)
    sinks = mx.array(random.normal(size=6).astype(np.float32)).astype(q.dtype)
    given = {"sinks": sinks} if kind == "sinks" else {}
    found = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.4, mask=mask, **given)
    assert isinstance(found._node.op, AttentionStep)
    wide = [np.array(x.astype(mx.float32)).astype(np.float64) for x in (q, k, v)]
    keys, values = (np.repeat(x, 3, axis=1) for x in wide[1:])
    scores = wide[0] @ keys.swapaxes(-1, -2) * 0.4 + added
    scores[hidden] = -np.inf
    powers = np.exp(scores)
    totals = powers.sum(-1, keepdims=True)
    if given:
        totals += np.exp(np.array(sinks.astype(mx.float32)).astype(np.float64))[:, None, None]
    wanted = powers @ values / totals
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    result = np.array(found.astype(mx.float32))
    np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)
