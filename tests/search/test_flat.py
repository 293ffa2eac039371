"""FlatIndex against faiss: distances, ids, conventions, and what users do wrong."""

from __future__ import annotations

import numpy as np
import pytest
from tests.search.faiss_oracle import assert_same_neighbours, faiss_index

import ingot.core as mx
from ingot.search import FlatIndex

METRICS = ("l2", "inner_product", "cosine", "l1", "linf")


def vectors(count: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, d)).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("count", [1, 7, 1023, 4097])
def test_the_same_neighbours_as_faiss(metric: str, count: int) -> None:
    x, y = vectors(count, 24), vectors(37, 24, 1)
    ours, theirs = FlatIndex(24, metric), faiss_index(24, metric)
    ours.add(x)
    theirs.add(unit(x) if metric == "cosine" else x)
    for k in (1, 10, 100, count + 3):
        for queries in (y, y[:1], y[:5]):
            found = ours.search(mx.array(queries), k)
            there = unit(queries) if metric == "cosine" else queries
            assert_same_neighbours(found, theirs.search(there, k))


def test_add_after_compile_finds_the_new_vectors() -> None:
    index = FlatIndex(d=8)
    index.add(vectors(100, 8).tolist())
    search = mx.compile(lambda x: index.search(x, k=3))
    queries = mx.array(vectors(4, 8, 1))
    for count in range(200):
        distances, ids = search(queries)
        expected = index.search(queries, 3)
        np.testing.assert_array_equal(np.array(ids), np.array(expected[1]))
        np.testing.assert_array_equal(np.array(distances), np.array(expected[0]))
        index.add(queries[count % 4 : count % 4 + 1] * (1 + 1 / (count + 2)))
    assert np.array(search(queries)[1]).min() > 100
    assert search.cache_info().misses == 3  # room for 100 vectors, for 200, for 400
