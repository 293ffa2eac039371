"""Systems of linear equations: inverses, solutions and determinants.

All are built on two ops for general and triangular matrices, which read only the triangle, and two
for determinants.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import complex64, float32, is_inexact, promote
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import prepare_blas
from ingot.graph.numerics.routines import Routine, Spec, computed
from ingot.graph.op import apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, broadcast_shapes, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.linalg.matrices import (
    BY_LAPACK,
    FLOATS,
    MatrixOp,
    adjoint,
    by_stack,
    raising,
    require_square,
)
from ingot.ops.linalg.routines import determinant_routine, solve_routine, triangular_routine
from ingot.ops.products.contraction import matmul
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import ones_like
from ingot.ops.shape.diagonals import tril, triu
from ingot.ops.shape.joining import roll
from ingot.ops.shape.movement import broadcast_to, flip, require_array, reshape, squeeze
from ingot.ops.shape.movement import matrix_transpose as transposed
from ingot.ops.shape.slicing import broadcast_batch

__all__ = [
    "cholesky_inv",
    "det",
    "inv",
    "slogdet",
    "solve",
    "solve_triangular",
    "solve_with",
    "tri_inv",
]

Triangle = Literal["all", "lower", "upper"]  # which elements of a matrix are read

_OPPOSITE: dict[Triangle, Triangle] = {"all": "all", "lower": "upper", "upper": "lower"}
_SINGULAR = "a matrix is singular: it has no inverse"


def _within_numpy(triangle: Triangle, x: np.ndarray) -> np.ndarray:
    if triangle == "all":
        return x
    return np.tril(x) if triangle == "lower" else np.triu(x)


def _within(triangle: Triangle, x: array) -> array:
    """The part of `x` in the triangle."""
    if triangle == "all":
        return x
    return tril(x) if triangle == "lower" else triu(x)


@dataclass(frozen=True)
class Inverse(MatrixOp):
    """Inverses of matrices, or of their triangles."""

    triangle: Triangle

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def routine(self, x: Spec) -> Routine | None:
        if self.triangle == "all":
            return solve_routine(x, None)
        return triangular_routine(x, None, self.triangle == "lower")

    def evaluate(self, x: np.ndarray) -> Any:
        if x.size == 0:
            return x
        found = computed(self, x)
        if found is None:
            raise RuntimeError(f"[inv] {_SINGULAR}.")
        return found[0]

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (-_within(self.triangle, adjoint(out) @ cotangent @ adjoint(out)),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        return -(out @ _within(self.triangle, tangents[0]) @ out)


@dataclass(frozen=True)
class Solve(Host):
    """Solutions X of A X = B for stacks of equal dtype and equal axes in front of the matrices."""

    triangle: Triangle  # of A

    why_host = BY_LAPACK
    worth_cutting = MatrixOp.worth_cutting
    block_axis = MatrixOp.block_axis

    def infer(self, a: array, b: array) -> tuple[Shape, Dtype]:
        return b.shape, b.dtype

    def routine(self, a: Spec, b: Spec) -> Routine | None:
        if self.triangle == "all":
            return solve_routine(a, b)
        return triangular_routine(a, b, self.triangle == "lower")

    def evaluate(self, a: np.ndarray, b: np.ndarray) -> Any:
        prepare_blas()
        if b.size == 0:
            return b
        if a.ndim > 2 and not any(a.strides[:-2]):
            # One matrix for the whole stack: its right-hand sides are more columns.
            columns = np.moveaxis(b, -2, 0)
            flat = columns.reshape(len(columns), -1)
            solution = self.evaluate(a[(0,) * (a.ndim - 2)], flat)
            return np.moveaxis(solution.reshape(columns.shape), 0, -2)
        if a.dtype.kind == "c":
            with raising(f"[solve] {_SINGULAR}."):
                return by_stack(np.linalg.solve, _within_numpy(self.triangle, a), b)
        found = computed(self, a, b)
        if found is None:
            raise RuntimeError(f"[solve] {_SINGULAR}.")
        return found[0]

    def vjp(self, cotangent: array, out: array, a: array, b: array) -> tuple[Any, array]:
        of_b = apply(Solve(_OPPOSITE[self.triangle]), adjoint(a), cotangent)
        return lambda: -_within(self.triangle, of_b @ adjoint(out)), of_b

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, a: array, b: array
    ) -> array | None:
        of_a, of_b = tangents
        if of_a is None:
            return None if of_b is None else apply(self, a, of_b)
        change = -(_within(self.triangle, of_a) @ out)
        return apply(self, a, change if of_b is None else of_b + change)

    def vmap(self, size: int, batched: tuple[bool, ...], a: array, b: array) -> array:
        left = broadcast_batch(a, size, batched[0])
        return apply(self, left, broadcast_batch(b, size, batched[1]))


def solve_with(triangle: Triangle, a: array, b: array) -> array:
    """Solve for stacks in the form that `Solve` takes, for the rules of other ops."""
    return apply(Solve(triangle), a, b)


def _cofactors(x: array) -> array:
    """The derivative of the determinants with respect to the matrices."""
    length = x.shape[-1]
    if length == 1:
        return ones_like(x)
    if length == 2:
        signs = array([[1, -1], [-1, 1]], x.dtype)
        return flip(x, (-2, -1)) * signs
    if length == 3:
        # Each row is the cross product of the other two rows.
        first, second = roll(x, -1, -2), roll(x, -2, -2)
        return roll(first * roll(second, -1, -1) - roll(first, -1, -1) * second, -1, -1)
    return apply(_DET, x)[..., None, None] * transposed(apply(_INVERSE, x))


def _inverse_transposed(x: array) -> array:
    """The derivative of the logarithms of the absolute values of the determinants."""
    if x.shape[-1] > 3:
        return transposed(apply(_INVERSE, x))
    return _cofactors(x) / apply(_DET, x)[..., None, None]


class Det(MatrixOp):
    """Determinants of square matrices."""

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape[:-2], x.dtype

    def routine(self, x: Spec) -> Routine | None:
        return determinant_routine(x, False)

    def evaluate(self, x: np.ndarray) -> Any:
        prepare_blas()
        found = computed(self, x)
        if found is not None:
            return found[0]
        return np.asarray(np.linalg.det(x.astype(np.float64))).astype(x.dtype)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (cotangent[..., None, None] * _cofactors(x),)

    def jvp(self, tangents: tuple[array | None], out: array, x: array) -> array | None:
        if tangents[0] is None:
            return None
        return sum(tangents[0] * _cofactors(x), (-2, -1))


class SlogDet(MatrixOp):
    """The signs of determinants and the logarithms of their absolute values."""

    several_outputs = True

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        return (x.shape[:-2], x.dtype), (x.shape[:-2], x.dtype)

    def routine(self, x: Spec) -> Routine | None:
        return determinant_routine(x, True)

    def evaluate(self, x: np.ndarray) -> Any:
        prepare_blas()
        found = computed(self, x)
        if found is not None:
            return tuple(found)
        parts = np.linalg.slogdet(x.astype(np.float64, copy=False))
        return tuple(np.asarray(part).astype(x.dtype) for part in parts)

    def vjp(
        self, cotangent: tuple[array | None, ...], out: tuple[array, ...], x: array
    ) -> tuple[array | None]:
        logarithm = cotangent[1]
        if logarithm is None:
            return (None,)
        return (logarithm[..., None, None] * _inverse_transposed(x),)

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[array | None, ...]:
        if tangents[0] is None:
            return (None, None)
        return None, sum(tangents[0] * _inverse_transposed(x), (-2, -1))


_INVERSE = Inverse("all")
_DET = Det()
_SLOGDET = SlogDet()


def inv(a: array, *, stream: StreamLike = None) -> array:
    """The inverses of square matrices.

    Args:
        a: The matrices, in the last two axes.
        stream: The stream or device to run on.

    Returns:
        The inverses. Evaluating that of a singular matrix raises RuntimeError.
    """
    return apply(_INVERSE, require_square("linalg.inv", a), stream=stream)


def tri_inv(a: array, upper: bool = False, *, stream: StreamLike = None) -> array:
    """The inverses of triangular matrices.

    Args:
        a: The matrices, in the last two axes.
        upper: Whether the upper triangle is read instead of the lower one.
        stream: The stream or device to run on.
    """
    op = Inverse("upper" if upper else "lower")
    return apply(op, require_square("linalg.tri_inv", a), stream=stream)


def cholesky_inv(a: array, upper: bool = False, *, stream: StreamLike = None) -> array:
    """The inverses of symmetric positive definite matrices, given their Cholesky factors.

    Args:
        a: The factors, as `cholesky` returns them.
        upper: Whether the factors are upper triangles instead of lower ones.
        stream: The stream or device to run on.
    """
    require_square("linalg.cholesky_inv", a)
    inverse = tri_inv(a, upper, stream=stream)
    if upper:
        return matmul(inverse, transposed(inverse), stream=stream)
    return matmul(transposed(inverse), inverse, stream=stream)


def solve(a: array, b: array, *, stream: StreamLike = None) -> array:
    """The solution X of the systems of linear equations A X = B.

    Args:
        a: The square matrices A, in the last two axes.
        b: The right sides: a vector, or matrices whose columns are vectors.
        stream: The stream or device to run on.

    Returns:
        The solution. The axes in front of the matrices are broadcast. Evaluating that of a
        singular matrix raises RuntimeError.
    """
    return _solved("linalg.solve", "all", a, b, stream)


def solve_triangular(
    a: array, b: array, *, upper: bool = False, stream: StreamLike = None
) -> array:
    """The solution X of the systems of linear equations A X = B with triangular matrices A.

    Args:
        a: The square matrices A, in the last two axes.
        b: The right sides: a vector, or matrices whose columns are vectors.
        upper: Whether the upper triangle of A is read instead of the lower one.
        stream: The stream or device to run on.
    """
    return _solved("linalg.solve_triangular", "upper" if upper else "lower", a, b, stream)


def _solved(name: str, triangle: Triangle, a: Any, b: Any, stream: StreamLike) -> array:
    require_square(name, a)
    require_array(name, b)
    dtype = promote(a.dtype, b.dtype)
    if dtype not in FLOATS:
        raise ValueError(
            f"[{name}] takes right sides that are real, got {b.dtype.name}: solve for the real and "
            "the imaginary part."
        )
    if b.ndim == 0:
        raise ValueError(f"[{name}] takes right sides with at least one axis, got a scalar.")
    rows = b.shape[0 if b.ndim == 1 else -2]
    if rows != a.shape[-1]:
        raise ValueError(
            f"[{name}] cannot solve matrices of shape {shape_text(a.shape)} for right sides of "
            f"shape {shape_text(b.shape)}: both need the same number of rows."
        )
    sides = astype(b, dtype, stream)
    if b.ndim == 1:
        sides = reshape(sides, (rows, 1), stream=stream)
    batch = broadcast_shapes(name, a.shape[:-2], sides.shape[:-2])
    left = broadcast_to(astype(a, dtype, stream), (*batch, rows, rows), stream=stream)
    right = broadcast_to(sides, (*batch, *sides.shape[-2:]), stream=stream)
    solution = apply(Solve(triangle), left, right, stream=stream)
    return squeeze(solution, -1, stream=stream) if b.ndim == 1 else solution


def det(a: array, *, stream: StreamLike = None) -> array:
    """The determinants of square matrices.

    Args:
        a: The matrices, in the last two axes; integers count as float32.
        stream: The stream or device to run on.
    """
    return apply(_DET, _real_square("linalg.det", a, stream), stream=stream)


def slogdet(a: array, *, stream: StreamLike = None) -> tuple[array, array]:
    """The signs of determinants and the natural logarithms of their absolute values.

    Args:
        a: The matrices, in the last two axes; integers count as float32.
        stream: The stream or device to run on.

    Returns:
        The signs, which are 0 for singular matrices, and the logarithms, which are -inf for them.
    """
    sign, logarithm = apply_multiple(
        _SLOGDET, _real_square("linalg.slogdet", a, stream), stream=stream
    )
    return sign, logarithm


def _real_square(name: str, a: Any, stream: StreamLike) -> array:
    require_array(name, a)
    if a.dtype is complex64:
        raise ValueError(f"[{name}] takes real matrices, got complex64.")
    require_square(name, a, (a.dtype,))
    return a if is_inexact(a.dtype) else astype(a, float32, stream)
