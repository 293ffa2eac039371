"""New shapes of shapeless functions: nothing is compiled where a program serves them."""

from __future__ import annotations

import numpy as np

import ingot.core as mx


def function(x: mx.array) -> mx.array:
    return mx.exp(x - x.max(axis=-1, keepdims=True)) * x.shape[0]


def test_new_shapes_need_no_compilation() -> None:
    compiled = mx.compile(function, shapeless=True)
    mx.eval(compiled(mx.zeros((40, 50))))
    before = compiled.cache_info()
    for shape in ((41, 52), (60, 70), (33, 64)):
        x = np.random.default_rng(9).uniform(size=shape).astype(np.float32)
        expected = np.exp(x - x.max(axis=-1, keepdims=True)) * shape[0]
        np.testing.assert_allclose(np.array(compiled(mx.array(x))), expected, rtol=1e-5)
    after = compiled.cache_info()
    assert after.new_shapes == before.new_shapes + 3
    assert after.phases["machine code"] == before.phases["machine code"]


def test_shapes_of_another_class_are_right_too() -> None:
    compiled = mx.compile(function, shapeless=True)
    for shape in ((40, 50), (1, 50), (40, 1), (0, 3), (3, 5000)):
        x = np.random.default_rng(9).uniform(size=shape).astype(np.float32)
        if x.size:
            expected = np.exp(x - x.max(axis=-1, keepdims=True)) * shape[0]
            np.testing.assert_allclose(np.array(compiled(mx.array(x))), expected, rtol=1e-5)
