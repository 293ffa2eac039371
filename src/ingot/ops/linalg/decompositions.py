"""Matrix factorisations: Cholesky, QR and LU.

Factors are those of LAPACK, including their signs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.numerics.routines import Routine, Spec, computed
from ingot.graph.op import apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.shape import Shape, shape_text
from ingot.ops.index.along_axis import take_along_axis
from ingot.ops.linalg.linear_systems import solve_with
from ingot.ops.linalg.matrices import (
    MatrixOp,
    cotangent_or_zeros,
    hermitian_part,
    lower_with_half_diagonal,
    require_matrices,
    require_square,
)
from ingot.ops.linalg.routines import cholesky_routine, lu_routine, qr_routine
from ingot.ops.products.contraction import matmul
from ingot.ops.reduce.sorting import argsort
from ingot.ops.shape.diagonals import eye, tril, triu
from ingot.ops.shape.joining import concatenate
from ingot.ops.shape.movement import matrix_transpose as transposed

__all__ = ["cholesky", "lu", "lu_factor", "qr"]


@dataclass(frozen=True)
class Cholesky(MatrixOp):
    """Triangular factors of symmetric positive semi-definite matrices.

    One triangle of these is read. Derivatives are those along symmetric matrices: a tangent counts
    by its symmetric part.
    """

    upper: bool

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def routine(self, x: Spec) -> Routine | None:
        return cholesky_routine(x, self.upper)

    def evaluate(self, x: np.ndarray) -> Any:
        if x.size == 0:
            return x
        found = computed(self, x)
        if found is not None:
            return found[0]
        if self.upper:
            return np.swapaxes(_semidefinite_factor(np.swapaxes(x, -1, -2)), -1, -2)
        return _semidefinite_factor(x)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        factor, of_factor = (
            (transposed(out), transposed(cotangent)) if self.upper else (out, cotangent)
        )
        middle = lower_with_half_diagonal(transposed(factor) @ of_factor)
        half = solve_with("upper", transposed(factor), middle)
        return (hermitian_part(solve_with("upper", transposed(factor), transposed(half))),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        factor = transposed(out) if self.upper else out
        half = solve_with("lower", factor, hermitian_part(tangents[0]))
        change = factor @ lower_with_half_diagonal(solve_with("lower", factor, transposed(half)))
        return transposed(change) if self.upper else change


def _semidefinite_factor(x: np.ndarray) -> np.ndarray:
    """Lower factors of matrices that are not all definite; NaN for those not semi-definite.

    Column by column: a column whose pivot is zero up to rounding must itself be zero up to
    rounding.
    """
    rest = x.astype(np.float64)
    factor = np.zeros_like(rest)
    length = x.shape[-1]
    largest = np.abs(np.diagonal(rest, axis1=-2, axis2=-1)).max(-1)
    tolerance = length * np.finfo(x.dtype).eps * largest[..., None]
    for position in range(length):
        column = rest[..., position:, position]
        pivot = column[..., :1]
        negligible = (np.abs(column) <= tolerance).all(-1, keepdims=True)
        root = np.sqrt(np.where(pivot > tolerance, pivot, np.nan))
        scaled = np.where(negligible, 0, column / root)
        factor[..., position:, position] = scaled
        rest[..., position:, position:] -= scaled[..., :, None] * scaled[..., None, :]
    valid = np.isfinite(factor).all((-2, -1), keepdims=True)
    return np.where(valid | (np.tri(length) == 0), factor, np.nan).astype(x.dtype)


class QR(MatrixOp):
    """Orthonormal columns Q and upper triangles R of matrices with at least as many rows as
    columns.
    """

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        *batch, _, columns = x.shape
        return (x.shape, x.dtype), ((*batch, columns, columns), x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return qr_routine(x)

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        return tuple(np.linalg.qr(x)) if found is None else tuple(found)

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array]:
        q, r = out
        of_q = cotangent_or_zeros(cotangent[0], q)
        of_r = cotangent_or_zeros(cotangent[1], r)
        middle = r @ transposed(of_r) - transposed(of_q) @ q
        symmetric = tril(middle) + transposed(tril(middle, -1))
        return (transposed(solve_with("upper", r, transposed(of_q + q @ symmetric))),)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        if tangents[0] is None:
            return (None, None)
        q, r = out
        scaled = transposed(
            solve_with("lower", transposed(r), transposed(tangents[0]))
        )  # times the inverse of r
        inner = transposed(q) @ scaled
        below = tril(inner, -1)
        rotation = below - transposed(below)
        return q @ (rotation - inner) + scaled, triu((inner - rotation) @ r)


class LU(MatrixOp):
    """Triangular factors of matrices with row exchanges.

    The outputs are both triangles in one matrix (without the unit diagonal of the lower one), the
    pivots, and the row permutation.
    """

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        *batch, rows, columns = x.shape
        pivots = (*batch, min(rows, columns))
        return (x.shape, x.dtype), (pivots, uint32), ((*batch, rows), uint32)

    def routine(self, x: Spec) -> Routine | None:
        return lu_routine(x)

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        if found is not None:
            return tuple(found)
        assert x.size == 0, "real matrices have a routine"
        *batch, rows, columns = x.shape
        positions = np.broadcast_to(np.arange(rows, dtype=np.uint32), (*batch, rows))
        return x, np.zeros((*batch, min(rows, columns)), np.uint32), positions

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array | None]:
        of_factors = cotangent[0]
        if of_factors is None:
            return (None,)
        lower, upper = _unpacked(x, out[0])
        middle = tril(transposed(lower) @ tril(of_factors, -1), -1) + triu(
            triu(of_factors) @ transposed(upper)
        )
        half = solve_with("upper", transposed(lower), middle)
        whole = transposed(solve_with("upper", upper, transposed(half)))
        return (take_along_axis(whole, out[2][..., None], -2),)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        if tangents[0] is None:
            return (None, None, None)
        lower, upper = _unpacked(x, out[0])
        exchanged = take_along_axis(tangents[0], argsort(out[2])[..., None], -2)
        half = solve_with("lower", lower, exchanged)
        middle = transposed(solve_with("lower", transposed(upper), transposed(half)))
        return lower @ tril(middle, -1) + triu(middle) @ upper, None, None


def _unpacked(x: array, factors: array) -> tuple[array, array]:
    """The lower and the upper triangles of square matrices."""
    rows, columns = x.shape[-2:]
    if rows != columns:
        raise ValueError(
            f"[linalg.lu] has derivatives for square matrices only, got shape "
            f"{shape_text(x.shape)}."
        )
    return tril(factors, -1) + eye(rows, dtype=x.dtype), triu(factors)


_QR = QR()
_LU = LU()


def cholesky(a: array, upper: bool = False, *, stream: StreamLike = None) -> array:
    """The Cholesky factors of symmetric positive semi-definite matrices.

    Args:
        a: The matrices, in the last two axes; only one triangle of each is read.
        upper: Whether the factor is an upper triangle U with `U.T @ U = a` and the upper triangle
            of `a` is read, instead of the lower ones with `L @ L.T = a`.
        stream: The stream or device to run on.

    Returns:
        The factors. That of a matrix with a negative eigenvalue is NaN.
    """
    return apply(Cholesky(bool(upper)), require_square("linalg.cholesky", a), stream=stream)


def qr(a: array, *, stream: StreamLike = None) -> tuple[array, array]:
    """The QR decomposition of matrices.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        Q, whose columns are orthonormal, and the upper triangles R, such that `Q @ R = a`.
    """
    rows, columns = require_matrices("linalg.qr", a).shape[-2:]
    if rows >= columns:
        q, r = apply_multiple(_QR, a, stream=stream)
        return q, r
    # The remaining columns have no influence on Q.
    q, r = apply_multiple(_QR, a[..., :rows], stream=stream)
    rest = matmul(transposed(q), a[..., rows:], stream=stream)
    return q, concatenate([r, rest], -1, stream=stream)


def lu(a: array, *, stream: StreamLike = None) -> tuple[array, array, array]:
    """The LU decomposition of matrices.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        The indices P, the lower triangles L, whose diagonals are ones, and the upper triangles U,
        such that `L[P, :] @ U = a`.
    """
    rows, columns = require_matrices("linalg.lu", a).shape[-2:]
    factors, _, positions = apply_multiple(_LU, a, stream=stream)
    common = min(rows, columns)
    lower = tril(factors[..., :common], -1, stream=stream) + eye(rows, common, dtype=a.dtype)
    return positions, lower, triu(factors[..., :common, :], stream=stream)


def lu_factor(a: array, *, stream: StreamLike = None) -> tuple[array, array]:
    """The LU decomposition of matrices in the compact form of LAPACK.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        Both triangles in one matrix, without the diagonal of the lower one, and the row that each
        row was exchanged with, one after the other.
    """
    factors, pivots, _ = apply_multiple(_LU, require_matrices("linalg.lu_factor", a), stream=stream)
    return factors, pivots
