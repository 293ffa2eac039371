"""k-means against faiss's and scikit-learn's, its sentences and its progress bar."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from tests.search.datasets import dataset
from tests.search.faiss_oracle import faiss

from ingot.search.kmeans import nearest_centroid, train_centroids, unit_vectors
from ingot.search.metrics import MetricType

RNG = np.random.default_rng(5)


def error_of(x: np.ndarray, centroids: np.ndarray) -> float:
    return float(((x[:, None] - centroids) ** 2).sum(2).min(1).mean())


def test_centroids_are_as_good_as_faiss() -> None:
    x, _ = dataset("digits")
    found = train_centroids("lists", x[None], 20)[0]
    oracle = faiss.Kmeans(64, 20, niter=25, seed=1234)
    oracle.train(x)
    assert found.dtype == np.float32
    assert error_of(x, found) <= 1.03 * error_of(x, oracle.centroids)


def test_clusters_that_are_apart_are_found() -> None:
    centres = RNG.standard_normal((5, 3)) * 100
    x = np.repeat(centres, 320, 0) + RNG.standard_normal((1600, 3)) * 0.1
    found = train_centroids("lists", x[None].astype(np.float32), 40)[0]
    distances = np.linalg.norm(found[:, None] - centres, axis=2)
    assert (distances.min(1) < 1).all()  # no centroid is lost between clusters
    assert (distances.min(0) < 1).all()


def test_centroids_without_vectors_divide_another_cluster() -> None:
    places = RNG.random((10, 3)).astype(np.float32)
    # Most vectors are at the first place, and most centroids begin there.
    x = np.concatenate([np.repeat(places[:1], 2000, 0), np.repeat(places, 40, 0)])
    found = train_centroids("lists", x[None], 10, iterations=60)[0]
    near = nearest_centroid(x[None], found[None], MetricType.L2)[0]
    assert len(np.unique(near)) >= 8
    assert error_of(x, found) < 0.2 * error_of(x, x[:1])


def test_stacks_are_trained_apart() -> None:
    x = RNG.random((3, 400, 2)).astype(np.float32)
    together = train_centroids("codebooks", x, 8)
    for stack, centroids in zip(x, together, strict=True):
        alone = train_centroids("codebooks", stack[None], 8)[0]
        np.testing.assert_allclose(centroids, alone, rtol=1e-4)


def test_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    x = RNG.random((1, 400, 4)).astype(np.float32)
    whole = train_centroids("lists", x, 8)
    monkeypatch.setattr("ingot.search.kmeans._SIMILARITIES", 8 * 150)
    np.testing.assert_allclose(train_centroids("lists", x, 8), whole, rtol=1e-4)
    near = nearest_centroid(x, whole, MetricType.L2)
    expected = ((x[:, :, None] - whole[:, None]) ** 2).sum(3).argmin(2)
    np.testing.assert_array_equal(near, expected)


def test_equal_vectors_and_as_many_vectors_as_centroids() -> None:
    same = np.ones((1, 400, 3), np.float32)
    assert np.isfinite(train_centroids("lists", same, 4)).all()
    with pytest.warns(UserWarning, match=r"\[train\] lists: 4 training vectors are few for 4 cent"):
        few = train_centroids("lists", RNG.random((1, 4, 3)).astype(np.float32), 4)
    assert len(np.unique(few[0], axis=0)) == 4


def test_inner_products_have_centroids_of_length_1() -> None:
    x = RNG.standard_normal((1, 400, 6)).astype(np.float32)
    found = train_centroids("lists", x, 8, metric=MetricType.INNER_PRODUCT)
    np.testing.assert_allclose(np.linalg.norm(found, axis=2), 1, rtol=1e-5)
    np.testing.assert_array_equal(
        nearest_centroid(x, found, MetricType.INNER_PRODUCT), (x @ found.mT).argmax(2)
    )


def test_a_part_of_very_many_vectors() -> None:
    x = RNG.random((1, 3000, 2)).astype(np.float32)
    found = train_centroids("lists", x, 4)
    assert error_of(x[0], found[0]) < 0.05  # four quarters of a square: 1 / 24


def test_enough_vectors_are_no_reason_to_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train_centroids("lists", RNG.random((1, 160, 2)).astype(np.float32), 4)


def test_too_few_vectors() -> None:
    with pytest.raises(ValueError, match=r"lists needs at least 9 training vectors, .* got 8\."):
        train_centroids("lists", np.zeros((1, 8, 2), np.float32), 9)


def test_seeds() -> None:
    x = RNG.random((1, 400, 4)).astype(np.float32)
    first, same, other = (train_centroids("lists", x, 8, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, same)
    assert (first != other).any()


def test_unit_vectors() -> None:
    x = np.array([[3, 4], [0, 0], [1e-30, 0], [1e30, 0]], np.float32)
    np.testing.assert_allclose(unit_vectors(x), [[0.6, 0.8], [0, 0], [1, 0], [1, 0]], rtol=1e-6)


class TestProgress:
    x = RNG.random((1, 400, 4)).astype(np.float32)

    def test_is_quiet_where_there_is_no_terminal(self, capfd: pytest.CaptureFixture[str]) -> None:
        train_centroids("lists", self.x, 8, iterations=2)
        assert capfd.readouterr() == ("", "")

    def test_shows_a_bar_on_request(self, capfd: pytest.CaptureFixture[str]) -> None:
        train_centroids("lists", self.x, 8, iterations=2, progress=True)
        shown = capfd.readouterr().err
        assert "training lists" in shown
        assert "mean distance" in shown

    def test_shows_lines_without_rich(
        self, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ingot.search.kmeans.rich_library", lambda: None)
        train_centroids("lists", self.x, 8, iterations=2, progress=True)
        lines = capfd.readouterr().err.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("training lists: 2 of 2, mean distance 0.")
