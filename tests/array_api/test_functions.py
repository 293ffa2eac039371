"""Manipulation, searching, sorting, sets, statistics, linear algebra and Fourier transforms."""

from __future__ import annotations

import numpy as np
import pytest
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp

X = DATA["float64"]
SQUARE = X[:, :3] @ X[:, :3].T + np.eye(3)


def test_manipulation() -> None:
    compare(lambda ns, x: ns.concat([x, x], axis=1), X)
    compare(lambda ns, x, y: ns.concat([x, y], axis=None), X, DATA["float32"])
    compare(lambda ns, x: (ns.stack([x, x], axis=-1), ns.unstack(x, axis=1)), X)
    compare(lambda ns, x: (ns.expand_dims(x, axis=1), ns.squeeze(x[:1], axis=0)), X)
    compare(lambda ns, x: (ns.flip(x), ns.flip(x, axis=0), ns.permute_dims(x, (1, 0))), X)
    compare(lambda ns, x: (ns.moveaxis(x, 0, -1), ns.moveaxis(x, (0, 1), (1, 0))), X)
    compare(lambda ns, x: (ns.reshape(x, (2, -1)), ns.reshape(x, (12,), copy=True)), X)
    compare(lambda ns, x: (ns.roll(x, 2), ns.roll(x, (1, 2), axis=(0, 1))), X)
    compare(lambda ns, x: (ns.repeat(x, 2), ns.repeat(x, 3, axis=1), ns.tile(x, (2, 1, 2))), X)
    compare(lambda ns, x, n: ns.repeat(x, n, axis=0), X, np.array([2, 0, 1]))
    compare(lambda ns, x: (ns.broadcast_to(x, (2, 3, 4)), ns.broadcast_arrays(x, x[:1])), X)


def test_indexing() -> None:
    compare(lambda ns, x, i: ns.take(x, i, axis=1), X, np.array([3, 0]))
    compare(lambda ns, x, i: ns.take_along_axis(x, i, axis=1), X, np.argsort(X, axis=1))


def test_searching() -> None:
    for dtype in ("float64", "int8", "bool"):
        compare(lambda ns, x: (ns.argmax(x, axis=1), ns.argmin(x, axis=0)), DATA[dtype])
        compare(lambda ns, x: ns.nonzero(x), DATA[dtype])
        compare(lambda ns, x: ns.count_nonzero(x, axis=0), DATA[dtype])
    compare(lambda ns, x: ns.argmax(x, axis=1, keepdims=True), X)
    compare(lambda ns, x: ns.where(x > 0, x, -x), X)
    compare(lambda ns, x: ns.where(x > 0, x, 0), X)
    compare(lambda ns, x, y: ns.searchsorted(x, y), np.sort(X[0]), X)
    compare(lambda ns, x, y: ns.searchsorted(x, y, side="right"), np.arange(5), np.arange(7))


def test_sorting() -> None:
    for dtype in ("float64", "int8", "uint8"):
        data = DATA[dtype]
        compare(lambda ns, x: (ns.sort(x), ns.sort(x, axis=0)), data)
        order = np.argsort(data, axis=-1, stable=True)
        agree(xp.argsort(xp.asarray(data)), order)
        backwards = xp.argsort(xp.asarray(data), descending=True)
        taken = np.take_along_axis(data, np.asarray(backwards), -1)
        np.testing.assert_array_equal(taken, np.sort(data)[:, ::-1])
    ties = np.array([1, 0, 1, 0])
    assert np.asarray(xp.argsort(xp.asarray(ties), descending=True)).tolist() == [0, 2, 1, 3]


def test_sets() -> None:
    for dtype in ("float64", "int8", "bool"):
        compare(lambda ns, x: (ns.sort(ns.unique_values(x)), ns.unique_counts(x)), DATA[dtype])
        compare(lambda ns, x: (ns.unique_inverse(x), ns.unique_all(x)), DATA[dtype])
    assert xp.unique_values(xp.asarray([np.nan, np.nan])).shape == (2,)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "all", "any"])
def test_reductions(name: str) -> None:
    for dtype, data in DATA.items():
        if name in ("max", "min") and dtype == "complex64":
            continue
        compare(lambda ns, x: getattr(ns, name)(x), data)
        compare(lambda ns, x: getattr(ns, name)(x, axis=1, keepdims=True), data)
        compare(lambda ns, x: getattr(ns, name)(x, axis=(0, 1)), data)


