"""Eigenvalues and eigenvectors of symmetric (or Hermitian) and of general matrices.

Derivatives of eigenvectors exist where eigenvalues are distinct. Eigenvectors are determined only
up to a sign (or complex factor); functions whose value depends on it have no derivative. For
symmetric matrices, only the symmetric part of a tangent counts.
"""

from __future__ import annotations

from functools import partial as deferred
from typing import Any, Literal

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import prepare_blas, scipy_linalg
from ingot.graph.numerics.routines import Routine, Spec, computed
from ingot.graph.op import Op, apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.shape import Shape
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.complex_numbers import conj, real
from ingot.ops.linalg.linear_systems import solve_with
from ingot.ops.linalg.matrices import (
    FLOATS_AND_COMPLEX,
    MatrixOp,
    adjoint,
    by_matrix,
    by_stack,
    cotangent_or_zeros,
    diagonal_matrix,
    differences_inverted,
    hermitian_part,
    in_own_precision,
    raising,
    real_dtype,
    require_finite,
    require_square,
)
from ingot.ops.linalg.routines import eigen_routine
from ingot.ops.shape.diagonals import diagonal

__all__ = ["eig", "eigh", "eigvals", "eigvalsh"]


@dataclass(frozen=True)
class SymmetricEigen(MatrixOp):
    """Eigenvalues of symmetric matrices in ascending order, and eigenvectors as columns."""

    lower: bool  # which triangle is read

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        return (x.shape[:-1], real_dtype(x.dtype)), (x.shape, x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return eigen_routine(x, self.lower, True)

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        if found is not None:
            return tuple(found)
        prepare_blas()
        require_finite("linalg.eigh", x)
        with raising("[linalg.eigh] did not converge."):
            # MLX passes the matrix in column-major order to LAPACK: most signs are then the same.
            columns = np.swapaxes(x, -1, -2).conj()
            if in_own_precision(x):
                return by_matrix(_symmetric_solver(not self.lower), columns)
            triangle: Literal["L", "U"] = "U" if self.lower else "L"
            return by_stack(lambda block: tuple(np.linalg.eigh(block, triangle)), columns)

    def only_output(self, index: int) -> Op | None:
        return SymmetricEigenvalues(self.lower) if index == 0 else None

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array]:
        values, vectors = out
        core = diagonal_matrix(cotangent_or_zeros(cotangent[0], values))
        if cotangent[1] is not None:
            core = core + differences_inverted(values) * (adjoint(vectors) @ cotangent[1])
        return (hermitian_part(vectors @ core @ adjoint(vectors)),)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        if tangents[0] is None:
            return (None, None)
        values, vectors = out
        inner = adjoint(vectors) @ hermitian_part(tangents[0]) @ vectors
        rotated = vectors @ (differences_inverted(values) * inner)
        return real(diagonal(inner, 0, -2, -1)), rotated


def _symmetric_solver(lower: bool, values_only: bool = False) -> Any:
    return deferred(
        scipy_linalg().eigh,
        lower=lower,
        eigvals_only=values_only,
        driver="evd",
        check_finite=False,
    )


