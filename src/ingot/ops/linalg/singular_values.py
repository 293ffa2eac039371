"""Singular values and vectors of matrices, and pseudo-inverses computed from them.

Derivatives of singular vectors exist where singular values are distinct and nonzero. Vectors are
determined only up to a common sign (or complex factor) of left and right ones; those beyond the
singular values are any basis of the complement. Functions whose value depends on that choice have
no derivative.
"""

from __future__ import annotations

from functools import partial as deferred
from typing import Any, Literal, overload

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
from ingot.ops.elementwise.complex_numbers import imag, real
from ingot.ops.linalg.matrices import (
    FLOATS_AND_COMPLEX,
    MatrixOp,
    adjoint,
    by_matrix,
    by_stack,
    cotangent_or_zeros,
    diagonal_matrix,
    differences_inverted,
    in_own_precision,
    raising,
    real_dtype,
    require_finite,
    require_matrices,
)
from ingot.ops.linalg.routines import svd_routine
from ingot.ops.shape.diagonals import diagonal
from ingot.ops.shape.joining import concatenate
from ingot.ops.shape.movement import matrix_transpose as transposed

__all__ = ["pinv", "singular_values", "svd"]

_FAILURE = "[linalg.svd] did not converge."


def _decomposed(x: np.ndarray, full: bool) -> Any:
    found = computed(_FULL if full else _REDUCED, x)
    if found is not None:
        return tuple(found)
    prepare_blas()
    require_finite("linalg.svd", x)
    # MLX passes the matrix in column-major order to LAPACK: most signs are then the same.
    columns = np.swapaxes(x, -1, -2)
    with raising(_FAILURE):
        if in_own_precision(x):
            decompose = deferred(scipy_linalg().svd, full_matrices=full, check_finite=False)
            right, values, left = by_matrix(decompose, columns)
        else:
            decompose = deferred(np.linalg.svd, full_matrices=full)
            right, values, left = by_stack(lambda block: tuple(decompose(block)), columns)
    return np.swapaxes(left, -1, -2), values, np.swapaxes(right, -1, -2)


@dataclass(frozen=True)
class SVD(MatrixOp):
    """Left singular vectors as columns, singular values in descending order, right vectors as rows.

    `full`: with vectors beyond the singular values, so that both matrices of vectors are square.
    """

    full: bool

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        *batch, rows, columns = x.shape
        common = min(rows, columns)
        left = (*batch, rows, rows if self.full else common)
        right = (*batch, columns if self.full else common, columns)
        return (left, x.dtype), ((*batch, common), real_dtype(x.dtype)), (right, x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return svd_routine(x, "A" if self.full else "S")

    def evaluate(self, x: np.ndarray) -> Any:
        return _decomposed(x, self.full)

    def only_output(self, index: int) -> Op | None:
        return SingularValues() if index == 1 else None

    def with_leading_outputs(self, extents: dict[int, Shape], x: Any) -> Op | None:
        common = min(x.shape[-2:])
        left, right = extents.get(0, (0,)), extents.get(2, (0, 0))
        return _REDUCED if self.full and max(left[-1], right[-2]) <= common else None

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array]:
        of_left, of_values, of_right = cotangent
        parts = _Parts(x, out)
        core = parts.adjoint_core(of_left, of_values, of_right)
        result = parts.left @ core @ adjoint(parts.right)
        if of_left is not None and parts.rows > parts.common:
            rest = parts.beyond(parts.left, out[0], of_left)
            result = result + rest @ adjoint(parts.right)
        if of_right is not None and parts.columns > parts.common:
            rest = parts.beyond(parts.right, adjoint(out[2]), adjoint(of_right))
            result = result + parts.left @ adjoint(rest)
        return (result,)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        change = tangents[0]
        if change is None:
            return (None, None, None)
        parts = _Parts(x, out)
        inner = adjoint(parts.left) @ change @ parts.right
        left_rotation, right_rotation = parts.rotations(inner)
        of_left = parts.left @ left_rotation
        of_right = parts.right @ right_rotation
        if parts.rows > parts.common:
            scaled = (change @ parts.right) * parts.inverted
            of_left = of_left + scaled - parts.left @ (inner * parts.inverted)
            of_left = _with_rest(self.full, parts.common, parts.left, out[0], scaled, of_left)
        if parts.columns > parts.common:
            scaled = (adjoint(change) @ parts.left) * parts.inverted
            of_right = of_right + scaled - parts.right @ (adjoint(inner) * parts.inverted)
            vectors = adjoint(out[2])
            of_right = _with_rest(self.full, parts.common, parts.right, vectors, scaled, of_right)
        return of_left, real(diagonal(inner, 0, -2, -1)), adjoint(of_right)


