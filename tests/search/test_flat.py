"""FlatIndex against faiss: distances, ids and conventions; ids of one's own; errors; threads."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.search.faiss_oracle import (
    assert_same_neighbours,
    exact_distances,
    faiss,
    faiss_index,
)

import ingot.core as mx
from ingot import _native
from ingot.search import METRIC_INNER_PRODUCT, FlatIndex, MetricType

METRICS = ("l2", "inner_product", "cosine", "l1", "linf")


def vectors(count: int, d: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, d)).astype(np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)


def filled(x: np.ndarray, metric: str = "l2") -> FlatIndex:
    index = FlatIndex(x.shape[1], metric)
    index.add(x)
    return index


def faiss_search(x: np.ndarray, queries: np.ndarray, k: int, metric: str) -> tuple[Any, Any]:
    index = faiss_index(x.shape[1], metric)
    index.add(unit(x) if metric == "cosine" else x)
    return index.search(unit(queries) if metric == "cosine" else queries, k)


# Results


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("count", [1, 7, 1023, 4097])
def test_the_same_neighbours_as_faiss(metric: str, count: int) -> None:
    x, y = vectors(count, 24), vectors(37, 24, 1)
    index = filled(x, metric)
    for k in (1, 10, 100, count + 3):
        for queries in (y, y[:1], y[:5]):
            found = index.search(mx.array(queries), k)
            assert_same_neighbours(found, faiss_search(x, queries, k, metric))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("d", [1, 2, 15, 16, 17, 33, 300])
def test_all_lengths_of_vectors(metric: str, d: int) -> None:
    x, queries = vectors(700, d), vectors(20, d, 1)
    for some in (queries, queries[:3]):
        found = filled(x, metric).search(some, 5)
        assert_same_neighbours(found, faiss_search(x, some, 5, metric), atol=1e-4)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [3, 150, 600])  # one worker a tile, a block, several blocks
def test_work_that_is_shared_out(metric: str, queries: int) -> None:
    x, y = vectors(3000, 40), vectors(queries, 40, 1)
    assert_same_neighbours(filled(x, metric).search(y, 7), faiss_search(x, y, 7, metric))


@pytest.mark.parametrize("metric", METRICS)
def test_results_do_not_depend_on_how_work_is_cut(metric: str) -> None:
    x, queries = vectors(5000, 20), vectors(100, 20, 1)
    x[1000:2000] = x[:1000]  # equal distances come in the order of rows
    index = filled(x, metric)
    distances, ids = (np.array(part) for part in index.search(queries, 20))
    threads = _native.set_num_threads(3)
    try:
        for start, stop in ((0, 100), (0, 1), (3, 9), (50, 75)):
            _native.set_num_threads(1 + start % 3)
            some = index.search(queries[start:stop], 20)
            np.testing.assert_array_equal(np.array(some[0]), distances[start:stop])
            np.testing.assert_array_equal(np.array(some[1]), ids[start:stop])
    finally:
        _native.set_num_threads(threads)


def test_equal_distances_come_in_the_order_of_rows() -> None:
    x = np.repeat(vectors(3, 8), 500, 0)
    for queries in (x[::100], x[:2]):
        distances, ids = (np.array(part) for part in filled(x).search(queries, 700))
        assert (np.diff(distances, axis=1) >= 0).all()
        same = np.diff(distances, axis=1) == 0
        assert (np.diff(ids, axis=1)[same] > 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [2, 40])
def test_vectors_far_from_the_origin(metric: str, queries: int) -> None:
    """|x|^2 - 2 x y + |y|^2 in float32 has no correct digit here."""
    x = vectors(800, 32) + np.float32(3000)
    y = x[:queries] + vectors(queries, 32, 1) * np.float32(0.01)
    expected = exact_distances(y, x, metric)
    sign = -1 if metric in ("inner_product", "cosine") else 1
    best = np.sort(sign * expected, 1)[:, :5] * sign
    distances, ids = (np.array(part) for part in filled(x, metric).search(y, 5))
    np.testing.assert_allclose(distances, best, rtol=1e-4)
    np.testing.assert_allclose(np.take_along_axis(expected, ids, 1), best, rtol=1e-6)


def test_duplicates_have_distance_zero() -> None:
    x = vectors(2000, 64) * 100
    distances, ids = (np.array(part) for part in filled(x).search(x[:50], 2))
    assert (distances[:, 0] == 0).all()
    np.testing.assert_array_equal(ids[:, 0], np.arange(50))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32, np.uint8])
def test_other_dtypes(dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 50, (60, 6)).astype(dtype)
    found = filled(x).search(x[:9], 4)
    plain = x.astype(np.float32)
    assert_same_neighbours(found, faiss_search(plain, plain[:9], 4, "l2"))
    assert_same_neighbours(filled(x).search(mx.array(x[:9]), 4), tuple(map(np.array, found)))


def test_huge_and_tiny_numbers() -> None:
    x = np.array([[1e20, 0], [1e20, 1e18], [3e38, 3e38], [0, 0]], np.float32)
    for queries in (x[:1], np.repeat(x[:1], 12, 0)):
        distances, ids = (np.array(part) for part in filled(x).search(queries, 4))
        # Squares beyond float32 are no distances.
        np.testing.assert_array_equal(ids[0], [0, 1, -1, -1])
        np.testing.assert_allclose(distances[0, :2], [0, 1e36], rtol=1e-5)
    tiny = x[:2] * np.float32(1e-40)
    assert np.array(filled(tiny, "l1").search(tiny, 1)[1]).tolist() == [[0], [1]]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [1, 20])
def test_a_query_with_nan_is_near_to_nothing(metric: str, queries: int) -> None:
    x = vectors(100, 5)
    y = x[:queries].copy()
    y[0, 2] = np.nan
    distances, ids = (np.array(part) for part in filled(x, metric).search(y, 3))
    assert (ids[0] == -1).all()
    assert np.isinf(distances[0]).all()
    assert (ids[1:] >= 0).all()
    if metric != "linf":  # whose maxima pass over NaN in faiss
        assert (faiss_search(x, y[:1], 3, metric)[1] == -1).all()


@pytest.mark.parametrize("metric", METRICS)
def test_an_empty_index_finds_nothing(metric: str) -> None:
    distances, ids = (np.array(part) for part in FlatIndex(4, metric).search(np.ones((3, 4)), 2))
    expected = -np.inf if metric in ("inner_product", "cosine") else np.inf
    np.testing.assert_array_equal(distances, np.full((3, 2), expected, np.float32))
    np.testing.assert_array_equal(ids, np.full((3, 2), -1))


def test_no_queries_find_nothing() -> None:
    distances, ids = filled(vectors(5, 4)).search(np.zeros((0, 4)), 2)
    assert (distances.shape, ids.shape) == ((0, 2), (0, 2))


def test_a_zero_vector_has_cosine_zero() -> None:
    x = np.array([[0, 0], [1, 0], [-1, 0]], np.float32)
    for queries in (x[1:2], np.repeat(x[1:2], 9, 0)):
        distances, ids = (np.array(part) for part in filled(x, "cosine").search(queries, 3))
        np.testing.assert_array_equal(distances[0], [1, 0, -1])
        np.testing.assert_array_equal(ids[0], [1, 0, 2])


def test_peak_memory_is_far_below_all_distances() -> None:
    index = filled(vectors(40_000, 16))
    queries = mx.array(vectors(1500, 16, 1))  # 240 MB of distances
    mx.eval(queries)
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    for k in (10, 3000):
        mx.eval(index.search(queries[: 1500 if k == 10 else 100], k))
    assert mx.get_peak_memory() - before < 64 << 20


# Within a radius


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("queries", [1, 30, 300])
def test_range_search_as_faiss(metric: str, queries: int) -> None:
    x, y = vectors(900, 12), vectors(queries, 12, 1)
    radius = {"l2": 12.0, "inner_product": 4.0, "cosine": 0.3, "l1": 8.0, "linf": 1.8}[metric]
    index = faiss_index(12, metric)
    index.add(unit(x) if metric == "cosine" else x)
    there = index.range_search(unit(y) if metric == "cosine" else y, radius)
    limits, distances, ids = (np.array(part) for part in filled(x, metric).range_search(y, radius))
    assert (limits.dtype, distances.dtype, ids.dtype) == (np.int64, np.float32, np.int64)  # type: ignore[comparison-overlap]
    np.testing.assert_array_equal(limits, there[0])
    assert limits[-1] > 0
    for begin, end in pairwise(limits):
        order = np.argsort(there[2][begin:end])
        np.testing.assert_array_equal(ids[begin:end], there[2][begin:end][order])
        np.testing.assert_allclose(distances[begin:end], there[1][begin:end][order], rtol=1e-4)


def test_range_search_excludes_the_radius_itself() -> None:
    index = filled(np.array([[0, 0], [3, 4]], np.float32))
    assert np.array(index.range_search([[0, 0]], 25.0)[2]).tolist() == [0]
    assert np.array(index.range_search([[0, 0]], 25.001)[2]).tolist() == [0, 1]
    assert np.array(index.range_search([[0, 0]], 0.0)[0]).tolist() == [0, 0]
    assert np.array(index.range_search([[0, 0]], float("inf"))[0]).tolist() == [0, 2]


# Ids and changes


def test_ids_of_ones_own_as_in_faiss() -> None:
    x, queries = vectors(500, 8), vectors(10, 8, 1)
    ids = np.random.default_rng(2).permutation(10_000)[:500] - 5000
    ids = np.where(ids == -1, 9999, ids)
    ids[7] = ids[3]  # twice, as faiss allows
    ours, theirs = FlatIndex(8), faiss.IndexIDMap(faiss_index(8, "l2"))
    for begin in range(0, 500, 90):
        ours.add_with_ids(x[begin : begin + 90], ids[begin : begin + 90].tolist())
        theirs.add_with_ids(x[begin : begin + 90], ids[begin : begin + 90])
    assert_same_neighbours(ours.search(queries, 6), theirs.search(queries, 6))
    assert_same_neighbours(ours.search(queries, 600), theirs.search(queries, 600))
    gone = np.concatenate([ids[::3], [123456]])
    assert ours.remove_ids(gone) == theirs.remove_ids(gone)
    assert ours.ntotal == theirs.ntotal
    assert_same_neighbours(ours.search(queries, 6), theirs.search(queries, 6))
    with pytest.raises(ValueError, match=r"\[reconstruct\] none of the \d+ vectors has the id"):
        ours.reconstruct(int(ids[3]))
    np.testing.assert_array_equal(np.array(ours.reconstruct(int(ids[4]))), x[4])


def test_positions_as_ids_move_up_when_vectors_are_removed() -> None:
    x, queries = vectors(50, 8), vectors(10, 8, 1)
    ours, theirs = filled(x), faiss_index(8, "l2")
    theirs.add(x)
    gone = [0, 3, 4, 49, 200]
    assert ours.remove_ids(mx.array(gone)) == theirs.remove_ids(np.array(gone)) == 4
    assert_same_neighbours(ours.search(queries, 5), theirs.search(queries, 5))
    np.testing.assert_array_equal(np.array(ours.reconstruct(2)), theirs.reconstruct(2))
    ours.add(x[:1])
    assert np.array(ours.search(x[:1], 1)[1]).item() == 46


def test_reconstruct_gives_what_was_added_last() -> None:
    index = FlatIndex(2)
    index.add_with_ids([[1, 2], [3, 4]], [8, 8])
    assert index.reconstruct(8).tolist() == [3, 4]
    assert index.remove_ids([8]) == 2
    index.add([[5, 6]])  # empty again: numbered by position
    assert index.reconstruct(0).tolist() == [5, 6]


def test_reset() -> None:
    index = filled(vectors(5, 3))
    index.reset()
    assert index.ntotal == 0
    assert np.array(index.search([[1, 2, 3]], 1)[1]).item() == -1
    index.add_with_ids([[1, 2, 3]], np.array([7], np.uint8))
    assert np.array(index.search([[1, 2, 3]], 1)[1]).item() == 7


def test_a_lazy_search_sees_what_was_there_when_it_was_made() -> None:
    x = vectors(70, 4)
    index = filled(x[:10])
    lazy = [index.search(x[:3], 2)]
    index.add(x[:3])
    lazy.append(index.search(x[:3], 2))
    index.remove_ids([0, 1, 2])
    lazy.append(index.search(x[:3], 2))
    index.reset()
    index.add(x[20:])
    contents = (x[:10], np.concatenate([x[:10], x[:3]]), np.concatenate([x[3:10], x[:3]]))
    for found, there in zip(lazy, contents, strict=True):
        assert_same_neighbours(found, faiss_search(there, x[:3], 2, "l2"))


# What users do wrong


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda index: index.search(np.ones((2, 5)), 1),
            ValueError,
            "[search] queries of shape (2, 5) must have vectors of length 3, not 5.",
        ),
        (
            lambda index: index.search(mx.ones(3), 1),
            ValueError,
            "[search] queries have 2 axes (number, length), got shape (3). A single vector v is "
            "v[None].",
        ),
        (
            lambda index: index.search(np.ones((1, 3)), 0),
            ValueError,
            "[search] k must be 1 or more, got 0.",
        ),
        (
            lambda index: index.search(np.ones((1, 3)), 2.5),
            TypeError,
            "[search] k must be an int, got float: 2.5.",
        ),
        (
            lambda index: index.search(mx.ones((1, 3)).astype(mx.complex64), 1),
            ValueError,
            "[search] queries must be real numbers, got dtype complex64.",
        ),
        (
            lambda index: index.add([[1, 2, 3], [1, float("nan"), 3]]),
            ValueError,
            "[add] vectors are made of finite numbers; vector 1 has NaN or infinity.",
        ),
        (
            lambda index: index.add_with_ids([[1, 2, 3]], [4]),
            ValueError,
            "[add_with_ids] the index has vectors numbered by position: add all vectors with "
            "add_with_ids or all with add, or reset the index first.",
        ),
        (
            lambda index: index.add_with_ids([[1, 2, 3]], [4, 5]),
            ValueError,
            "[add_with_ids] 1 vectors need as many ids, got 2.",
        ),
        (
            lambda index: index.add_with_ids([[1, 2, 3]], [-1]),
            ValueError,
            "[add_with_ids] -1 cannot be an id: it stands for no vector.",
        ),
        (
            lambda index: index.remove_ids([0.5]),
            TypeError,
            "[remove_ids] ids must be integers, got list of dtype float64.",
        ),
        (
            lambda index: index.reconstruct(2),
            ValueError,
            "[reconstruct] none of the 2 vectors has the id 2.",
        ),
        (
            lambda index: index.range_search(np.ones((1, 3)), "wide"),
            TypeError,
            "[range_search] radius must be a number, got str: 'wide'.",
        ),
        (lambda _: FlatIndex(0), ValueError, "[FlatIndex] d must be 1 or more, got 0."),
        (
            lambda _: FlatIndex(3, "hamming"),
            ValueError,
            "[FlatIndex] there is no metric 'hamming': use one of 'l2', 'inner_product', 'cosine', "
            "'l1', 'linf', or a MetricType.",
        ),
    ],
)
def test_mistakes_get_a_sentence(call: Any, kind: type[Exception], message: str) -> None:
    index = filled(np.ones((2, 3), np.float32))
    with pytest.raises(kind) as error:
        call(index)
    assert str(error.value) == message
    assert index.ntotal == 2


def test_metrics_have_faiss_numbers_and_names() -> None:
    for value in (0, "ip", "METRIC_INNER_PRODUCT", METRIC_INNER_PRODUCT):
        assert FlatIndex(2, value).metric_type is MetricType.INNER_PRODUCT
    assert FlatIndex(2).metric_type is FlatIndex(2, faiss.METRIC_L2).metric_type is MetricType.L2
    assert FlatIndex(2, faiss.METRIC_Linf).metric_type is MetricType.LINF


# Threads


def test_searches_while_vectors_are_added_see_some_state() -> None:
    x = vectors(3000, 16)
    index = FlatIndex(16)
    index.add(x[:100])
    compiled = mx.compile(lambda q: index.search(q, 1))
    problems: list[str] = []
    done = threading.Event()

    def look(search: Any, place: int) -> None:
        last = 0
        while not done.is_set():
            known = index.ntotal
            found = int(np.array(search(mx.array(x[known - 1 :][:1]))[1]).item())
            if found != known - 1:
                problems.append(f"{place}: {found} instead of {known - 1}")
            if known < last:
                problems.append(f"{place}: {known} vectors after {last}")
            last = known

    searches = [lambda q: index.search(q, 1), compiled]
    threads = [
        threading.Thread(target=look, args=(search, place)) for place, search in enumerate(searches)
    ]
    for thread in threads:
        thread.start()
    for row in range(100, 3000, 7):
        index.add(x[row : row + 7])
    done.set()
    for thread in threads:
        thread.join()
    assert not problems
    assert index.ntotal == 3000


def test_training_learns_nothing() -> None:
    index = FlatIndex(4)
    index.train(np.zeros((3, 4)))
    assert index.ntotal == 0
    with pytest.raises(ValueError, match="4"):
        index.train(np.zeros((3, 5)))
