"""k-means: trains the centroids of codebooks and coarse quantizers.

Vectors come in stacks, each with its own centroids, so that a product quantizer trains all of its
codebooks at once. One iteration is one compiled function: it finds the nearest centroid of every
vector and sums the vectors per centroid. As in faiss, training uses a random sample if there are
very many vectors, and a centroid without vectors takes half of another cluster: here of the one
with the largest error.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import numpy as np

import ingot.core as mx
from ingot.graph.libraries import rich_library
from ingot.graph.numerics.blas import matrix_product
from ingot.search.metrics import MetricType

__all__ = ["nearest_centroid", "train_centroids", "unit_vectors"]

MAX_PER_CENTROID = 256  # vectors that training uses
LEAST_PER_CENTROID = 39  # below this many vectors, centroids generalise poorly
_SIMILARITIES = 1 << 20  # vector-centroid similarities computed at a time
_APART = 1 / 1024  # relative difference between the halves of a split cluster


def train_centroids(
    name: str,
    stacks: np.ndarray,
    k: int,
    *,
    iterations: int = 25,
    seed: int = 1234,
    metric: MetricType = MetricType.L2,
    progress: bool | None = None,
) -> np.ndarray:
    """Centroids (stacks, k, d) of the vectors of each stack.

    Args:
        name: What is trained, for messages and the progress bar.
        stacks: float32 vectors (stacks, number, d).
        k: How many centroids.
        iterations: How often centroids are moved.
        seed: Which vectors the centroids begin with.
        metric: With inner products, centroids have length 1.
        progress: Whether to show a progress bar; by default on terminals.
    """
    count = stacks.shape[1]
    if count < k:
        raise ValueError(
            f"[train] {name} needs at least {k} training vectors, as many as centroids, got "
            f"{count}."
        )
    if count < LEAST_PER_CENTROID * k:
        warnings.warn(
            f"[train] {name}: {count} training vectors are few for {k} centroids; "
            f"{LEAST_PER_CENTROID * k} or more are better.",
            stacklevel=4,
        )
    chance = np.random.default_rng(seed)
    order = chance.permutation(count)[: MAX_PER_CENTROID * k]
    vectors = np.ascontiguousarray(stacks[:, order])
    centroids = vectors[:, :k].copy()
    if count == k:
        return centroids
    spherical = metric.is_similarity
    if spherical:
        centroids = unit_vectors(centroids)
    with _shown(name, iterations, progress) as advance:
        for _ in range(iterations):
            sums, counts, errors = _totals(vectors, centroids, metric)
            centroids = _moved(sums, counts, counts if spherical else errors, centroids)
            if spherical:
                centroids = unit_vectors(centroids)
            advance(float(errors.sum()) / (len(vectors) * vectors.shape[1]))
    return centroids


def _totals(
    vectors: np.ndarray, centroids: np.ndarray, metric: MetricType
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sum and number of the vectors nearest to each centroid, and the sum of their
    distances.
    """
    sums = np.zeros(centroids.shape)
    counts, errors = np.zeros(centroids.shape[:2]), np.zeros(centroids.shape[:2])
    given = mx.array(centroids)
    for chunk in _chunks(vectors.shape[1], centroids.size // centroids.shape[2]):
        some = mx.array(np.ascontiguousarray(vectors[:, chunk]))
        step = _compiled_step()(some, given, metric.value)
        sums += np.array(step[0])
        counts += np.array(step[1])
        errors += np.array(step[2])
    return sums, counts, errors


def _chunks(count: int, centroids: int) -> Iterator[slice]:
    """Slices of vectors whose similarities to all centroids fit in a few megabytes."""
    length = max(1, _SIMILARITIES // centroids)
    for start in range(0, count, length):
        yield slice(start, min(count, start + length))


@cache
def _compiled_step() -> Callable[..., tuple[mx.array, ...]]:
    return mx.compile(_step)  # compiled lazily: it loads the compiler


def _step(vectors: mx.array, centroids: mx.array, metric: str) -> tuple[mx.array, ...]:
    """The sum and number of the vectors nearest to each centroid, and the sum of their distances.

    All similarities are computed at once: with so few centroids, selecting per row would take
    longer.
    """
    stacks, _, d = vectors.shape
    k = centroids.shape[1]
    similarities = vectors @ centroids.mT
    if metric != MetricType.INNER_PRODUCT.value:
        similarities = similarities - 0.5 * mx.sum(mx.square(centroids), -1)[..., None, :]
    distances = mx.max(similarities, -1)
    if metric != MetricType.INNER_PRODUCT.value:
        distances = mx.maximum(mx.sum(mx.square(vectors), -1) - 2 * distances, 0)
    indices = (
        mx.argmax(similarities, -1).astype(mx.int32)
        + mx.arange(stacks, dtype=mx.int32)[:, None] * k
    )
    indices = indices.reshape(-1)
    sums = mx.zeros((stacks * k, d)).at[indices].add(vectors.reshape(-1, d))
    counts = mx.zeros((stacks * k,)).at[indices].add(mx.ones(indices.shape))
    errors = mx.zeros((stacks * k,)).at[indices].add(distances.reshape(-1))
    return sums.reshape(stacks, k, d), counts.reshape(stacks, k), errors.reshape(stacks, k)


def _moved(
    sums: np.ndarray, counts: np.ndarray, weights: np.ndarray, centroids: np.ndarray
) -> np.ndarray:
    """The means of clusters; an empty cluster takes half of the one with the largest error."""
    filled = counts > 0
    means = np.divide(
        sums, counts[..., None], out=centroids.astype(np.float64), where=filled[..., None]
    )
    weights = weights.copy()
    for stack, empty in zip(*np.nonzero(~filled), strict=True):
        heaviest = int(weights[stack].argmax())
        signs = np.where(np.arange(means.shape[2]) % 2 == 0, _APART, -_APART)
        means[stack, empty] = means[stack, heaviest] * (1 + signs)
        means[stack, heaviest] *= 1 - signs
        weights[stack, empty] = weights[stack, heaviest] / 2
        weights[stack, heaviest] /= 2
    return means.astype(np.float32)


def nearest_centroid(stacks: np.ndarray, centroids: np.ndarray, metric: MetricType) -> np.ndarray:
    """The indices (stacks, vectors) of the nearest centroids.

    Not compiled: every number of vectors would be a new signature.
    """
    found = np.empty(stacks.shape[:2], np.int64)
    halves = 0.5 * np.einsum("skd,skd->sk", centroids, centroids)[:, None]
    for chunk in _chunks(stacks.shape[1], centroids.size // centroids.shape[2]):
        similarities = matrix_product(stacks[:, chunk], centroids.transpose(0, 2, 1))
        if metric is not MetricType.INNER_PRODUCT:
            similarities -= halves
        found[:, chunk] = similarities.argmax(-1)
    return found


def unit_vectors(vectors: np.ndarray) -> np.ndarray:
    """Vectors scaled to length 1; zero vectors stay zero."""
    lengths = np.sqrt(np.einsum("...d,...d->...", vectors, vectors, dtype=np.float64))[..., None]
    scaled = np.divide(vectors, lengths, out=np.zeros(vectors.shape), where=lengths > 0)
    return scaled.astype(np.float32)


class _Advance(Protocol):
    def __call__(self, error: float, /) -> None: ...


@contextmanager
def _shown(name: str, iterations: int, progress: bool | None) -> Iterator[_Advance]:
    """Show the progress of training: a bar if rich is installed, otherwise lines on request."""
    rich: Any = None
    if progress or (progress is None and sys.stderr.isatty()):
        rich = rich_library()
    if rich is not None:
        columns = rich.progress.Progress.get_default_columns()
        column = rich.progress.TextColumn("mean distance {task.fields[error]:.4g}")
        console = rich.console.Console(stderr=True)
        with rich.progress.Progress(*columns, column, console=console) as bar:
            task = bar.add_task(f"training {name}", total=iterations, error=float("nan"))
            yield lambda error: bar.update(task, advance=1, error=error)
        return
    done = 0

    def told(error: float) -> None:
        nonlocal done
        done += 1
        if progress:
            line = f"training {name}: {done} of {iterations}, mean distance {error:.4g}"
            print(line, file=sys.stderr)

    yield told
