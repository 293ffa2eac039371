"""faiss as the oracle of searches: the same index there, and results compared up to ties."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # its bindings use what newer Pythons deprecate
    import faiss

__all__ = ["assert_same_neighbours", "exact_distances", "faiss", "faiss_index"]


def faiss_index(d: int, metric: str) -> Any:
    """An empty flat index; for cosines, vectors and queries must be given with length 1."""
    numbers = {
        "l2": faiss.METRIC_L2,
        "inner_product": faiss.METRIC_INNER_PRODUCT,
        "cosine": faiss.METRIC_INNER_PRODUCT,
        "l1": faiss.METRIC_L1,
        "linf": faiss.METRIC_Linf,
    }
    return faiss.IndexFlat(d, numbers[metric])


def exact_distances(queries: np.ndarray, vectors: np.ndarray, metric: str) -> np.ndarray:
    """The distances of all pairs in float64."""
    x, y = queries.astype(np.float64), vectors.astype(np.float64)
    if metric == "inner_product":
        return x @ y.T
    if metric == "cosine":
        lengths = np.linalg.norm(x, axis=1)[:, None] * np.linalg.norm(y, axis=1)
        return np.where(lengths == 0, 0, x @ y.T / np.where(lengths == 0, 1, lengths))
    rows = []
    for row in x:
        difference = np.abs(y - row)
        if metric == "l2":
            rows.append((difference**2).sum(1))
        else:
            rows.append(difference.sum(1) if metric == "l1" else difference.max(1, initial=0))
    return np.array(rows).reshape(len(x), len(y))


def assert_same_neighbours(
    found: tuple[Any, Any], expected: tuple[Any, Any], rtol: float = 1e-4, atol: float = 1e-5
) -> None:
    """The same distances, and the same ids except where distances are too near to tell."""
    distances, ids = (np.array(x) for x in found)
    other_distances, other_ids = (np.asarray(x) for x in expected)
    assert distances.dtype == np.float32
    assert ids.dtype == np.int64
    empty = other_ids == -1
    np.testing.assert_array_equal(ids == -1, empty)
    np.testing.assert_array_equal(np.isinf(distances), empty)
    np.testing.assert_allclose(distances[~empty], other_distances[~empty], rtol=rtol, atol=atol)
    for row, (one, other) in enumerate(zip(ids, other_ids, strict=True)):
        for id_only_here in set(one.tolist()) - set(other.tolist()):
            # Only a vector that is as far as the last one can be missing there.
            last = other_distances[row][~empty[row]][-1]
            here = distances[row][one == id_only_here]
            np.testing.assert_allclose(here, last, rtol=rtol, atol=atol)
