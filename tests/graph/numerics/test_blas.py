"""Products of matrices on the pool's threads, against NumPy's in double precision."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import ingot.core  # noqa: F401  # gives native code what it needs of NumPy
from ingot import _native
from ingot.graph.numerics import blas
from ingot.graph.numerics.blas import matrix_product, product_of

SIDES = [(1, 1, 1), (1, 700, 900), (700, 900, 1), (900, 1, 700), (64, 64, 65), (130, 257, 511)]
DTYPES = [np.float32, np.float64, np.complex64]


@pytest.fixture(params=[1, 2, 3, 7])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = _native.get_num_threads()
    _native.set_num_threads(request.param)
    yield request.param
    _native.set_num_threads(before)


def _random(shape: tuple[int, ...], dtype: type, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    real = generator.standard_normal(shape)
    if dtype is np.complex64:
        return (real + 1j * generator.standard_normal(shape)).astype(dtype)
    return real.astype(dtype)


def _check(left: np.ndarray, right: np.ndarray) -> None:
    found = matrix_product(left, right)
    wide = np.complex128 if left.dtype == np.complex64 else np.float64
    expected = np.matmul(left.astype(wide), right.astype(wide))
    assert found.dtype == left.dtype
    assert found.shape == expected.shape
    tolerance = 1e-12 if left.dtype == np.float64 else 2e-4
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sides", SIDES)
def test_matrices_in_either_order(sides: tuple[int, int, int], dtype: type, threads: int) -> None:
    m, k, n = sides
    left, right = _random((m, k), dtype), _random((k, n), dtype, 1)
    _check(left, right)
    _check(np.asfortranarray(left), right)
    _check(left, np.asfortranarray(right))
    _check(np.asfortranarray(left), np.asfortranarray(right))


# More work than goes on without a look for signals: results and sums are cut.
@pytest.mark.parametrize(
    ("dtype", "sides"),
    [
        (np.float32, (1100, 2100, 1000)),
        (np.complex64, (600, 1700, 610)),
        (np.float64, (2100, 300, 900)),
        (np.float32, (1, 4100, 4200)),
        (np.float64, (18_000_000, 1, 1)),
        (np.float32, (1, 17_000_000, 1)),
        (np.complex64, (4200, 4100, 1)),
    ],
    ids=str,
)
def test_large_matrices_in_blocks(dtype: type, sides: tuple[int, int, int]) -> None:
    m, k, n = sides
    left, right = _random((m, k), dtype), _random((k, n), dtype, 1)
    wide = np.result_type(dtype, np.float64)  # NumPy's own sums of float32 may be less exact
    expected = np.matmul(left.astype(wide), right.astype(wide))
    tolerance = np.sqrt(k) * (1e-14 if dtype is np.float64 else 1e-5)
    for a in (left, np.asfortranarray(left)):
        for b in (right, np.asfortranarray(right)):
            np.testing.assert_allclose(matrix_product(a, b), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sides", [(1, 1000, 700), (700, 1000, 1), (1, 5000, 90), (90, 5000, 1)])
def test_rows_and_columns_as_they_lie(
    sides: tuple[int, int, int], dtype: type, threads: int
) -> None:
    m, k, n = sides
    left, right = _random((2 * m, 2 * k), dtype), _random((2 * k, 2 * n), dtype, 1)
    for a in (left[:m, :k], np.asfortranarray(left)[:m, :k]):
        for b in (right[:k, :n], np.asfortranarray(right)[:k, :n]):
            _check(a, b)
    stacked = np.stack([left[:m, :k]] * 3), np.stack([right[:k, :n]] * 3)
    _check(*stacked)


def test_sums_of_nothing_are_zero() -> None:
    for shape in ((1, 0, 1 << 19), (1 << 19, 0, 1)):
        m, k, n = shape
        product = product_of(
            np.dtype(np.float32), ((m, k), (max(k, 1) * 4, 4)), ((k, n), (n * 4, 4))
        )
        result = np.full((m, n), 7, np.float32)
        _native.multiply(
            product, np.empty((k, n), np.float32), np.empty((m, k), np.float32), result
        )
        assert not result.any()


@pytest.mark.parametrize("count", [1, 2, 3, 17])
def test_stacks(count: int, threads: int) -> None:
    left, right = _random((count, 40, 90), np.float32), _random((count, 90, 130), np.float32, 1)
    _check(left, right)
    _check(left, np.broadcast_to(right[:1], right.shape))
    _check(np.broadcast_to(left[:1], left.shape), right)
    _check(left, right[:1])


def test_stacks_of_heads_are_not_copied(threads: int) -> None:
    heads = _random((3, 50, 4, 32), np.float32).transpose(0, 2, 1, 3)
    keys = _random((3, 60, 4, 32), np.float32, 1).transpose(0, 2, 3, 1)
    product = product_of(heads.dtype, (heads.shape, heads.strides), (keys.shape, keys.strides))
    assert product is not None
    assert product[-2] == (3, 4)
    _check(heads, keys)


def test_rows_of_a_stack_are_one_matrix() -> None:
    left, right = _random((8, 16, 32), np.float32), _random((32, 24), np.float32, 1)
    wide = np.broadcast_to(right, (8, 32, 24))
    product = product_of(left.dtype, (left.shape, left.strides), (wide.shape, wide.strides))
    assert product is not None
    assert product[2:5] == (24, 128, 32)
    assert product[-2] == ()


def test_windows_cannot_be_read_as_they_lie() -> None:
    x = _random((64, 64), np.float32)[::2, ::2]
    assert product_of(x.dtype, (x.shape, x.strides), (x.shape, x.strides)) is None
    _check(_random((256, 256), np.float32)[::2, ::2], _random((128, 300), np.float32))


def test_scipys_library_where_numpy_has_another(monkeypatch: pytest.MonkeyPatch) -> None:
    blas.prepare_products.cache_clear()
    monkeypatch.setattr(blas, "_bundled_library", lambda: None)
    try:
        assert blas.prepare_products() == 2**31 - 1
        _check(_random((300, 200), np.float32), _random((200, 400), np.float32))
    finally:
        monkeypatch.undo()
        blas.prepare_products.cache_clear()
        assert blas.prepare_products() > 2**31


def test_many_threads_at_once() -> None:
    left, right = _random((200, 300), np.float32), _random((300, 250), np.float32, 1)
    expected = matrix_product(left, right)
    wrong: list[float] = []

    def multiply() -> None:
        for _ in range(30):
            wrong.append(float(np.abs(matrix_product(left, right) - expected).max()))

    workers = [threading.Thread(target=multiply) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(wrong) == 180
    assert max(wrong) < 1e-4


def _multiply_in_child() -> None:
    left = _random((300, 300), np.float32)
    expected = left.astype(np.float64) @ left.astype(np.float64)
    os._exit(0 if np.allclose(matrix_product(left, left), expected, atol=1e-3) else 3)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork() -> None:
    matrix_product(_random((300, 300), np.float32), _random((300, 300), np.float32))
    child = multiprocessing.get_context("fork").Process(target=_multiply_in_child)
    child.start()
    child.join(60)
    assert child.exitcode == 0
