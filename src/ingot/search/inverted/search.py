"""Search in inverted lists: the vectors of the probed lists that are nearest to each query.

Native code finds the nearest by reading codes in place. Where many queries probe one list of scalar
codes, and for range searches, codes are decoded once for all queries that are compared with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ingot import _native
from ingot.search.inverted.codes import NO_TABLE, CodeFormat, CodeKind
from ingot.search.inverted.lists import Lists
from ingot.search.metrics import MetricType
from ingot.search.nearest_evaluation import METRICS, nearest_rows, rows_within

__all__ = ["search_decoded", "search_lists", "search_lists_within", "worth_decoding"]

# (index of the list, codes) -> vectors
Decode = Callable[[int, np.ndarray], np.ndarray]

_ROWS = 1 << 14  # codes decoded at a time
_WORTH_DECODING = 32  # queries that probe the same list


def search_lists(
    queries: np.ndarray,
    probes: np.ndarray,
    lists: Lists,
    code_format: CodeFormat,
    centroids: np.ndarray | None,
    k: int,
    metric: MetricType,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids (queries, k) of the nearest vectors in lists.

    Args:
        queries: float32 vectors (queries, d).
        probes: For each query the indices of the lists to probe, -1 for none.
        lists: All lists.
        code_format: How codes are read.
        centroids: The centroids of the lists, if codes are of residuals.
        k: How many vectors to find.
        metric: The metric.
    """
    distances = np.empty((len(queries), k), np.float32)
    positions = np.empty((len(queries), k), np.int64)
    _native.nearest_in_lists(
        queries,
        probes,
        lists.codes,
        lists.limits[None],
        *code_format,
        NO_TABLE if centroids is None else centroids,
        METRICS.index(metric.value),
        distances,
        positions,
    )
    if len(lists.ids) == 0:
        return distances, positions
    return distances, np.where(positions < 0, -1, lists.ids[positions])


def search_decoded(
    queries: np.ndarray, lists: Lists, decode: Decode, k: int, metric: MetricType
) -> tuple[np.ndarray, np.ndarray]:
    """Same as `search_lists`, for queries that all scan the only list."""
    sign = -1 if metric.is_similarity else 1
    keys = np.full((len(queries), k), np.inf, np.float32)
    ids = np.full((len(queries), k), -1, np.int64)
    for begin, vectors in _blocks(0, lists, decode):
        width = min(k, len(vectors))
        found = np.empty((len(queries), width), np.float32)
        rows = np.empty((len(queries), width), np.int64)
        nearest_rows(queries, vectors, len(vectors), metric.value, found, rows)
        both = np.concatenate([keys, sign * found], 1)
        names = np.concatenate([ids, np.where(rows < 0, -1, lists.ids[begin + rows])], 1)
        order = np.argsort(both, 1, kind="stable")[:, :k]
        keys, ids = (np.take_along_axis(x, order, 1) for x in (both, names))
    return sign * keys, ids


def worth_decoding(code_format: CodeFormat, queries: int, list_count: int) -> bool:
    """Whether decoding all codes once is faster than reading them for each query."""
    scalar = code_format.kind not in (CodeKind.FLOAT32, CodeKind.PARTS)
    return scalar and list_count == 1 and queries >= _WORTH_DECODING


def search_lists_within(
    queries: np.ndarray,
    probes: np.ndarray,
    lists: Lists,
    decode: Decode,
    radius: float,
    metric: MetricType,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits, distances and ids of all vectors in lists that are nearer to a query than `radius`.

    `decode` makes vectors of codes. The other arguments are those of `search_lists`, the results
    those of `FlatIndex.range_search`.
    """
    owners = [np.empty(0, np.int64)]
    distances = [np.empty(0, np.float32)]
    ids = [np.empty(0, np.int64)]
    for number, indices in _by_list(probes):
        rows = indices // probes.shape[1]
        for begin, vectors in _blocks(number, lists, decode):
            limits, found, positions = rows_within(queries[rows], vectors, radius, metric.value)
            owners.append(np.repeat(rows, np.diff(limits)))
            distances.append(found)
            ids.append(lists.ids[begin + positions])
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")
    all_limits = np.searchsorted(owner[order], np.arange(len(queries) + 1))
    return all_limits, np.concatenate(distances)[order], np.concatenate(ids)[order]


def _by_list(probes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Each probed list, and the indices into the flattened `probes` that name it."""
    named = probes.reshape(-1)
    order = np.argsort(named, kind="stable")
    numbers, first = np.unique(named[order], return_index=True)
    for number, indices in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
        if number >= 0:
            yield number, indices


def _blocks(number: int, lists: Lists, decode: Decode) -> Iterator[tuple[int, np.ndarray]]:
    """The vectors of a list, block by block, with their offset in the lists' arrays."""
    begin, end = lists.limits[number : number + 2].tolist()
    for start in range(begin, end, _ROWS):
        yield start, decode(number, lists.codes[start : min(end, start + _ROWS)])
