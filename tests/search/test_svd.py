"""topk_svd against LAPACK: values, spaces, errors of approximation; its cache; refusals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.linalg

import ingot.core as mx
from ingot.search import svd, topk_svd
from ingot.search.factorizations import tall_qr, two_sided_product

RNG = np.random.default_rng(7)


def orthonormal(rows: int, columns: int) -> np.ndarray:
    return np.linalg.qr(RNG.standard_normal((rows, columns)))[0]


def with_values(rows: int, columns: int, values: np.ndarray) -> np.ndarray:
    count = len(values)
    return (orthonormal(rows, count) * values) @ orthonormal(columns, count).T


def decaying(rows: int, columns: int) -> np.ndarray:
    return with_values(rows, columns, 0.8 ** np.arange(min(rows, columns)))


MATRICES = {
    "random": RNG.random((160, 96)),
    "normal": RNG.standard_normal((120, 120)),
    "tall decaying": decaying(300, 60),
    "wide decaying": decaying(60, 300),
    "rank 5": with_values(150, 100, np.array([9.0, 7, 5, 3, 1])),
    "wide rank 5": with_values(100, 150, np.array([9.0, 7, 5, 3, 1])),
    "ill-conditioned": with_values(200, 100, np.logspace(0, -14, 100)),
    "equal values": with_values(120, 100, np.repeat([5.0, 1.0, 0.1], [20, 20, 60])),
    "one value stands out": with_values(120, 100, np.r_[1e4, np.linspace(2, 1, 99)]),
    "one column": RNG.standard_normal((40, 1)),
    "one row": RNG.standard_normal((1, 40)),
    "zeros": np.zeros((50, 40)),
    "ones": np.ones((80, 90)),
    "huge": decaying(90, 80) * 1e25,
    "tiny": decaying(90, 80) * 1e-25,
}
WAYS = {
    "compiled": {},
    "by products": {"by_products": True},
    "kernel": {"use_kernel": True, "band_size": 32},
    "plain": {"use_compile": False},
}


def decomposed(
    matrix: np.ndarray, k: int, iters: int, **options: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    given = mx.array(matrix, options.pop("dtype", mx.float32))
    if not options.pop("by_products", False):
        u, s, vt = topk_svd(given, k, iters, **options)
    else:  # as large matrices are decomposed
        svd.cache_clear()
        with mock.patch.object(svd, "MIN_ELEMENTS_BY_PRODUCTS", 0):
            u, s, vt = topk_svd(given, k, iters, **options)
        svd.cache_clear()
    return np.array(u), np.array(s), np.array(vt)


def check_orthonormal(u: np.ndarray, vt: np.ndarray) -> None:
    unit = np.eye(u.shape[1])
    np.testing.assert_allclose(u.T @ u, unit, atol=1e-5)
    np.testing.assert_allclose(vt @ vt.T, unit, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MATRICES)
def test_values_vectors_and_error_are_those_of_lapack(name: str, way: str) -> None:
    matrix = MATRICES[name]
    k = min(10, *matrix.shape)
    u, s, vt = decomposed(matrix, k, 16, **WAYS[way])
    assert (u.shape, s.shape, vt.shape) == ((matrix.shape[0], k), (k,), (k, matrix.shape[1]))
    check_orthonormal(u, vt)
    assert (np.diff(s) <= 0).all()
    expected = np.linalg.svd(matrix.astype(np.float32).astype(np.float64))[1]
    largest = expected[0]
    np.testing.assert_allclose(s, expected[:k], atol=2e-6 * largest, rtol=1e-3)
    error = np.linalg.norm(matrix - (u * s.astype(np.float64)) @ vt)
    best = np.linalg.norm(expected[k:])
    assert error <= best * 1.001 + 1e-5 * largest


@pytest.mark.parametrize("way", WAYS)
def test_spaces_of_vectors_where_values_are_apart(way: str) -> None:
    matrix = decaying(200, 150)
    u, _, vt = decomposed(matrix, 12, 8, **WAYS[way])
    left, _, right = np.linalg.svd(matrix)
    assert scipy.linalg.subspace_angles(u, left[:, :12]).max() < 1e-4
    assert scipy.linalg.subspace_angles(vt.T, right[:12].T).max() < 1e-4


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (33, 33), (3, 200)])
def test_all_singular_values(shape: tuple[int, int], way: str) -> None:
    matrix = RNG.standard_normal(shape)
    k = min(shape)
    u, s, vt = decomposed(matrix, k, 1, **WAYS[way])
    check_orthonormal(u, vt)
    np.testing.assert_allclose(s, np.linalg.svd(matrix)[1], rtol=1e-5)
    np.testing.assert_allclose((u * s) @ vt, matrix, atol=1e-5)


@pytest.mark.parametrize("use_compile", [True, False])
def test_double_precision_stays(use_compile: bool) -> None:
    matrix = with_values(150, 120, np.logspace(0, -11, 120))
    u, s, vt = decomposed(matrix, 60, 8, use_compile=use_compile, dtype=mx.float64)
    assert u.dtype == s.dtype == vt.dtype == np.float64
    np.testing.assert_allclose(u.T @ u, np.eye(60), atol=1e-13)
    np.testing.assert_allclose(vt @ vt.T, np.eye(60), atol=1e-13)
    np.testing.assert_allclose(s, np.linalg.svd(matrix)[1][:60], rtol=1e-9, atol=1e-15)


def test_random_matrix_at_the_default_number_of_iterations() -> None:
    # Singular values next to each other: the hardest for subspace iteration.
    matrix = np.random.default_rng(1).random((512, 256))
    _, s, _ = decomposed(matrix, 32, 8)
    np.testing.assert_allclose(s, np.linalg.svd(matrix)[1][:32], rtol=5e-4)


def test_example_of_the_guide() -> None:
    A = mx.random.uniform(shape=(512, 256)).astype(mx.float32)
    expected = np.linalg.svd(np.array(A))[1][:32]
    for use_kernel in (False, True):
        for use_compile in (False, True):
            _, S, _ = topk_svd(A, k=32, iters=3, use_kernel=use_kernel, use_compile=use_compile)
            np.testing.assert_allclose(np.array(S), expected, rtol=0.04)


def test_seeds() -> None:
    matrix = np.random.default_rng(2).random((100, 80))
    same = [decomposed(matrix, 5, 1, seed=3)[1] for _ in range(2)]
    np.testing.assert_array_equal(*same)
    assert (same[0] != decomposed(matrix, 5, 1, seed=4)[1]).any()
    np.testing.assert_array_equal(decomposed(matrix, 5, 1)[1], decomposed(matrix, 5, 1)[1])


def test_takes_numpy_lists_halves_and_views() -> None:
    matrix = decaying(40, 60).astype(np.float32)
    expected = np.linalg.svd(matrix)[1][:3]
    for given in (matrix, matrix.tolist(), mx.array(matrix).astype(mx.float16)):
        np.testing.assert_allclose(np.array(topk_svd(given, 3)[1]), expected, rtol=2e-3)
    whole = mx.array(np.kron(matrix, np.ones((2, 3), np.float32)))
    for way in ("compiled", "kernel", "plain"):
        _, s, _ = topk_svd(whole[::2, ::3], 3, **WAYS[way])
        np.testing.assert_allclose(np.array(s), expected, rtol=1e-4)


class TestTransforms:
    def test_inside_a_compiled_function(self) -> None:
        matrix = mx.array(decaying(60, 40).astype(np.float32))

        def low_rank(a: mx.array) -> mx.array:
            u, s, vt = topk_svd(a, 4)
            return (u * s) @ vt

        np.testing.assert_allclose(
            np.array(mx.compile(low_rank)(matrix)), np.array(low_rank(matrix)), atol=1e-5
        )

    @pytest.mark.parametrize("use_kernel", [True, False])
    def test_gradient_of_singular_values(self, use_kernel: bool) -> None:
        matrix = decaying(60, 40).astype(np.float32)

        def energy(a: mx.array) -> mx.array:
            return topk_svd(a, 4, use_kernel=use_kernel)[1].sum()

        left, _, right = np.linalg.svd(matrix)
        found = mx.grad(energy)(mx.array(matrix))
        np.testing.assert_allclose(np.array(found), left[:, :4] @ right[:4], atol=1e-3)

    def test_stacks_by_vmap(self) -> None:
        stack = np.stack([decaying(60, 40), decaying(60, 40)]).astype(np.float32)
        found = mx.vmap(lambda a: topk_svd(a, 4, use_kernel=True)[1])(mx.array(stack))
        expected = np.linalg.svd(stack)[1][:, :4]
        np.testing.assert_allclose(np.array(found), expected, rtol=1e-4)


class TestCache:
    @pytest.fixture(autouse=True)
    def _empty(self) -> Iterator[None]:
        svd.cache_clear()
        yield
        svd.cache_clear()

    def test_one_trace_for_each_key(self) -> None:
        first = mx.array(decaying(50, 40).astype(np.float32))
        other = mx.array(decaying(40, 50).astype(np.float32))
        for _ in range(3):
            topk_svd(first, 3)
            topk_svd(other, 3)
            topk_svd(first.astype(mx.float64), 3)
            topk_svd(first, 4)
        info = svd.cache_info()
        assert (info.traces, info.misses, info.hits, info.currsize) == (4, 4, 8, 4)

    def test_new_values_and_seeds_are_no_new_key(self) -> None:
        for seed in range(3):
            matrix = decaying(50, 40).astype(np.float32)
            _, s, _ = topk_svd(mx.array(matrix), 3, seed=seed)
            np.testing.assert_allclose(np.array(s), np.linalg.svd(matrix)[1][:3], rtol=1e-5)
        assert svd.cache_info().traces == 1

    def test_is_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(svd, "MAX_PROGRAMS", 2)
        matrix = mx.array(decaying(50, 40).astype(np.float32))
        for k in (1, 2, 1, 3, 1):
            topk_svd(matrix, k)
        assert svd.cache_info() == (2, 3, 3, 2, 2)

    def test_without_compile_it_stays_empty(self) -> None:
        topk_svd(mx.array(decaying(50, 40).astype(np.float32)), 3, use_compile=False)
        assert svd.cache_info().currsize == 0

    def test_threads_share_one_trace(self) -> None:
        matrix = mx.array(decaying(50, 40).astype(np.float32))
        results: list[np.ndarray] = []
        threads = [
            threading.Thread(target=lambda: results.append(np.array(topk_svd(matrix, 3)[1])))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert svd.cache_info().traces == 1
        for result in results:
            np.testing.assert_array_equal(result, results[0])


class TestSteps:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("power", [0, 3, 6, 9, 30])
    def test_tall_qr(self, dtype: Any, power: int) -> None:
        matrix = with_values(120, 30, np.logspace(0, -power, 30)).astype(dtype)
        q, r = (np.array(x) for x in tall_qr(mx.array(matrix, mx.array(matrix).dtype)))
        tolerance = 2e-6 if q.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(q.T @ q, np.eye(30), atol=tolerance)
        np.testing.assert_allclose(q @ r, matrix, atol=tolerance)
        np.testing.assert_array_equal(r, np.triu(r))
        assert (np.diagonal(r) >= 0).all()

    @pytest.mark.parametrize("height", [None, 1, 7, 50, 1000])
    def test_two_sided_product(self, height: int | None) -> None:
        a = RNG.standard_normal((90, 40)).astype(np.float32)
        v = RNG.standard_normal((40, 6)).astype(np.float32)
        w = RNG.standard_normal((90, 6)).astype(np.float32)
        tall = two_sided_product(mx.array(a), mx.array(v), height)
        np.testing.assert_allclose(np.array(tall), a.T @ (a @ v), rtol=1e-4, atol=1e-3)
        wide = two_sided_product(mx.array(a).T, mx.array(w), height)
        np.testing.assert_allclose(np.array(wide), a @ (a.T @ w), rtol=1e-4, atol=1e-3)

    def test_two_sided_product_on_threads(self) -> None:
        a = RNG.standard_normal((2100, 1024)).astype(np.float32)
        v = RNG.standard_normal((1024, 5)).astype(np.float32)
        found = two_sided_product(mx.array(a), mx.array(v))
        np.testing.assert_allclose(np.array(found), a.T @ (a @ v), rtol=1e-3, atol=2e-2)


class TestRefusals:
    @pytest.mark.parametrize(
        ("k", "sentence"),
        [
            (0, r"\[topk_svd\] k must be 1 or more, got 0\."),
            (-2, r"\[topk_svd\] k must be 1 or more, got -2\."),
            (5, r"\[topk_svd\] k must not exceed 4, the smaller side of the matrix, got 5\."),
        ],
    )
    def test_k_out_of_range(self, k: int, sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            topk_svd(mx.ones((4, 6)), k)

    def test_k_is_no_int(self) -> None:
        with pytest.raises(TypeError, match=r"\[topk_svd\] k must be an int, got float"):
            topk_svd(mx.ones((4, 6)), 2.0)  # type: ignore[arg-type]

    @pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4)])
    def test_no_matrix(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match=r"takes a matrix, an array with two axes, got shape"):
            topk_svd(mx.ones(shape), 1)

    def test_no_elements(self) -> None:
        with pytest.raises(ValueError, match=r"of shape \(0, 3\) has no elements"):
            topk_svd(mx.ones((0, 3)), 1)

    @pytest.mark.parametrize("dtype", [mx.int32, mx.bool_, mx.complex64])
    def test_dtypes(self, dtype: mx.Dtype) -> None:
        with pytest.raises(ValueError, match=r"takes a matrix of float32 or float64, got"):
            topk_svd(mx.ones((4, 6)).astype(dtype), 1)

    @pytest.mark.parametrize("use_compile", [True, False])
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_numbers_that_are_not_finite(self, value: float, use_compile: bool) -> None:
        matrix = np.ones((4, 6), np.float32)
        matrix[1, 2] = value
        with pytest.raises(ValueError, match="takes finite numbers, got some that are NaN or inf"):
            topk_svd(mx.array(matrix), 1, use_compile=use_compile)

    def test_settings(self) -> None:
        with pytest.raises(ValueError, match=r"iters must be 1 or more, got 0"):
            topk_svd(mx.ones((4, 6)), 1, iters=0)
        with pytest.raises(ValueError, match=r"band_size must be 1 or more, got 0"):
            topk_svd(mx.ones((4, 6)), 1, use_kernel=True, band_size=0)
        with pytest.raises(ValueError, match=r"seed must be 0 or more, got -1"):
            topk_svd(mx.ones((4, 6)), 1, seed=-1)