def _with_rest(
    full: bool, common: int, basis: array, vectors: array, scaled: array, change: array
) -> array:
    """The tangent of the vectors, and of those beyond the singular values, which stay
    orthogonal.
    """
    if not full:
        return change
    rest = vectors[..., common:]
    return concatenate([change, -(basis @ (adjoint(scaled) @ rest))], -1)


class _Parts:
    """Shared by the rules of a decomposition. Vectors are columns, as many as singular values."""

    def __init__(self, x: array, out: tuple[array, ...]) -> None:
        self.rows, self.columns = x.shape[-2:]
        self.common = min(self.rows, self.columns)
        self.is_complex = x.dtype is complex64
        self.values = out[1]
        self.left = out[0][..., : self.common]
        self.right = adjoint(out[2][..., : self.common, :])
        self.inverted = 1 / self.values[..., None, :]
        self.gaps = differences_inverted(self.values * self.values)

    def rotations(self, inner: array) -> tuple[array, array]:
        """The rotations of the vectors within their span, given the change between them."""
        along_columns = inner * self.values[..., None, :]
        along_rows = inner * self.values[..., :, None]
        left = self.gaps * (along_columns + adjoint(along_columns))
        right = self.gaps * (along_rows + adjoint(along_rows))
        if self.is_complex:
            phase = imag(diagonal(inner, 0, -2, -1)) / self.values
            left = left + diagonal_matrix(phase) * 1j
        return left, right

    def adjoint_core(
        self, of_left: array | None, of_values: array | None, of_right: array | None
    ) -> array:
        """The adjoint of `rotations`, and of the diagonal, which is the change of the values."""
        core = diagonal_matrix(cotangent_or_zeros(of_values, self.values))
        if of_left is not None:
            rotation = adjoint(self.left) @ of_left[..., : self.common]
            core = core + self.gaps * (rotation - adjoint(rotation)) * self.values[..., None, :]
            if self.is_complex:
                phase = imag(diagonal(rotation, 0, -2, -1)) / self.values
                core = core + diagonal_matrix(phase) * 1j
        if of_right is not None:
            rotation = adjoint(self.right) @ adjoint(of_right[..., : self.common, :])
            core = core + self.gaps * (rotation - adjoint(rotation)) * self.values[..., :, None]
        return core

    def beyond(self, basis: array, vectors: array, cotangent: array) -> array:
        """The component of the vectors' cotangent orthogonal to their span, scaled."""
        inside = cotangent[..., : self.common]
        out_of_span = inside - basis @ (adjoint(basis) @ inside)
        rest = vectors[..., self.common :]
        if rest.shape[-1] > 0:
            out_of_span = out_of_span - rest @ (adjoint(cotangent[..., self.common :]) @ basis)
        return out_of_span * self.inverted


