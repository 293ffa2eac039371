"""The largest singular values of a matrix and their vectors, by subspace iteration.

A block of vectors V, somewhat wider than asked for, is multiplied by A^T A and orthonormalised a
few times; the singular value decomposition of A within the space of the last two blocks is the
result (Rayleigh-Ritz). Two things make few iterations go far: the last two blocks hold more than
the last one, and the iteration multiplies by A^T A - shift, where the shift is about half of the
smallest eigenvalue that V has found, so that unwanted components decay faster.

The iteration is one compiled function for each shape, dtype and device, kept in a bounded cache
with statistics.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import numpy as np

import ingot.core as mx
from ingot import _native
from ingot.graph.errors import type_name
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.shape import shape_text
from ingot.search.factorizations import ritz_vectors, tall_qr, two_sided_product
from ingot.tuning_linalg import MIN_ELEMENTS_BY_PRODUCTS

__all__ = ["SVDCacheInfo", "cache_clear", "cache_info", "topk_svd"]

MAX_PROGRAMS = 64
_MORE = 8  # minimum number of extra vectors in the block
_SAFE = (1e-12, 1e12)  # the largest element of a matrix whose products neither overflow nor vanish


class SVDCacheInfo(NamedTuple):
    """Statistics of the cache of compiled iterations."""

    hits: int
    misses: int
    traces: int  # of the Python function: one per miss
    maxsize: int
    currsize: int


class _Programs:
    """LRU cache of compiled iterations."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Clear the cache."""
        with self.lock:
            self.found: OrderedDict[tuple[Any, ...], Callable[..., Any]] = OrderedDict()
            self.hits = self.misses = self.traces = 0

    def get(self, key: tuple[Any, ...]) -> Callable[..., Any]:
        """The compiled form of the function in the last element of the key."""
        with self.lock:
            program = self.found.get(key)
            if program is not None:
                self.hits += 1
                self.found.move_to_end(key)
                return program

            def counted(*arrays: mx.array) -> Any:
                self.traces += 1
                return key[-1](*arrays)

            self.misses += 1
            program = self.found[key] = mx.compile(counted)
            if len(self.found) > MAX_PROGRAMS:
                self.found.popitem(last=False)
            return program


_programs = _Programs()


def cache_info() -> SVDCacheInfo:
    """Hits, misses and size of the cache of compiled iterations."""
    made = _programs
    return SVDCacheInfo(made.hits, made.misses, made.traces, MAX_PROGRAMS, len(made.found))


def cache_clear() -> None:
    """Forget all compiled iterations and reset the counters."""
    _programs.clear()


def topk_svd(
    A: Any,
    k: int,
    iters: int = 8,
    use_kernel: bool = False,
    use_compile: bool = True,
    seed: int | None = None,
    band_size: int | None = None,
) -> tuple[mx.array, mx.array, mx.array]:
    """The `k` largest singular values of a matrix, with their singular vectors.

    Args:
        A: A matrix of float32 or float64, of any shape: an array, or what `mx.array` takes. Half
            types are computed as float32.
        k: How many singular values: from 1 up to the smaller side of the matrix.
        iters: How often the block of vectors is multiplied by A and its transpose. The more
            alike the singular values next to the last one are, the more iterations they take.
        use_kernel: Whether to compute the products by A and its transpose together, a band of
            rows at a time, so that a matrix larger than the caches is read once and not twice.
        use_compile: Whether to run as one compiled function, which decomposes large matrices by
            products of matrices. Without, it runs op by op with LAPACK's decompositions, which all
            transforms can follow.
        seed: Of the random vectors that the iteration starts from, 0 or more. Without one they are
            always the same: equal matrices give equal results.
        band_size: The number of rows of a band; by default, what fits a cache. Without
            `use_kernel` there are no bands.

    Returns:
        U of shape (m, k) with orthonormal columns, S of shape (k) in descending order, and Vt of
        shape (k, n) with orthonormal rows: `(U * S) @ Vt` approximates A.
    """
    matrix = _checked_matrix(A)
    count = _checked_int("k", k, 1, min(matrix.shape))
    steps = _checked_int("iters", iters, 1)
    band = None if band_size is None else _checked_int("band_size", band_size, 1)
    start = _random_start(min(matrix.shape), count, matrix.dtype, seed)
    traced = _native.recording() or matrix._node.tracer
    quick = bool(use_compile) and not matrix._node.tracer
    iteration = _Iteration(count, steps, bool(use_kernel), band if use_kernel else None, quick)
    if traced:
        return iteration(matrix, start)
    scale = _scale(matrix)
    if scale != 1:
        matrix = matrix * scale
    run: Callable[..., Any] = iteration
    if use_compile:
        run = _programs.get((matrix.shape, matrix.dtype, mx.default_device(), iteration))
    U, S, Vt = run(matrix, start)
    if scale != 1:
        S = S / scale
    mx.eval(U, S, Vt)
    return U, S, Vt


