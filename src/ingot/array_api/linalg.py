"""Linear algebra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import ingot.core as mx
from ingot.array_api.array import Array, common, kind_of, unwrap, wrap
from ingot.array_api.statistics import sum as sum_of

__all__ = """
    cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank
    matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()


class QR(NamedTuple):
    """What `qr` returns."""

    Q: Array
    R: Array


class SVD(NamedTuple):
    """What `svd` returns."""

    U: Array
    S: Array
    Vh: Array


class Eigh(NamedTuple):
    """What `eigh` returns."""

    eigenvalues: Array
    eigenvectors: Array


class SlogDet(NamedTuple):
    """What `slogdet` returns."""

    sign: Array
    logabsdet: Array


def matmul(x1: Array, x2: Array, /) -> Array:
    """Products of matrices, also of integers."""
    a, b = common(x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("[matmul] takes vectors and matrices, not scalars.")
    if kind_of(a.dtype) in ("real floating", "complex floating"):
        return wrap(mx.matmul(a, b))
    return wrap(mx.array(np.matmul(np.asarray(a), np.asarray(b)), a.dtype))


def matrix_transpose(x: Array, /) -> Array:
    """The matrices in the last two axes, transposed."""
    return x.mT


def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Array:
    """Sums of products over axes of both."""
    a, b = common(x1, x2)
    if kind_of(a.dtype) in ("real floating", "complex floating"):
        found = mx.tensordot(a, b, axes if isinstance(axes, int) else [list(x) for x in axes])
        return wrap(found)
    return wrap(mx.array(np.tensordot(np.asarray(a), np.asarray(b), axes), a.dtype))


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Sums of products along an axis, of the conjugates of the first."""
    a, b = common(x1, x2)
    return wrap(mx.sum(mx.multiply(mx.conjugate(a), b), axis).astype(a.dtype))


def outer(x1: Array, x2: Array, /) -> Array:
    """The products of all pairs of elements of two vectors."""
    a, b = common(x1, x2)
    return wrap(mx.expand_dims(a, 1) * b)


def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """Cross products of vectors of three elements."""
    a, b = (mx.moveaxis(x, axis, -1) for x in mx.broadcast_arrays(*common(x1, x2)))
    if a.shape[-1] != 3:
        raise ValueError(f"[cross] takes vectors of 3 elements, got {a.shape[-1]}.")
    parts = [a[..., i] * b[..., j] - a[..., j] * b[..., i] for i, j in ((1, 2), (2, 0), (0, 1))]
    return wrap(mx.moveaxis(mx.stack(parts, -1), -1, axis))


def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The sums of diagonals."""
    return sum_of(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def diagonal(x: Array, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices."""
    return wrap(mx.diagonal(unwrap(x), offset, -2, -1))


def cholesky(x: Array, /, *, upper: bool = False) -> Array:
    """Triangular factors of positive definite matrices."""
    return wrap(mx.linalg.cholesky(unwrap(x), upper))


def det(x: Array, /) -> Array:
    """Determinants."""
    return wrap(mx.linalg.det(unwrap(x)))


def slogdet(x: Array, /) -> SlogDet:
    """The signs of determinants, and the logarithms of their sizes."""
    sign, size = mx.linalg.slogdet(unwrap(x))
    return SlogDet(wrap(sign), wrap(size))


def eigh(x: Array, /) -> Eigh:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    values, vectors = mx.linalg.eigh(unwrap(x))
    return Eigh(wrap(values), wrap(vectors))


def eigvalsh(x: Array, /) -> Array:
    """Eigenvalues of symmetric matrices."""
    return wrap(mx.linalg.eigvalsh(unwrap(x)))


def inv(x: Array, /) -> Array:
    """Inverses."""
    return wrap(mx.linalg.inv(unwrap(x)))


def solve(x1: Array, x2: Array, /) -> Array:
    """Solutions of linear systems; a vector is one right-hand side."""
    a, b = common(x1, x2)
    if b.ndim == 1:
        return wrap(mx.squeeze(mx.linalg.solve(a, mx.expand_dims(b, 1)), -1))
    batch = mx.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = mx.broadcast_to(a, (*batch, *a.shape[-2:]))
    return wrap(mx.linalg.solve(a, mx.broadcast_to(b, (*batch, *b.shape[-2:]))))


def qr(x: Array, /, *, mode: str = "reduced") -> QR:
    """Orthonormal columns and upper triangular matrices."""
    core = unwrap(x)
    if mode not in ("reduced", "complete"):
        raise ValueError(f'[qr] mode is "reduced" or "complete", got {mode!r}.')
    if mode == "reduced":
        q, r = mx.linalg.qr(core)
        return QR(wrap(q), wrap(r))
    found = np.linalg.qr(np.asarray(core), "complete")
    return QR(*(wrap(mx.array(part, core.dtype)) for part in found))


def svd(x: Array, /, *, full_matrices: bool = True) -> SVD:
    """Singular vectors and values."""
    u, s, vh = mx.linalg.svd(unwrap(x))
    if not full_matrices:
        count = s.shape[-1]
        u, vh = u[..., :count], vh[..., :count, :]
    return SVD(wrap(u), wrap(s), wrap(vh))


def svdvals(x: Array, /) -> Array:
    """Singular values."""
    return wrap(mx.linalg.svd(unwrap(x), False))


def pinv(x: Array, /, *, rtol: Any = None) -> Array:
    """Pseudo-inverses; singular values up to `rtol` times the largest count as zero."""
    core = unwrap(x)
    u, s, vh = (part.core for part in svd(x, full_matrices=False))
    limit = _limit(core, s, rtol)
    inverted = mx.where(s > limit, 1 / mx.where(s > limit, s, 1), 0)
    left = mx.conjugate(mx.swapaxes(vh, -1, -2)) * mx.expand_dims(inverted, -2)
    return wrap(mx.matmul(left, mx.conjugate(mx.swapaxes(u, -1, -2))))


def _limit(x: mx.array, s: mx.array, rtol: Any) -> mx.array:
    if rtol is None:
        part = mx.float32 if x.dtype is mx.complex64 else x.dtype
        factor = mx.array(max(x.shape[-2:]) * float(np.finfo(part.numpy).eps), s.dtype)
    else:
        factor = rtol.core if isinstance(rtol, Array) else mx.array(rtol, s.dtype)
    return mx.max(s, -1, keepdims=True) * mx.expand_dims(factor, -1)


def matrix_rank(x: Array, /, *, rtol: Any = None) -> Array:
    """How many singular values are not zero, up to `rtol` times the largest."""
    if x.ndim < 2:
        raise ValueError(f"[matrix_rank] takes matrices, got {x.ndim} axes.")
    s = mx.linalg.svd(unwrap(x), False)
    return wrap(mx.sum((s > _limit(unwrap(x), s, rtol)).astype(mx.int64), -1))


def matrix_power(x: Array, n: int, /) -> Array:
    """A matrix multiplied with itself; inverted first if `n` is negative."""
    core = mx.linalg.inv(unwrap(x)) if n < 0 else unwrap(x)
    found = mx.broadcast_to(mx.eye(core.shape[-1], dtype=core.dtype), core.shape)
    for bit in bin(abs(n))[2:]:
        found = mx.matmul(found, found)
        if bit == "1":
            found = mx.matmul(found, core)
    return wrap(found)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """Norms of matrices."""
    core = unwrap(x)
    if ord in (2, -2, "nuc"):
        s = mx.linalg.svd(core, False)
        found = {2: mx.max, -2: mx.min, "nuc": mx.sum}[ord](s, -1)
    elif ord == "fro":
        found = mx.sqrt(mx.sum(mx.square(mx.abs(core)), (-2, -1)))
    elif ord in (1, -1, np.inf, -np.inf):
        sums = mx.sum(mx.abs(core), -2 if abs(ord) == 1 else -1)
        found = (mx.max if ord > 0 else mx.min)(sums, -1)
    else:
        raise ValueError(f"[matrix_norm] there is no norm {ord!r} of matrices.")
    return wrap(mx.expand_dims(found, (-2, -1)) if keepdims else found)


def vector_norm(
    x: Array,
    /,
    *,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    ord: float = 2,
) -> Array:
    """Norms of vectors."""
    size = mx.abs(unwrap(x))
    axes = axis if axis is None or isinstance(axis, int) else tuple(axis)
    if ord in (np.inf, -np.inf):
        return wrap((mx.max if ord > 0 else mx.min)(size, axes, keepdims))
    if ord == 0:
        return wrap(mx.sum((size != 0).astype(size.dtype), axes, keepdims))
    if ord == 2:
        return wrap(mx.sqrt(mx.sum(mx.square(size), axes, keepdims)))
    return wrap(mx.sum(size**ord, axes, keepdims) ** (1 / ord))
