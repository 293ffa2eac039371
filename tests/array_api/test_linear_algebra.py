"""Linear algebra, and its extension."""

from __future__ import annotations

import numpy as np
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp

X = DATA["float64"]
SQUARE = X[:, :3] @ X[:, :3].T + np.eye(3)


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