@dataclass(frozen=True)
class _Iteration:
    """The computation, with all that it depends on besides arrays."""

    k: int
    steps: int
    use_kernel: bool
    band_size: int | None
    quick: bool  # whether to decompose large matrices by products of matrices

    def __call__(self, a: mx.array, start: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        if a.shape[0] >= a.shape[1]:
            return self.decompose(a, start)
        left, values, right = self.decompose(a.T, start)
        return right.T, values, left.T

    def decompose(self, a: mx.array, start: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        """The decomposition of a matrix with at least as many rows as columns."""
        basis = self.basis(a, start)
        image = a @ basis
        if self.by_products(image) and a.dtype is mx.float32:
            return ritz_vectors(image, basis, self.k)
        q, r = self.qr(image)
        left, values, right = mx.linalg.svd(r)
        return q @ left[:, : self.k], values[: self.k], right[: self.k] @ basis.T

    def basis(self, a: mx.array, block: mx.array) -> mx.array:
        """An orthonormal basis whose span nearly contains the singular vectors."""
        if 2 * block.shape[1] > a.shape[1]:
            return mx.eye(a.shape[1], dtype=a.dtype)  # the whole space, at hardly more cost
        shift = mx.array(0, a.dtype)
        for _ in range(self.steps):
            before = block
            block, r = self.qr(self.product(a, block) - shift * block)
            smallest = mx.min(mx.abs(mx.diagonal(r)))
            shift = mx.maximum(shift, (shift + smallest) / 2)
        # What the previous block adds; its columns need not be orthonormal for this.
        rest = before - block @ (block.T @ before)
        return self.qr(mx.concatenate([block, rest], 1))[0]

    def product(self, a: mx.array, block: mx.array) -> mx.array:
        if self.use_kernel:
            return two_sided_product(a, block, self.band_size)
        return a.T @ (a @ block)

    def qr(self, x: mx.array) -> tuple[mx.array, mx.array]:
        return tall_qr(x) if self.by_products(x) else mx.linalg.qr(x)

    def by_products(self, x: mx.array) -> bool:
        """Whether to decompose a tall matrix by products of matrices instead of by LAPACK."""
        return self.quick and x.size >= MIN_ELEMENTS_BY_PRODUCTS


def _random_start(length: int, k: int, dtype: mx.Dtype, seed: Any) -> mx.array:
    """More than `k` random columns of length about 1."""
    width = min(length, k + max(_MORE, k // 4))
    wide = dtype is mx.float64
    numbers = np.random.default_rng(0 if seed is None else _checked_int("seed", seed, 0)).random(
        (length, width), np.float64 if wide else np.float32
    )
    numbers -= 0.5
    numbers *= math.sqrt(12 / length)
    return mx.array(numbers, dtype)


def _checked_matrix(value: Any) -> mx.array:
    x = value if isinstance(value, mx.array) else mx.array(value)
    if x.ndim != 2:
        raise ValueError(
            f"[topk_svd] takes a matrix, an array with two axes, got shape {shape_text(x.shape)}."
        )
    if x.size == 0:
        raise ValueError(f"[topk_svd] a matrix of shape {shape_text(x.shape)} has no elements.")
    if x.dtype in (mx.float16, mx.bfloat16):
        return x.astype(mx.float32)
    if x.dtype not in (mx.float32, mx.float64):
        raise ValueError(
            f"[topk_svd] takes a matrix of float32 or float64, got {x.dtype}: convert it with "
            "astype(mx.float32) first."
        )
    return x


def _checked_int(name: str, value: Any, least: int, most: int | None = None) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"[topk_svd] {name} must be an int, got {type_name(value)}.") from None
    if number < least:
        raise ValueError(f"[topk_svd] {name} must be {least} or more, got {number}.")
    if most is not None and number > most:
        raise ValueError(
            f"[topk_svd] {name} must not exceed {most}, the smaller side of the matrix, got "
            f"{number}."
        )
    return number


def _scale(matrix: mx.array) -> float:
    """A power of two, usually 1, by which to scale a matrix so that its products neither overflow
    nor underflow.
    """
    largest = mx.max(mx.abs(matrix)).item()
    if not math.isfinite(largest):
        raise ValueError("[topk_svd] takes finite numbers, got some that are NaN or infinite.")
    if largest == 0 or _SAFE[0] < largest < _SAFE[1]:
        return 1.0
    return 2.0 ** -math.frexp(largest)[1]
