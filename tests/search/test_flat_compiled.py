"""Searches inside compiled functions and under the other transforms."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from tests.search.faiss_oracle import assert_same_neighbours, exact_distances, faiss_index

import ingot.core as mx
from ingot.search import FlatIndex, nearest

METRICS = ("l2", "inner_product", "cosine", "l1", "linf")


def vectors(count: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, d)).astype(np.float32)


def filled(x: np.ndarray, metric: str = "l2") -> FlatIndex:
    index = FlatIndex(x.shape[1], metric)
    index.add(x)
    return index


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
    info = search.cache_info()
    assert (info.misses, info.hits) == (3, 198)  # room for 100 vectors, for 200, for 400
    assert "sizes that changed: those of a state that it reads" in info.reasons[-1].reason


def test_every_change_of_an_index_shows_in_compiled_searches() -> None:
    x = vectors(30, 4)
    index = filled(x)
    search = mx.compile(lambda q: index.search(q, 2))

    def check(there: np.ndarray, ids: Any = None) -> None:
        theirs = faiss_index(4, "l2")
        theirs.add(there)
        distances, labels = theirs.search(x[:3], 2)
        labels = labels if ids is None else np.where(labels < 0, -1, np.asarray(ids)[labels])
        assert_same_neighbours(search(mx.array(x[:3])), (distances, labels))

    check(x)
    index.remove_ids([0])
    check(x[1:])
    index.reset()
    check(x[:0])
    index.add_with_ids(x[5:9], [50, 60, 70, 80])
    check(x[5:9], [50, 60, 70, 80])
    index.remove_ids([60])
    check(x[[5, 7, 8]], [50, 70, 80])
    index.reset()
    index.add(x)
    check(x)


def test_two_indexes_in_one_function() -> None:
    x = vectors(40, 6)
    first, second = filled(x[:20]), filled(x[20:], "inner_product")

    @mx.compile
    def both(q: mx.array) -> Any:
        distances, ids = first.search(q, 1)
        near = mx.array(x)[ids[:, 0]]
        return distances, second.search(near + mx.random.uniform(shape=near.shape) * 0, 2)

    q = mx.array(x[:4] + 0.01)
    expected = second.search(x[:4], 2)
    for _ in range(2):
        found = both(q)[1]
        np.testing.assert_array_equal(np.array(found[1]), np.array(expected[1]))
    second.reset()
    assert np.array(both(q)[1][1]).max() == -1
    first.add(x[:1] + 0.01)
    assert np.array(both(q)[0])[0, 0] == 0


def test_one_trace_for_all_numbers_of_queries() -> None:
    x = vectors(50, 6)
    index = filled(x)
    search = mx.compile(lambda q: index.search(q * 2, 3), shapeless=True)
    for count in (1, 5, 9, 5):
        expected = index.search(x[:count] * 2, 3)
        np.testing.assert_array_equal(
            np.array(search(mx.array(x[:count]))[1]), np.array(expected[1])
        )
    assert search.cache_info().misses == 1


def test_the_database_is_an_input() -> None:
    index = filled(vectors(1000, 6))
    search = mx.compile(lambda q: index.search(q, 3))
    text = str(search.explain(mx.array(vectors(2, 6))))
    assert "an index" in text
    mx.eval(search(mx.array(vectors(2, 6))))
    rows = weakref.ref(index._storage._rows)
    index.reset()
    gc.collect()
    assert rows() is None  # the compiled function kept nothing of it


def test_a_compiled_function_does_not_keep_an_index_alive() -> None:
    index = filled(vectors(10, 6))
    there = weakref.ref(index)
    search = mx.compile(index.search)
    mx.eval(search(mx.array(vectors(2, 6)), 3))
    del index, search
    gc.collect()
    assert there() is None


def test_streams_change_nothing() -> None:
    x = vectors(600, 12)
    index = filled(x)
    streams = [mx.new_stream(mx.cpu) for _ in range(3)]

    def plain(q: mx.array) -> Any:
        far, near = index.search(q * 4, 5), index.search(q, 5)
        return far, near, (far[0] - near[0]).sum()

    @mx.compile
    def on_streams(q: mx.array) -> Any:
        with mx.stream(streams[0]):
            far = index.search(mx.multiply(q, 4, stream=streams[2]), 5)
        with mx.stream(mx.cpu):
            near = index.search(q, 5)
        return far, near, mx.sum(mx.subtract(far[0], near[0], stream=streams[1]))

    q = mx.array(x[:30] * 0.5)
    for expected, found in zip(leaves(plain(q)), leaves(on_streams(q)), strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6)


def leaves(tree: Any) -> list[mx.array]:
    if isinstance(tree, mx.array):
        return [tree]
    return [leaf for part in tree for leaf in leaves(part)]


def test_lists_of_placeholders_are_refused_and_arrays_are_not() -> None:
    index = FlatIndex(d=64)
    index.add(vectors(100, 64).tolist())
    queries = mx.array(vectors(10, 64, 1))
    with pytest.raises(ValueError, match=r"argument `xq` has no value.*pass the array itself on"):
        mx.compile(lambda xq: index.search(xq.tolist(), k=10))(queries)
    found = mx.compile(lambda xq: index.search(xq, k=10))(queries)
    np.testing.assert_array_equal(np.array(found[1]), np.array(index.search(queries, k=10)[1]))


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("add", lambda index, q: index.add(q)),
        ("add_with_ids", lambda index, q: index.add_with_ids(q, [1])),
        ("remove_ids", lambda index, q: index.remove_ids([1])),
        ("reset", lambda index, q: index.reset()),
        ("range_search", lambda index, q: index.range_search(q, 1.0)),
        ("ntotal", lambda index, q: index.search(q, index.ntotal)),
        ("reconstruct", lambda index, q: index.reconstruct(0)),
        ("save", lambda index, q: index.save("nowhere")),
    ],
)
def test_what_tracing_would_do_only_once_is_refused(name: str, call: Any) -> None:
    index = filled(vectors(5, 3))
    with pytest.raises(ValueError, match=rf"\[{name}\] cannot be used inside a compiled function"):
        mx.compile(lambda q: call(index, q))(mx.array(vectors(1, 3)))
    assert index.ntotal == 5


# nearest, and transforms


@pytest.mark.parametrize("metric", METRICS)
def test_nearest_takes_the_database_as_an_argument(metric: str) -> None:
    x, q = vectors(200, 7), vectors(11, 7, 1)
    expected = filled(x, metric).search(q, 4)
    function = mx.compile(lambda q, x: nearest(q, x, 4, metric))
    for found in (nearest(q.tolist(), x, 4, metric), function(mx.array(q), mx.array(x))):
        np.testing.assert_array_equal(np.array(found[0]), np.array(expected[0]))
        np.testing.assert_array_equal(np.array(found[1]), np.array(expected[1]))
    exact = nearest(mx.array(q, mx.float64), mx.array(x), 4, metric)
    assert exact[0].dtype == mx.float64
    np.testing.assert_allclose(np.array(exact[0]), np.array(expected[0]), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.array(exact[1]), np.array(expected[1]))
    with pytest.raises(ValueError, match=r"\[nearest\] queries of shape \(11, 7\) and a database"):
        nearest(q, x[:, :5], 1)


@pytest.mark.parametrize("metric", METRICS)
def test_gradients_by_queries(metric: str) -> None:
    x, q, weights = vectors(60, 5), vectors(6, 5, 1), vectors(6, 3, 2)
    index = filled(x, metric)
    ids = np.array(index.search(q, 3)[1])

    def loss(q: mx.array) -> mx.array:
        return (index.search(q, 3)[0] * mx.array(weights)).sum()

    def exact_loss(q: np.ndarray) -> float:
        return (np.take_along_axis(exact_distances(q, x, metric), ids, 1) * weights).sum()

    slopes = np.zeros_like(q)
    for place in np.ndindex(*q.shape):
        step = np.zeros(q.shape)
        step[place] = 1e-5
        slopes[place] = (exact_loss(q + step) - exact_loss(q - step)) / 2e-5
    for gradient in (mx.grad(loss), mx.compile(mx.grad(loss))):
        found = np.array(gradient(mx.array(q)))
        np.testing.assert_allclose(found, slopes, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("metric", METRICS)
def test_neighbours_that_are_not_there_have_no_gradient(metric: str) -> None:
    x, q = mx.array(vectors(2, 5)), mx.array(vectors(3, 5, 1))

    def loss(k: int) -> Any:
        def of(q: mx.array, x: mx.array) -> mx.array:
            distances, ids = nearest(q, x, k, metric)
            return mx.where(ids < 0, 0, distances).sum()

        return mx.grad(of, argnums=(0, 1))

    for found, expected in zip(loss(6)(q, x), loss(2)(q, x), strict=True):
        assert np.isfinite(np.array(found)).all()
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


def test_vmap_over_queries_and_over_databases() -> None:
    x, q = vectors(40, 5), vectors(12, 5, 1)
    index = filled(x)
    expected = np.array(index.search(q, 3)[1])
    rows = mx.vmap(lambda q: index.search(q[None], 3)[1][0])(mx.array(q))
    np.testing.assert_array_equal(np.array(rows), expected)
    stacks = mx.vmap(lambda q: index.search(q, 3)[1])(mx.array(q.reshape(3, 4, 5)))
    np.testing.assert_array_equal(np.array(stacks).reshape(12, 3), expected)
    halves = mx.vmap(lambda x: nearest(mx.array(q), x, 2)[1])(mx.array(x.reshape(2, 20, 5)))
    for half, part in zip(np.array(halves), (x[:20], x[20:]), strict=True):
        np.testing.assert_array_equal(half, np.array(filled(part).search(q, 2)[1]))
