"""Coded indexes against faiss: recall on real vectors, conventions, and what users do to them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.search.datasets import DATASETS, dataset
from tests.search.faiss_oracle import assert_same_neighbours, exact_distances, faiss

import ingot.core as mx
from ingot.search import (
    FlatIndex,
    IVFFlatIndex,
    IVFPQIndex,
    PQIndex,
    ScalarQuantizerIndex,
    index_factory,
)
from ingot.search.inverted.index import CodedIndex

pytestmark = pytest.mark.filterwarnings(r"ignore:\[train\]")  # of few training vectors

METRICS = {"l2": faiss.METRIC_L2, "inner_product": faiss.METRIC_INNER_PRODUCT}
DESCRIPTIONS = ("IVF16,Flat", "PQ8x4", "IVF16,PQ8x4", "SQ8", "SQ4", "IVF16,SQ8", "SQfp16")
# Codebooks are the same for all metrics, and faiss takes seconds to train them.
CASES = [(text, metric) for text in DESCRIPTIONS for metric in METRICS if "PQ" not in text]
CASES += [(text, "l2") for text in DESCRIPTIONS if "PQ" in text]
RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def _one_thread_for_faiss() -> None:
    faiss.omp_set_num_threads(1)


def vectors(count: int = 300, d: int = 8) -> np.ndarray:
    return RNG.standard_normal((count, d)).astype(np.float32)


def filled(description: str, x: np.ndarray, metric: str = "l2") -> Any:
    made: Any = index_factory(x.shape[1], description, metric)
    made.train(x)
    made.add(x)
    return made


def found_of(index: Any, queries: np.ndarray, k: int, **options: Any) -> tuple[np.ndarray, ...]:
    return tuple(np.array(part) for part in index.search(queries, k, **options))


class TestAgainstFaiss:
    @pytest.mark.parametrize(("description", "metric"), CASES)
    @pytest.mark.parametrize("name", DATASETS)
    def test_recall(self, name: str, description: str, metric: str) -> None:
        x, queries = dataset(name)
        distances = exact_distances(queries, x, metric)
        if metric == "inner_product":
            distances = -distances
        tenth = np.sort(distances, 1)[:, 9:10]

        def recall(ids: np.ndarray) -> float:
            # Vectors as near as the tenth count, whichever of them were found.
            return float((np.take_along_axis(distances, ids, 1) <= tenth + 1e-5).mean())

        here, there = [], []
        # Lists differ by chance, so that takes a mean; but faiss is slow to train codebooks.
        seeds = 1 if "IVF" not in description else 2 if "PQ" in description else 10
        for seed in range(1, seeds + 1):
            oracle = faiss.index_factory(x.shape[1], description, METRICS[metric])
            index: Any = index_factory(x.shape[1], description, metric)
            index.seed = seed
            if "IVF" in description:
                oracle.cp.seed = seed
                oracle.nprobe = index.nprobe = 6
            for made in (oracle, index):
                made.train(x)
                made.add(x)
            here.append(recall(found_of(index, queries, 10)[1]))
            there.append(recall(oracle.search(queries, 10)[1]))
        assert np.mean(here) >= np.mean(there) - 0.02

    @pytest.mark.parametrize("description", ["SQ8", "SQ4", "SQfp16"])
    def test_scalar_codes_are_the_same(self, description: str) -> None:
        x, queries = vectors(500, 9), vectors(20, 9)
        oracle = faiss.index_factory(9, description)
        oracle.train(x)
        oracle.add(x)
        index = filled(description, x)
        assert_same_neighbours(index.search(queries, 7), oracle.search(queries, 7))
        np.testing.assert_allclose(np.array(index.reconstruct(5)), oracle.reconstruct(5), atol=1e-5)

    @pytest.mark.parametrize("metric", METRICS)
    @pytest.mark.parametrize("description", ["PQ8", "IVF16,PQ8"])
    def test_with_the_same_codebooks_all_results_are_the_same(
        self, description: str, metric: str
    ) -> None:
        # faiss takes a quarter of a minute to train codebooks of 8 bits: it gets ours.
        x, queries = dataset("texts")
        index = filled(description, x, metric)
        oracle = faiss.index_factory(32, description, METRICS[metric])
        faiss.copy_array_to_vector(index.pq.codebooks.reshape(-1), oracle.pq.centroids)
        if "IVF" in description:
            oracle.quantizer.add(index._centroids)
            oracle.precompute_table()
            oracle.nprobe = index.nprobe = 4
        oracle.is_trained = True
        oracle.add(x)
        found, expected = index.search(queries, 10), oracle.search(queries, 10)
        assert_same_neighbours(found, expected)

    @pytest.mark.parametrize("metric", METRICS)
    def test_all_lists_are_an_exact_search(self, metric: str) -> None:
        x, queries = vectors(), vectors(30)
        exact = faiss.IndexFlat(8, METRICS[metric])
        exact.add(x)
        index = filled("IVF8,Flat", x, metric)
        for nprobe in (8, 100):
            found = index.search(queries, 12, nprobe=nprobe)
            assert_same_neighbours(found, exact.search(queries, 12))

    def test_range_search(self) -> None:
        x, queries = vectors(), vectors(30)
        exact = faiss.IndexFlatL2(8)
        exact.add(x)
        expected = exact.range_search(queries, 6.0)
        index = filled("IVF8,Flat", x)
        limits, distances, ids = (np.array(a) for a in index.range_search(queries, 6.0, nprobe=8))
        np.testing.assert_array_equal(limits, expected[0])
        for begin, end in itertools.pairwise(limits):
            assert set(ids[begin:end]) == set(expected[2][begin:end])
            np.testing.assert_allclose(
                np.sort(distances[begin:end]), np.sort(expected[1][begin:end]), rtol=1e-4
            )

    def test_cosines(self) -> None:
        x, queries = vectors() * 5, vectors(30)
        exact = FlatIndex(8, "cosine")
        exact.add(x)
        found = filled("IVF8,Flat", x, "cosine").search(queries, 5, nprobe=8)
        assert_same_neighbours(found, exact.search(queries, 5))


class TestSearch:
    def test_distances_are_those_to_the_decoded_vectors(self) -> None:
        x, queries = vectors(), vectors(10)
        for description in ("PQ4x4", "IVF4,PQ4x4", "IVF4,SQ8"):
            index = filled(description, x)
            distances, ids = found_of(index, queries, 3, nprobe=4)
            for query, row, numbers in zip(queries, distances, ids, strict=True):
                decoded = [np.array(index.reconstruct(int(number))) for number in numbers]
                expected = [((query - vector) ** 2).sum() for vector in decoded]
                np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("metric", ["l2", "inner_product"])
    def test_too_few_vectors(self, metric: str) -> None:
        index: Any = index_factory(8, "IVF4,Flat", metric)
        index.train(vectors())
        index.add(vectors(3))
        distances, ids = found_of(index, vectors(5), 6, nprobe=4)
        assert (ids[:, :3] >= 0).all()
        assert (ids[:, 3:] == -1).all()
        nothing = np.inf if metric == "l2" else -np.inf
        assert (distances[:, 3:] == nothing).all()

    def test_an_empty_index_and_no_queries(self) -> None:
        index: Any = index_factory(8, "IVF4,Flat")
        index.train(vectors())
        distances, ids = found_of(index, vectors(2), 3)
        assert np.isinf(distances).all()
        assert (ids == -1).all()
        assert found_of(index, np.empty((0, 8), np.float32), 3)[0].shape == (0, 3)
        limits, _, _ = index.range_search(vectors(2), 1.0)
        assert limits.tolist() == [0, 0, 0]

    def test_more_vectors_than_are_decoded_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x, queries = vectors(), vectors(20)
        for index in (filled("SQ8", x), filled("SQ4", x, "inner_product")):
            expected = found_of(index, queries, 9)
            within = [np.array(part) for part in index.range_search(queries, 3.0)]
            with monkeypatch.context() as changed:
                changed.setattr("ingot.search.inverted.search._ROWS", 5)
                changed.setattr("ingot.search.inverted.search._WORTH_DECODING", 2)
                again = found_of(index, queries, 9)
                within_again = [np.array(part) for part in index.range_search(queries, 3.0)]
            np.testing.assert_allclose(again[0], expected[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(again[1], expected[1])
            for one, other in zip(within_again, within, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-5)

    def test_more_lists_find_more(self) -> None:
        x, queries = dataset("digits")
        index = filled("IVF32,Flat", x)
        exact = FlatIndex(64)
        exact.add(x)
        nearest = np.array(exact.search(queries, 1)[1])
        hits = [(found_of(index, queries, 1, nprobe=n)[1] == nearest).mean() for n in (1, 4, 32)]
        assert hits[0] < hits[1] <= hits[2] == 1

    def test_arrays_lists_and_numpy_go_in(self) -> None:
        x = vectors(100)
        index = IVFFlatIndex(8, 2)
        index.train(mx.array(x))
        index.add(x.tolist())
        for queries in (x[:3], x[:3].tolist(), mx.array(x[:3]), x[:3].astype(np.float64)):
            distances, ids = index.search(queries, 1)
            assert isinstance(ids, mx.array)
            assert (distances.dtype, ids.dtype) == (mx.float32, mx.int64)
            assert ids.tolist() == [[0], [1], [2]]


class TestChanges:
    @pytest.mark.parametrize("description", ["IVF4,Flat", "SQ8"])
    def test_adding_in_parts(self, description: str) -> None:
        x, queries = vectors(), vectors(10)
        whole, parts = filled(description, x), filled(description, x)
        parts.reset()
        assert parts.ntotal == 0
        for begin in range(0, 300, 70):
            parts.add(x[begin : begin + 70])
            parts.search(queries, 2)
        assert parts.ntotal == 300
        for one, other in zip(
            found_of(whole, queries, 5), found_of(parts, queries, 5), strict=True
        ):
            np.testing.assert_array_equal(one, other)

    def test_vectors_that_change_later(self) -> None:
        x = vectors(50)
        index = filled("IVF4,Flat", x)
        before = x.copy()
        x[:] = 0
        np.testing.assert_array_equal(np.array(index.reconstruct(7)), before[7])

    def test_ids_of_their_own(self) -> None:
        x = vectors(50)
        for description in ("IVF4,Flat", "SQ8"):
            index: Any = index_factory(8, description)
            index.train(x)
            index.add_with_ids(x, np.arange(50) * 10 + 7)
            assert index.search(x[:3], 1)[1].tolist() == [[7], [17], [27]]
            np.testing.assert_allclose(np.array(index.reconstruct(17)), x[1], atol=0.02)

    def test_removing(self) -> None:
        x = vectors(50)
        index = filled("IVF4,Flat", x)
        assert index.remove_ids([3, 4, 99, 4]) == 2
        assert index.ntotal == 48
        assert index.search(x[5:6], 1)[1].tolist() == [[5]]
        assert 3 not in found_of(index, x[3:4], 48, nprobe=4)[1]
        index.add(x[3:4])
        assert index.search(x[3:4], 1)[1].tolist() == [[50]]  # no id is used again
        with pytest.raises(
            ValueError, match=r"\[reconstruct\] none of the 49 vectors has the id 3"
        ):
            index.reconstruct(3)

    def test_removing_numbers_anew_without_centroids(self) -> None:
        x = vectors(50)
        index, oracle = filled("SQ8", x), faiss.index_factory(8, "SQ8")
        oracle.train(x)
        oracle.add(x)
        assert index.remove_ids([3, 4]) == oracle.remove_ids(np.array([3, 4])) == 2
        for step in (index, oracle):
            step.add(x[3:4])
        assert_same_neighbours(index.search(x, 4), oracle.search(x, 4))

    def test_add_does_not_follow_ids_of_their_own_without_centroids(self) -> None:
        index = filled("SQ8", vectors(9))
        with pytest.raises(
            ValueError, match=r"\[add_with_ids\] the index has vectors that are num"
        ):
            index.add_with_ids(vectors(1), [3])
        index.reset()
        index.add_with_ids(vectors(1), [3])
        with pytest.raises(
            ValueError, match=r"\[add\] the index has vectors with ids of their own"
        ):
            index.add(vectors(1))


class TestFiles:
    @pytest.mark.parametrize("description", [*DESCRIPTIONS, "IVF16,SQ4"])
    def test_loaded_indexes_give_identical_results(self, description: str, tmp_path: Path) -> None:
        x, queries = vectors(400, 16), vectors(10, 16)
        index = filled(description, x, "inner_product")
        index.nprobe = 3
        index.remove_ids([5, 6])
        path = tmp_path / "index.safetensors"
        index.save(path)
        loaded = type(index).load(path)
        assert (loaded.ntotal, loaded.nprobe, repr(loaded)) == (398, 3, repr(index))
        for step in (index, loaded):
            step.add(x[:5])
        for one, other in zip(
            found_of(index, queries, 9), found_of(loaded, queries, 9), strict=True
        ):
            np.testing.assert_array_equal(one, other)

    def test_an_index_that_is_not_trained(self, tmp_path: Path) -> None:
        IVFPQIndex(8, 4, 2).save(tmp_path / "index")
        loaded = IVFPQIndex.load(tmp_path / "index")
        assert not loaded.is_trained
        loaded.train(vectors())
        assert loaded.is_trained

    def test_files_of_other_indexes(self, tmp_path: Path) -> None:
        filled("SQ8", vectors()).save(tmp_path / "index")
        with pytest.raises(Exception, match=r"ScalarQuantizerIndex, not PQIndex"):
            PQIndex.load(tmp_path / "index")


class TestRefusals:
    @pytest.mark.parametrize("description", ["IVF4,Flat", "PQ4", "SQ8", "IVF4,PQ4"])
    def test_not_trained(self, description: str) -> None:
        index: Any = index_factory(8, description)
        assert not index.is_trained
        for use in (index.add, lambda x: index.search(x, 1), lambda x: index.range_search(x, 1)):
            with pytest.raises(RuntimeError, match=r"Index is not trained: call train\(x\)"):
                use(vectors(3))

    @pytest.mark.parametrize("description", ["IVF32,Flat", "PQ2", "IVF2,PQ4"])
    def test_too_few_training_vectors(self, description: str) -> None:
        index: Any = index_factory(8, description)
        with pytest.raises(ValueError, match=r"needs at least \d+ training vectors, as many as"):
            index.train(vectors(20))

    def test_training_with_vectors_inside(self) -> None:
        with pytest.raises(ValueError, match=r"\[train\] the index has 300 vectors"):
            filled("IVF4,Flat", vectors()).train(vectors())

    def test_vectors_and_queries(self) -> None:
        index = filled("IVF4,Flat", vectors())
        with pytest.raises(ValueError, match=r"must have vectors of length 8, not 5"):
            index.search(vectors(3, 5), 1)
        with pytest.raises(ValueError, match=r"have 2 axes"):
            index.add(np.zeros(8, np.float32))
        with pytest.raises(ValueError, match=r"\[search\] k must be 1 or more, got 0"):
            index.search(vectors(3), 0)
        with pytest.raises(ValueError, match=r"\[search\] nprobe must be 1 or more, got 0"):
            index.search(vectors(3), 1, nprobe=0)
        x = vectors(3)
        x[1, 2] = np.nan
        with pytest.raises(
            ValueError, match=r"\[add\] vectors are made of finite numbers; vector 1"
        ):
            index.add(x)
        with pytest.raises(ValueError, match=r"-1 cannot be an id"):
            index.add_with_ids(vectors(1), [-1])
        with pytest.raises(ValueError, match=r"2 vectors need as many ids, got 1"):
            index.add_with_ids(vectors(2), [1])

    def test_settings(self) -> None:
        with pytest.raises(ValueError, match=r"\[IVFFlatIndex\] nlist must be 1 or more, got 0"):
            IVFFlatIndex(8, 0)
        with pytest.raises(
            ValueError, match=r"cannot cut vectors of length 12 into M=5 equal subvectors"
        ):
            PQIndex(12, 5)
        with pytest.raises(ValueError, match=r"at most 8 bits a subvector, got nbits=12"):
            PQIndex(12, 4, 12)
        with pytest.raises(ValueError, match=r"has the type '8bit', '4bit', 'fp16', got '3bit'"):
            ScalarQuantizerIndex(12, "3bit")
        with pytest.raises(ValueError, match=r"knows the metrics 'l2', .* FlatIndex knows all"):
            PQIndex(12, 4, metric_type="l1")

    def test_inside_a_compiled_function(self) -> None:
        index: CodedIndex = filled("IVF4,Flat", vectors())
        with pytest.raises(
            ValueError, match=r"\[search\] cannot be used inside a compiled function"
        ):
            mx.compile(lambda q: index.search(q, 1))(mx.array(vectors(2)))
