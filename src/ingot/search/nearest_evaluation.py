"""Evaluation of nearest-row searches: float32 by native code, float64 in NumPy.

Both compare all rows without ever storing the distances of all pairs. `_native/search/top_k.c`
documents its method; for float64, the code here goes through the database in blocks and keeps the
best rows.
"""

from __future__ import annotations

import numpy as np

from ingot import _native

__all__ = ["METRICS", "SIMILARITIES", "distances_of", "nearest_rows", "rows_within"]

# Numbered as in _native/search/distances.h.
METRICS = ("l2", "l1", "linf", "inner_product", "cosine")
SIMILARITIES = METRICS[3:]  # larger is nearer

# Query-row differences that exist at a time: 8 MB of float64.
_BLOCK = 1 << 20


def nearest_rows(
    queries: np.ndarray,
    database: np.ndarray,
    count: int,
    metric: str,
    distances: np.ndarray,
    positions: np.ndarray,
) -> None:
    """Write distances and positions of the nearest of the first `count` rows, (queries, k) each.

    Ties are in row-major order; missing rows are -1.
    """
    if queries.dtype == np.float64:
        _nearest_in_numpy(queries, database[:count], metric, distances, positions)
        return
    _native.nearest_rows(
        np.ascontiguousarray(queries),
        np.ascontiguousarray(database),
        count,
        METRICS.index(metric),
        distances,
        positions,
    )


def rows_within(
    queries: np.ndarray, database: np.ndarray, radius: float, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows whose distance is less than `radius` (whose similarity is more), query by query.

    Queries and database are float32. Limits (queries + 1), distances and positions: those of query
    i are from limits[i] to limits[i + 1] - 1, in the order of rows.
    """
    limits, distances, positions = _native.rows_within(
        np.ascontiguousarray(queries),
        np.ascontiguousarray(database),
        len(database),
        METRICS.index(metric),
        radius,
    )
    return (
        np.frombuffer(limits, np.int64),
        np.frombuffer(distances, np.float32),
        np.frombuffer(positions, np.int64),
    )


def _nearest_in_numpy(
    queries: np.ndarray,
    database: np.ndarray,
    metric: str,
    distances: np.ndarray,
    positions: np.ndarray,
) -> None:
    k = distances.shape[-1]
    sign = -1 if metric in SIMILARITIES else 1
    length = max(1, _BLOCK // max(1, queries.size))
    keys = np.full((len(queries), k), np.inf)
    rows = np.full((len(queries), k), -1, np.int64)
    for start in range(0, len(database), length):
        block = database[start : start + length]
        found = sign * distances_of(queries, block, metric)
        found[~np.isfinite(found)] = np.inf
        numbers = np.broadcast_to(np.arange(start, start + len(block)), found.shape)
        keys = np.concatenate([keys, found], 1)
        rows = np.concatenate([rows, numbers], 1)
        order = np.argsort(keys, 1, kind="stable")[:, :k]
        keys, rows = (np.take_along_axis(x, order, 1) for x in (keys, rows))
    rows[np.isinf(keys)] = -1
    distances[...] = sign * keys
    positions[...] = rows


def distances_of(queries: np.ndarray, rows: np.ndarray, metric: str) -> np.ndarray:
    """The distances, or similarities, of each query to each row."""
    if metric == "inner_product":
        return queries @ rows.T
    if metric == "cosine":
        lengths = np.sqrt(np.sum(queries**2, -1))[:, None] * np.sqrt(np.sum(rows**2, -1))
        products = queries @ rows.T
        return np.divide(products, lengths, out=np.zeros_like(products), where=lengths != 0)
    differences = queries[:, None] - rows
    if metric == "l2":
        return np.sum(differences**2, -1)
    if metric == "l1":
        return np.sum(np.abs(differences), -1)
    return np.max(np.abs(differences), -1, initial=0)