class SingularValues(MatrixOp):
    """Singular values in descending order."""

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        *batch, rows, columns = x.shape
        return (*batch, min(rows, columns)), real_dtype(x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return svd_routine(x, "N")

    def evaluate(self, x: np.ndarray) -> Any:
        found = computed(self, x)
        if found is not None:
            return found[0]
        prepare_blas()
        require_finite("linalg.svd", x)
        with raising(_FAILURE):
            if in_own_precision(x):
                return by_matrix(deferred(scipy_linalg().svdvals, check_finite=False), x)
            return by_stack(deferred(np.linalg.svd, compute_uv=False), x)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        left, _, right = apply_multiple(_REDUCED, x)
        return ((left * cotangent[..., None, :]) @ right,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        left, _, right = apply_multiple(_REDUCED, x)
        inner = adjoint(left) @ tangents[0] @ adjoint(right)
        return real(diagonal(inner, 0, -2, -1))


class PseudoInverse(MatrixOp):
    """Moore-Penrose inverses; singular values negligible relative to the largest are
    treated as 0.
    """

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        *batch, rows, columns = x.shape
        return (*batch, columns, rows), x.dtype

    def evaluate(self, x: np.ndarray) -> Any:
        left, values, right = _decomposed(x, False)
        kept = values > self.negligible(x) * values.max(-1, keepdims=True, initial=0)
        inverted = np.divide(1, values, out=np.zeros_like(values), where=kept)
        return np.swapaxes(right, -1, -2) @ (inverted[..., None] * np.swapaxes(left, -1, -2))

    def negligible(self, x: Any) -> float:
        """Which share of the largest singular value counts as 0."""
        dtype = x.dtype if isinstance(x.dtype, np.dtype) else x.dtype.numpy
        return 10 * max(x.shape[-2:]) * float(np.finfo(dtype).eps)

    # For matrices whose rank is locally constant.

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        within = transposed(out) @ cotangent @ transposed(out)
        by_rows = transposed(cotangent) @ out @ transposed(out)
        by_columns = transposed(out) @ out @ transposed(cotangent)
        rows = by_rows - x @ (out @ by_rows)
        columns = by_columns - (by_columns @ out) @ x
        return (rows + columns - within,)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        change = tangents[0]
        if change is None:
            return None
        within = out @ change @ out
        by_rows = out @ transposed(out) @ transposed(change)
        by_columns = transposed(change) @ transposed(out) @ out
        rows = by_rows - (by_rows @ x) @ out
        columns = by_columns - out @ (x @ by_columns)
        return rows + columns - within


_FULL = SVD(True)
_REDUCED = SVD(False)
_VALUES = SingularValues()
_PSEUDO_INVERSE = PseudoInverse()


@overload
def svd(
    a: array, compute_uv: Literal[True] = True, *, stream: StreamLike = None
) -> tuple[array, array, array]: ...


@overload
def svd(a: array, compute_uv: Literal[False], *, stream: StreamLike = None) -> array: ...


@overload
def svd(
    a: array, compute_uv: bool, *, stream: StreamLike = None
) -> tuple[array, array, array] | array: ...


def svd(
    a: array, compute_uv: bool = True, *, stream: StreamLike = None
) -> tuple[array, array, array] | array:
    """The singular value decomposition of matrices.

    Args:
        a: The matrices, in the last two axes.
        compute_uv: Whether to compute singular vectors.
        stream: The stream or device to run on.

    Returns:
        The square matrix U with left singular vectors as columns, the singular values S in
        descending order, and the square matrix Vt with right singular vectors as rows; only S if
        `compute_uv` is false. With k singular values, `(U[:, :k] * S) @ Vt[:k] = a`.
    """
    require_matrices("linalg.svd", a, FLOATS_AND_COMPLEX)
    if not compute_uv:
        return apply(_VALUES, a, stream=stream)
    left, values, right = apply_multiple(_FULL, a, stream=stream)
    return left, values, right


def singular_values(name: str, a: array, stream: StreamLike) -> array:
    """The singular values of matrices; `name` is the function in error messages."""
    return apply(_VALUES, require_matrices(name, a, FLOATS_AND_COMPLEX), stream=stream)


def pinv(a: array, *, stream: StreamLike = None) -> array:
    """The pseudo-inverses of matrices.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        Matrices P such that `a @ P @ a = a`, the smallest ones.
    """
    return apply(_PSEUDO_INVERSE, require_matrices("linalg.pinv", a), stream=stream)
