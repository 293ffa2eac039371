"""Matrices of products of few rows are prefetched by threads that wait: values do not change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

import ingot.core as mx
from ingot.runtime import threads


@pytest.fixture(autouse=True)
def restore_threads() -> Iterator[None]:
    before = threads.get_num_threads()
    yield
    threads.set_num_threads(before)


def layers(rows: int, weights: list[np.ndarray]) -> np.ndarray:
    """What small ops and products with all matrices make of some rows."""
    x = mx.array(np.linspace(-1, 1, rows * weights[0].shape[1], dtype=np.float32))
    x = x.reshape(rows, -1)
    for number, weight in enumerate(map(mx.array, weights)):
        mx.eval(weight)
        right = weight.T if number % 2 == 0 else mx.contiguous(weight.T)
        x = (x @ right) * 0.5
    return np.array(x)


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_values_do_not_depend_on_it(rows: int) -> None:
    rng = np.random.default_rng(0)
    lengths = [300, 250, 1000, 64, 700]  # some matrices are too small to be announced
    weights = [rng.standard_normal((n, k), dtype=np.float32) / 16 for k, n in pairwise(lengths)]
    expected = np.linspace(-1, 1, rows * lengths[0], dtype=np.float32).reshape(rows, -1)
    for weight in weights:
        expected = (expected @ weight.T) * 0.5
    found = []
    for number in (1, 2, 3):
        threads.set_num_threads(number)
        found.append(layers(rows, weights))
    np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(found[0], each) for each in found)


def test_memory_may_be_gone_when_it_is_read_ahead() -> None:
    threads.set_num_threads(2)
    for number in range(200):
        weight = mx.full((256, 256), 0.5)
        mx.eval(weight)
        x = mx.ones((1, 256)) @ weight.T
        del weight
        mx.clear_cache()
        assert float(x[0, number].item()) == 128
