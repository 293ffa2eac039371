"""Rows as int8 in NumPy."""

from __future__ import annotations

import numpy as np

from ingot.graph.numerics.activations import as_bytes


def test_multiples_of_a_part_of_the_largest() -> None:
    x = np.random.default_rng(2).normal(size=(3, 96)).astype(np.float32)
    x[1, :32] = 0
    found = as_bytes(x)
    blocks, before = found.reshape(-1, 32), x.reshape(-1, 32)
    steps = abs(before).max(-1, keepdims=True) / 127
    assert (abs(blocks - before) <= steps * 0.5001).all()
    assert (found[1, :32] == 0).all()


def test_blocks_that_are_not_finite_are_nan() -> None:
    x = np.ones((1, 64), np.float32)
    for special in (np.inf, np.nan):
        x[0, 40] = special
        found = as_bytes(x)
        assert np.isnan(found[0, 32:]).all()
        np.testing.assert_allclose(found[0, :32], 1)


def test_blocks_of_tiny_elements_are_zero() -> None:
    x = np.ones((1, 64), np.float32)
    x[0, 32:] = np.float32(1e-40)
    x[0, 40] = 0
    found = as_bytes(x)
    np.testing.assert_allclose(found[0, :32], 1)
    assert (found[0, 32:] == 0).all()
