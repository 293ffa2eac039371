"""How the nearest rows are found, in NumPy: blocks of the database, of which the best rows stay."""

from __future__ import annotations

import numpy as np

__all__ = ["distances_of", "nearest_rows", "rows_within"]

SIMILARITIES = ("inner_product", "cosine")

# Differences of queries and rows that exist at once: 8 MB of float64.
_BLOCK = 1 << 20


def nearest_rows(
    queries: np.ndarray,
    database: np.ndarray,
    count: int,
    metric: str,
    out: tuple[np.ndarray, np.ndarray],
) -> None:
    """Writes distances and positions of the nearest of the first `count` rows, (queries, k) each.

    Equal distances come in the order of rows; -1 stands for rows that are not there.
    """
    distances, positions = out
    k = distances.shape[-1]
    sign = -1 if metric in SIMILARITIES else 1
    length = max(1, _BLOCK // max(1, queries.size))
    keys = np.full((len(queries), k), np.inf, queries.dtype)
    rows = np.full((len(queries), k), -1, np.int64)
    for start in range(0, count, length):
        block = database[start : min(start + length, count)]
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


def rows_within(
    queries: np.ndarray, database: np.ndarray, radius: float, metric: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The rows whose distance is less than `radius` (whose similarity is more), query by query.

    Limits (queries + 1), distances and positions: those of query i are from limits[i] to before
    limits[i + 1].
    """
    length = max(1, _BLOCK // max(1, queries.size))
    found: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in queries]
    for start in range(0, len(database), length):
        block = distances_of(queries, database[start : start + length], metric)
        near = block > radius if metric in SIMILARITIES else block < radius
        for number, row in enumerate(near):
            places = np.flatnonzero(row)
            found[number].append((block[number, places], places + start))
    limits = np.zeros(len(queries) + 1, np.int64)
    for number, parts in enumerate(found):
        limits[number + 1] = limits[number] + sum(len(places) for _, places in parts)
    parts = [part for parts in found for part in parts]
    distances = np.concatenate([np.empty(0, queries.dtype), *(part for part, _ in parts)])
    positions = np.concatenate([np.empty(0, np.int64), *(part for _, part in parts)])
    return limits, distances, positions


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