@dataclass(frozen=True)
class SymmetricEigenvalues(MatrixOp):
    """Eigenvalues of symmetric matrices in ascending order."""

    lower: bool  # which triangle is read

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape[:-1], real_dtype(x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return eigen_routine(x, self.lower, False)

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        if found is not None:
            return found[0]
        prepare_blas()
        require_finite("linalg.eigvalsh", x)
        with raising("[linalg.eigvalsh] did not converge."):
            if in_own_precision(x):
                return by_matrix(_symmetric_solver(self.lower, values_only=True), x)
            triangle: Literal["L", "U"] = "L" if self.lower else "U"
            return by_stack(lambda block: np.linalg.eigvalsh(block, triangle), x)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        _, vectors = apply_multiple(SymmetricEigen(self.lower), x)
        return (hermitian_part((vectors * cotangent[..., None, :]) @ adjoint(vectors)),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        _, vectors = apply_multiple(SymmetricEigen(self.lower), x)
        inner = adjoint(vectors) @ hermitian_part(tangents[0]) @ vectors
        return real(diagonal(inner, 0, -2, -1))


class Eigen(MatrixOp):
    """Complex eigenvalues of square matrices, and eigenvectors of length 1 as columns."""

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        return (x.shape[:-1], complex64), (x.shape, complex64)

    def evaluate(self, x: np.ndarray) -> Any:
        prepare_blas()
        require_finite("linalg.eig", x)
        with raising("[linalg.eig] did not converge."):
            if in_own_precision(x):
                values, vectors = by_matrix(deferred(scipy_linalg().eig, check_finite=False), x)
            else:
                values, vectors = by_stack(_eig_of_stack, x)
        return values.astype(np.complex64), vectors.astype(np.complex64)

    def only_output(self, index: int) -> Op | None:
        return Eigenvalues() if index == 0 else None

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array]:
        values, vectors = out
        core = diagonal_matrix(cotangent_or_zeros(cotangent[0], values))
        if cotangent[1] is not None:
            inner = adjoint(vectors) @ cotangent[1]
            # Vectors stay normalised: the component along the vector is removed.
            lengths = real(diagonal(inner, 0, -2, -1))[..., None, :]
            rotation = inner - (adjoint(vectors) @ vectors) * lengths
            core = core + conj(differences_inverted(values)) * rotation
        result = solve_with("all", adjoint(vectors), core @ adjoint(vectors))
        return (result if x.dtype is complex64 else astype(real(result), x.dtype),)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        if tangents[0] is None:
            return (None, None)
        values, vectors = out
        inner = solve_with("all", vectors, astype(tangents[0], complex64) @ vectors)
        rotation = differences_inverted(values) * inner
        rotated = vectors @ rotation
        lengths = real(diagonal(adjoint(vectors) @ rotated, 0, -2, -1))[..., None, :]
        return diagonal(inner, 0, -2, -1), rotated - vectors * lengths


def _eig_of_stack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eig(x)
    return values.astype(np.complex64), vectors.astype(np.complex64)


def _eigvals_of_stack(x: np.ndarray) -> np.ndarray:
    # blocks without complex values are real
    return np.asarray(np.linalg.eigvals(x)).astype(np.complex64)


class Eigenvalues(MatrixOp):
    """Complex eigenvalues of square matrices."""

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape[:-1], complex64

    def evaluate(self, x: np.ndarray) -> Any:
        prepare_blas()
        require_finite("linalg.eigvals", x)
        with raising("[linalg.eigvals] did not converge."):
            if in_own_precision(x):
                values = by_matrix(deferred(scipy_linalg().eigvals, check_finite=False), x)
            else:
                values = by_stack(_eigvals_of_stack, x)
        return values.astype(np.complex64)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return _EIGEN.vjp((cotangent, None), apply_multiple(_EIGEN, x), x)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        return _EIGEN.jvp(tangents, apply_multiple(_EIGEN, x), x)[0]


_EIGEN = Eigen()
_EIGENVALUES = Eigenvalues()


def eigvals(a: array, *, stream: StreamLike = None) -> array:
    """The eigenvalues of square matrices, in no particular order.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        The eigenvalues, complex even if all are real.
    """
    return apply(_EIGENVALUES, _square("linalg.eigvals", a), stream=stream)


def eig(a: array, *, stream: StreamLike = None) -> tuple[array, array]:
    """The eigenvalues and eigenvectors of square matrices.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        The eigenvalues and the eigenvectors, complex even if all are real. Column i of the matrix
        of eigenvectors, whose length is 1, belongs to eigenvalue i.
    """
    values, vectors = apply_multiple(_EIGEN, _square("linalg.eig", a), stream=stream)
    return values, vectors


def eigvalsh(a: array, UPLO: str = "L", *, stream: StreamLike = None) -> array:
    """The eigenvalues of symmetric or Hermitian matrices, in ascending order.

    Args:
        a: The matrices, in the last two axes.
        UPLO: Which triangle is read: the lower one ("L") or the upper one ("U").
        stream: The stream or device to run on.
    """
    op = SymmetricEigenvalues(_reads_lower("linalg.eigvalsh", UPLO))
    return apply(op, _square("linalg.eigvalsh", a), stream=stream)


def eigh(a: array, UPLO: str = "L", *, stream: StreamLike = None) -> tuple[array, array]:
    """The eigenvalues and eigenvectors of symmetric or Hermitian matrices.

    Args:
        a: The matrices, in the last two axes.
        UPLO: Which triangle is read: the lower one ("L") or the upper one ("U").
        stream: The stream or device to run on.

    Returns:
        The eigenvalues in ascending order, and the eigenvectors: column i of their matrix, whose
        length is 1, belongs to eigenvalue i.
    """
    op = SymmetricEigen(_reads_lower("linalg.eigh", UPLO))
    values, vectors = apply_multiple(op, _square("linalg.eigh", a), stream=stream)
    return values, vectors


def _square(name: str, a: Any) -> array:
    return require_square(name, a, FLOATS_AND_COMPLEX)


def _reads_lower(name: str, triangle: Any) -> bool:
    if not isinstance(triangle, str):
        raise TypeError(f'[{name}] UPLO is "L" or "U", got {triangle!r}.')
    if triangle.upper() not in ("L", "U"):
        raise ValueError(f'[{name}] UPLO is "L" or "U", got {triangle!r}.')
    return triangle.upper() == "L"
