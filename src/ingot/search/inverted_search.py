"""Search in inverted lists: which vectors of the lists that are probed are nearest to each query.

Queries that probe the same list are compared with it together, so each list is decoded once and
compared by one native call that selects while it compares. What every query found in each of its
lists is put together at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ingot.ops.nearest_evaluation import nearest_rows, rows_within
from ingot.search.inverted_lists import Lists
from ingot.search.metrics import MetricType

__all__ = ["search_lists", "search_lists_within"]

# (number of the list, codes) -> vectors
Decode = Callable[[int, np.ndarray], np.ndarray]

_ROWS = 1 << 14  # codes that are decoded at once
_CANDIDATES = 1 << 21  # distances that are kept at once until they are put together


def search_lists(
    queries: np.ndarray,
    probes: np.ndarray,
    lists: Lists,
    decode: Decode,
    k: int,
    metric: MetricType,
) -> tuple[np.ndarray, np.ndarray]:
    """Distances and ids (queries, k) of the nearest vectors in lists.

    Args:
        queries: float32 vectors (queries, d).
        probes: For each query the numbers of the lists to look at.
        lists: All lists.
        decode: Makes vectors of codes.
        k: How many vectors to find.
        metric: The metric.
    """
    distances = np.empty((len(queries), k), np.float32)
    ids = np.empty((len(queries), k), np.int64)
    at_once = max(1, _CANDIDATES // (k * probes.shape[1]))
    for start in range(0, len(queries), at_once):
        part = slice(start, start + at_once)
        found = _candidates(queries[part], probes[part], lists, decode, k, metric)
        distances[part], ids[part] = _best(*found, k, metric)
    return distances, ids


def _candidates(
    queries: np.ndarray,
    probes: np.ndarray,
    lists: Lists,
    decode: Decode,
    k: int,
    metric: MetricType,
) -> tuple[np.ndarray, np.ndarray]:
    """What each query finds in each of its lists, (queries, probes * k)."""
    count = probes.size
    distances = np.full((count, k), _nothing(metric), np.float32)
    ids = np.full((count, k), -1, np.int64)
    for number, places in _by_list(probes):
        given = queries[places // probes.shape[1]]
        for begin, vectors in _blocks(number, lists, decode):
            # No more than there are: the rest is empty anyhow.
            width = min(k, len(vectors))
            found = np.empty((len(places), width), np.float32)
            rows = np.empty((len(places), width), np.int64)
            nearest_rows(given, vectors, len(vectors), metric.value, found, rows)
            named = np.where(rows < 0, -1, lists.ids[begin + rows])
            if begin == lists.limits[number]:
                distances[places, :width], ids[places, :width] = found, named
                continue
            both = np.concatenate([distances[places], found], 1)
            names = np.concatenate([ids[places], named], 1)
            distances[places], ids[places] = _best(both, names, k, metric)
    shape = (len(queries), probes.shape[1] * k)
    return distances.reshape(shape), ids.reshape(shape)


def search_lists_within(
    queries: np.ndarray,
    probes: np.ndarray,
    lists: Lists,
    decode: Decode,
    radius: float,
    metric: MetricType,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limits, distances and ids of all vectors in lists that are nearer to a query than `radius`.

    The arguments are those of `search_lists`; the results those of `FlatIndex.range_search`.
    """
    owners = [np.empty(0, np.int64)]
    distances = [np.empty(0, np.float32)]
    ids = [np.empty(0, np.int64)]
    for number, places in _by_list(probes):
        rows = places // probes.shape[1]
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
    """Each list that is probed, and the places in `probes`, all rows as one, where it is named."""
    named = probes.reshape(-1)
    order = np.argsort(named, kind="stable")
    numbers, first = np.unique(named[order], return_index=True)
    for number, places in zip(numbers.tolist(), np.split(order, first[1:]), strict=True):
        if number >= 0:
            yield number, places


def _blocks(number: int, lists: Lists, decode: Decode) -> Iterator[tuple[int, np.ndarray]]:
    """The vectors of a list, some at a time, and where they begin in the lists' arrays."""
    begin, end = lists.limits[number : number + 2].tolist()
    for start in range(begin, end, _ROWS):
        yield start, decode(number, lists.codes[start : min(end, start + _ROWS)])


def _best(
    distances: np.ndarray, ids: np.ndarray, k: int, metric: MetricType
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest `k` of each row, the nearest first."""
    keys = -distances if metric.is_similarity else distances
    if distances.shape[1] > 4 * k:
        some = np.argpartition(keys, k - 1, 1)[:, :k]
        some.sort(1)  # of equally near ones, the first
        keys, distances, ids = (np.take_along_axis(x, some, 1) for x in (keys, distances, ids))
    order = np.argsort(keys, 1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(ids, order, 1)


def _nothing(metric: MetricType) -> float:
    """The distance where there is no vector."""
    return -np.inf if metric.is_similarity else np.inf