def test_statistics() -> None:
    for data in (X, DATA["float32"]):
        compare(lambda ns, x: (ns.mean(x), ns.mean(x, axis=0), ns.std(x, axis=1)), data)
        compare(lambda ns, x: (ns.var(x), ns.var(x, axis=0, correction=1)), data)
    compare(lambda ns, x: ns.sum(x, dtype=ns.float32), X)
    for dtype in ("float64", "int8", "uint8"):
        compare(lambda ns, x: ns.cumulative_sum(x, axis=1), DATA[dtype])
        compare(lambda ns, x: ns.cumulative_prod(x, axis=0, include_initial=True), DATA[dtype])
    compare(lambda ns, x: (ns.diff(x), ns.diff(x, axis=0, n=2), ns.diff(x, prepend=x[:, :1])), X)


def test_products() -> None:
    for dtype in ("float64", "int64", "float32"):
        x = DATA[dtype]
        compare(lambda ns, x: (ns.matmul(x, x.T), x @ x[0], ns.matrix_transpose(x)), x)
        compare(lambda ns, x: (ns.tensordot(x, x, axes=2), ns.vecdot(x, x)), x)
        compare(lambda ns, x: ns.tensordot(x, x, axes=((0,), (0,))), x)
    compare(lambda ns, x: ns.vecdot(x, x, axis=0), DATA["complex64"])


def test_linear_algebra() -> None:
    compare(lambda ns, x: (ns.linalg.det(x), ns.linalg.inv(x), ns.linalg.slogdet(x)), SQUARE)
    compare(lambda ns, x: (ns.linalg.cholesky(x), ns.linalg.eigvalsh(x)), SQUARE)
    compare(lambda ns, x: ns.linalg.cholesky(x, upper=True), SQUARE)
    compare(lambda ns, x: (ns.linalg.solve(x, x[0]), ns.linalg.solve(x, x[:, :2])), SQUARE)
    compare(lambda ns, x: (ns.linalg.matrix_power(x, 3), ns.linalg.matrix_power(x, -2)), SQUARE)
    compare(lambda ns, x: (ns.linalg.pinv(x), ns.linalg.svdvals(x), ns.linalg.matrix_rank(x)), X)
    compare(lambda ns, x: (ns.linalg.trace(x), ns.linalg.diagonal(x, offset=1)), X)
    compare(lambda ns, x: (ns.linalg.outer(x[0], x[1]), ns.linalg.cross(x[:, :3], x[:, 1:])), X)
    for order in (1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
        compare(lambda ns, x, o=order: ns.linalg.matrix_norm(x, ord=o), X)
    for order in (0, 1, 2, 3, np.inf, -np.inf):
        compare(lambda ns, x, o=order: ns.linalg.vector_norm(x, axis=1, ord=o), X)
    compare(lambda ns, x: ns.linalg.vector_norm(x), X)


def test_decompositions_multiply_back() -> None:
    x = xp.asarray(X)
    for full in (True, False):
        u, s, vh = xp.linalg.svd(x, full_matrices=full)
        expected = np.linalg.svd(X, full_matrices=full)
        assert [part.shape for part in (u, s, vh)] == [part.shape for part in expected]
        agree(u[:, :3] * s @ vh[:3, :], X)
    for mode in ("reduced", "complete"):
        q, r = xp.linalg.qr(x, mode=mode)
        assert (q.shape, r.shape) == tuple(part.shape for part in np.linalg.qr(X, mode))
        agree(q @ r, X)
    values, vectors = xp.linalg.eigh(xp.asarray(SQUARE))
    agree(vectors * values @ vectors.T, SQUARE)


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_fourier_transforms(norm: str) -> None:
    real, spectrum = DATA["float32"], DATA["complex64"]
    for name in ("fft", "ifft", "irfft", "hfft"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), spectrum)
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, n=5, axis=0), spectrum)
    for name in ("rfft", "ihfft", "rfftn"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), real)
    for name in ("fftn", "ifftn", "irfftn"):
        compare(lambda ns, x, name=name: getattr(ns.fft, name)(x, norm=norm), spectrum)
    compare(lambda ns, x: (ns.fft.fftshift(x), ns.fft.ifftshift(x, axes=1)), real)
    compare(lambda ns: (ns.fft.fftfreq(6, d=0.5), ns.fft.rfftfreq(7)))
