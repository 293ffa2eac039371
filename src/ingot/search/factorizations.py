"""Factorisations of tall matrices in terms of matrix products: the steps of `topk_svd`.

`tall_qr` is a QR decomposition for matrices with few columns. LAPACK's (Householder) goes column by
column; here the triangular factor comes from the small Gram matrix (Cholesky QR), in double
precision and, if necessary, twice. Matrices with dependent columns are left to LAPACK.
`ritz_vectors` is the last step of `topk_svd`, and `two_sided_product` is A^T (A V), which reads A
once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import prepare_blas, scipy_linalg
from ingot.graph.numerics.blas import matrix_product
from ingot.graph.numerics.parallel import each_in_parallel, one_blas_thread
from ingot.graph.op import apply, no_rule
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.ops.linalg.decompositions import QR
from ingot.ops.linalg.matrices import BY_LAPACK, by_matrix, raising

__all__ = ["ritz_vectors", "tall_qr", "two_sided_product"]

_BAND_BYTES = 1 << 18  # bytes of rows that stay in a core's cache between the two products
_WORTH_THREADS = 1 << 23  # minimum bytes of a matrix for which starting threads pays off

# After the first pass, columns are orthonormal up to the rounding error of double precision times
# the square of the condition number, which the diagonal of the triangle estimates.
_ONE_PASS = 1e-3
# The second pass squares what is left to be done: below this, it ends at rounding errors.
_NEARLY_ORTHONORMAL = 0.1


class TallQR(QR):
    """Orthonormal columns Q and upper triangles R with positive diagonals."""

    def routine(self, x: Any) -> None:
        return None  # QR's is LAPACK's decomposition, which goes column by column

    def evaluate(self, x: np.ndarray) -> Any:
        prepare_blas()
        return by_matrix(_factored, x)


def _factored(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q, r = _orthonormalised(x.astype(np.float64, order="C"), x.dtype == np.float32)
    return q.astype(x.dtype), r.astype(x.dtype, order="C")


def _orthonormalised(x: np.ndarray, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """The factors of a float64 matrix; `single` if single precision is enough."""
    found = _by_cholesky(x, single)
    if found is not None:
        return found
    q, r = scipy_linalg().qr(x, mode="economic", check_finite=False)
    signs = np.where(np.diagonal(r) < 0, -1.0, 1.0)
    return q * signs, r * signs[:, None]


def _by_cholesky(x: np.ndarray, single: bool) -> tuple[np.ndarray, np.ndarray] | None:
    """The factors; None if the columns are (nearly) dependent."""
    first = _pass(x)
    if first is None:
        return None
    if single and first.smallest > _ONE_PASS:
        return first.q, first.r
    second = _pass(first.q)
    if second is None or second.tilt > _NEARLY_ORTHONORMAL:
        return None
    return second.q, matrix_product(second.r, first.r)


class _Pass(NamedTuple):
    q: np.ndarray
    r: np.ndarray
    smallest: float  # on the diagonal of r, for columns of length 1
    tilt: float  # how far the columns were from being orthogonal


def _pass(x: np.ndarray) -> _Pass | None:
    """One orthonormalisation step for a float64 matrix; None if it fails."""
    lapack = scipy_linalg().lapack
    products = matrix_product(x.T, x)
    lengths = np.sqrt(products.diagonal())
    if not np.all((lengths > 0) & (lengths < np.inf)):
        return None
    products /= lengths
    products /= lengths[:, None]
    tilt = float(np.abs(products - np.diag(products.diagonal())).max())
    # The lower triangle of the transpose is the upper one in LAPACK's column-major order.
    triangle, failure = lapack.dpotrf(products.T, clean=1, overwrite_a=1)
    if failure:
        return None
    smallest = float(triangle.diagonal().min())
    triangle *= lengths
    inverse, failure = lapack.dtrtri(triangle)
    if failure:
        return None
    return _Pass(matrix_product(x, inverse), triangle, smallest, tilt)


@dataclass(frozen=True)
class RitzVectors(Host):
    """The largest singular values of A within a subspace, with vectors.

    Given `A @ basis` and the basis, whose columns are orthonormal; computed from inner products in
    double precision, which is accurate enough for float32.
    """

    k: int

    several_outputs = True
    why_host = BY_LAPACK

    def infer(self, product: array, basis: array) -> tuple[tuple[Shape, Dtype], ...]:
        left, right = (product.shape[0], self.k), (self.k, basis.shape[0])
        return (left, product.dtype), ((self.k,), product.dtype), (right, product.dtype)

    def evaluate(self, product: np.ndarray, basis: np.ndarray) -> Any:
        prepare_blas()
        wide = product.astype(np.float64)
        # The matrix is small: BLAS threads would only wait for each other.
        with one_blas_thread(), raising("[topk_svd] eigenvalues did not converge."):
            _, rotation = np.linalg.eigh(matrix_product(wide.T, wide))
        rotation = rotation[:, : -self.k - 1 : -1].copy()  # largest first
        left, triangle = _orthonormalised(matrix_product(wide, rotation), True)
        values = triangle.diagonal()
        order = np.argsort(-values, kind="stable")  # rounding may have swapped tiny ones
        vectors = matrix_product(rotation.T, basis.T.astype(np.float64))
        dtype = product.dtype
        return (
            left[:, order].astype(dtype, order="C"),
            values[order].astype(dtype),
            vectors[order].astype(dtype, order="C"),
        )

    vjp = no_rule("transforms follow decompositions by LAPACK instead")
    jvp = no_rule("transforms follow decompositions by LAPACK instead")
    vmap = no_rule("transforms follow decompositions by LAPACK instead")


@dataclass(frozen=True)
class TwoSidedProduct(Host):
    """A^T (A V), a band of rows of A at a time: the band is still in cache for the
    second product.
    """

    band_size: int | None  # in rows

    why_host = "it is a sequence of products of matrices, which BLAS computes"

    def infer(self, a: array, v: array) -> tuple[Shape, Dtype]:
        return v.shape, v.dtype

    def evaluate(self, a: np.ndarray, v: np.ndarray) -> np.ndarray:
        height = self.band_size or max(64, _BAND_BYTES // max(1, a[:1].nbytes))
        starts = range(0, len(a), height)
        if a.nbytes < _WORTH_THREADS:
            return _summed_bands(matrix_product, a, v, height, starts)
        share = -(-len(starts) // _native.get_num_threads())
        chunks = [starts[first : first + share] for first in range(0, len(starts), share)]
        # One BLAS thread per band, so that the band stays in the cache of its core.
        sums = each_in_parallel(lambda chunk: _summed_bands(np.matmul, a, v, height, chunk), chunks)
        return reduce(np.add, sums)

    def vjp(self, cotangent: array, out: array, a: array, v: array) -> tuple[Any, Any]:
        of_a = (a @ v) @ cotangent.mT + (a @ cotangent) @ v.mT
        return of_a, apply(self, a, cotangent)

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, a: array, v: array
    ) -> array | None:
        of_a, of_v = tangents
        total = None if of_v is None else apply(self, a, of_v)
        if of_a is None:
            return total
        change = of_a.mT @ (a @ v) + a.mT @ (of_a @ v)
        return change if total is None else total + change

    def vmap(self, size: int, batched: tuple[bool, ...], a: array, v: array) -> array:
        return a.mT @ (a @ v)


def _summed_bands(
    multiply: Callable[..., np.ndarray], a: np.ndarray, v: np.ndarray, height: int, starts: range
) -> np.ndarray:
    total = np.zeros(v.shape, v.dtype)
    for start in starts:
        band = a[start : start + height]
        total += multiply(band.T, multiply(band, v))
    return total


_TALL_QR = TallQR()


def tall_qr(x: array) -> tuple[array, array]:
    """The QR decomposition of a matrix with at least as many rows as columns, fastest for few
    columns.
    """
    q, r = apply_multiple(_TALL_QR, x)
    return q, r


def ritz_vectors(product: array, basis: array, k: int) -> tuple[array, array, array]:
    """U, S and Vt of the `k` largest singular values of a float32 matrix within the span of an
    orthonormal basis, given the product of the two.
    """
    left, values, right = apply_multiple(RitzVectors(k), product, basis)
    return left, values, right


def two_sided_product(a: array, v: array, band_size: int | None = None) -> array:
    """`a.T @ (a @ v)`, reading `a` once, `band_size` rows at a time."""
    return apply(TwoSidedProduct(band_size), a, v)
