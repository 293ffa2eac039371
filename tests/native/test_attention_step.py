"""Attention of few queries in native code against the formula in NumPy, in float64."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import ingot.core as mx


def expected(q: Any, k: Any, v: Any, scale: float, mask: Any = None, sinks: Any = None) -> Any:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    sharing = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, sharing, 1), np.repeat(v, sharing, 1)
    scores = q @ k.swapaxes(-1, -2) * scale
    if mask is not None:
        scores = np.where(mask, scores, -1e300) if mask.dtype == bool else scores + mask
    top = scores.max(-1, keepdims=True)
    if sinks is not None:
        top = np.maximum(top, sinks[None, :, None, None])
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks[None, :, None, None] - top)
    return powers @ v / total


SHAPES = [  # examples, heads, heads of keys, queries, keys, width, width of values
    (1, 9, 3, 1, 41, 64, 64),
    (1, 4, 4, 1, 1, 16, 16),
    (2, 6, 2, 3, 517, 40, 24),
    (1, 2, 1, 8, 1500, 128, 128),
    (3, 4, 2, 1, 33, 7, 5),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("extra", ["", "causal", "bool", "added", "sinks"])
def test_values(shape: tuple[int, ...], dtype: Any, extra: str) -> None:
    examples, heads, key_heads, queries, keys, width, value_width = shape
    random = np.random.default_rng(0)
    arrays = [
        mx.array(random.normal(size=size).astype(np.float32)).astype(dtype)
        for size in (
            (examples, heads, queries, width),
            (examples, key_heads, keys + 3, width),
            (examples, key_heads, keys + 3, value_width),
        )
    ]
    q, k, v = arrays[0], arrays[1][:, :, :keys], arrays[2][:, :, :keys]  # as a cache shows them
    values = [np.array(x.astype(mx.float32)) for x in (q, k, v)]
    options: dict[str, Any] = {}
    mask = sinks = None
    if extra == "causal":
        mask = np.tri(queries, keys, keys - queries, dtype=bool)
        options["mask"] = "causal"
    elif extra == "bool":
        mask = random.random((examples, 1, queries, keys)) < 0.7
        mask[..., 0] = True
        options["mask"] = mx.array(mask)
    elif extra == "added":
        mask = random.normal(size=(queries, keys)).astype(np.float32).astype(np.float16)
        options["mask"] = mx.array(mask).astype(dtype)
        mask = np.array(options["mask"].astype(mx.float32))
    elif extra == "sinks":
        sinks = random.normal(size=heads).astype(np.float16).astype(np.float32)
        options["sinks"] = mx.array(sinks).astype(dtype)
        sinks = np.array(options["sinks"].astype(mx.float32))
    found = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, **options)
    assert found.dtype == dtype
    tolerance = {mx.float32: 3e-6, mx.float16: 2e-3, mx.bfloat16: 1.6e-2}[dtype]
    np.testing.assert_allclose(
        np.array(found.astype(mx.float32)),
        expected(*values, 0.3, mask, sinks),
        rtol=tolerance,
        atol=tolerance,
    )


def test_infinities_and_nan_in_masks_and_values() -> None:
    q, k = mx.ones((1, 1, 1, 16)), mx.ones((1, 1, 70, 16))
    v = mx.broadcast_to(mx.arange(70.0)[:, None], (1, 1, 70, 16))
    mask = np.full((1, 70), -np.inf, np.float32)
    mask[0, 50:] = 0
    found = mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, mask=mx.array(mask))
    np.testing.assert_allclose(np.array(found), 59.5, rtol=1e-6)
    hidden = mx.array(np.zeros((1, 70), bool))
    found = mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, mask=hidden)
    np.testing.assert_allclose(np.array(found), 34.5, rtol=1e-6)
    broken = mx.fast.scaled_dot_product_attention(q * np.nan, k, v, scale=1.0)
    assert np.isnan(np.array(broken)).all()


def test_threads_that_change_meanwhile() -> None:
    """The room for converted rows is that of the loop, not of the threads there were before."""
    random = np.random.default_rng(0)
    q, k, v = (
        mx.array(random.normal(size=(2, 4, length, 32)).astype(np.float32)).astype(mx.float16)
        for length in (1, 700, 700)
    )
    wanted = expected(*(np.array(x.astype(mx.float32)) for x in (q, k, v)), 0.2)
    before, is_over = mx.get_num_threads(), threading.Event()

    def change() -> None:
        while not is_over.is_set():
            for threads in (1, 16):
                mx.set_num_threads(threads)

    changing = threading.Thread(target=change)
    changing.start()
    try:
        for _ in range(100):
            found = mx.fast.scaled_dot_product_attention(q, k, v, scale=0.2)
            np.testing.assert_allclose(np.array(found.astype(mx.float32)), wanted, atol=2e-3)
    finally:
        is_over.set()
        changing.join()
        mx.set_num_threads(before)
