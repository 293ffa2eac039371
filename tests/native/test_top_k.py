"""The native search: against NumPy, at the edges of memory, and refusing what does not fit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from ingot import _native
from ingot.search.nearest_evaluation import METRICS, SIMILARITIES, distances_of


def searched(x: np.ndarray, y: np.ndarray, count: int, metric: str, k: int) -> Any:
    distances, positions = np.empty((len(x), k), np.float32), np.empty((len(x), k), np.int64)
    _native.nearest_rows(x, y, count, METRICS.index(metric), distances, positions)
    return distances, positions


@pytest.mark.parametrize("metric", METRICS)
def test_small_searches(metric: str) -> None:
    random = np.random.default_rng(0)
    sign = -1 if metric in SIMILARITIES else 1
    # Panels of queries and steps of rows that are full, begun, and more than one.
    for queries, rows, d, k in product((1, 5, 11, 17, 52), (0, 1, 70, 600), (1, 16, 19), (1, 30)):
        # Arrays of their own, so that reading behind their ends is noticed by a sanitizer.
        x, y = (random.standard_normal((n, d), np.float32) for n in (queries, rows))
        count = rows - rows // 3
        keys = sign * distances_of(x.astype(float), y[:count].astype(float), metric)
        distances, positions = searched(x, y, count, metric, k)
        there = min(count, k)
        best = np.sort(keys, 1)[:, :k] * sign
        np.testing.assert_allclose(distances[:, :there], best, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(positions[:, there:], -1)
        chosen = np.take_along_axis(keys, positions[:, :there], 1) * sign
        np.testing.assert_allclose(chosen, best, rtol=1e-4, atol=1e-5)
        for row in positions[:, :there]:
            assert len(set(row.tolist())) == there


@pytest.mark.parametrize("metric", METRICS)
def test_rows_within_a_radius(metric: str) -> None:
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((n, 9), np.float32) for n in (20, 300))
    every = distances_of(x.astype(float), y.astype(float), metric)
    radius = float(np.median(every))
    parts = _native.rows_within(x, y, 300, METRICS.index(metric), radius)
    limits, positions = np.frombuffer(parts[0], np.int64), np.frombuffer(parts[2], np.int64)
    near = every > radius if metric in SIMILARITIES else every < radius
    for query, row in enumerate(near):
        found = positions[limits[query] : limits[query + 1]]
        np.testing.assert_array_equal(found, np.flatnonzero(row))


@pytest.mark.parametrize("metric", METRICS)
def test_no_row_is_within_nothing(metric: str) -> None:
    x, y = np.ones((20, 9), np.float32), np.ones((30, 9), np.float32)
    nowhere = np.inf if metric in SIMILARITIES else -np.inf
    for radius in (nowhere, np.nan):
        limits, distances, positions = _native.rows_within(x, y, 30, METRICS.index(metric), radius)
        assert not any(limits)
        assert (len(distances), len(positions)) == (0, 0)


def test_what_does_not_fit_is_refused() -> None:
    x, y = np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32)
    out = np.zeros((2, 1), np.float32), np.zeros((2, 1), np.int64)
    wrong: list[tuple[Any, ...]] = [
        (x[:, :2].copy(), y, 4, 0, *out),
        (x, y, 5, 0, *out),
        (x, y, -1, 0, *out),
        (x, y, 4, 5, *out),
        (x[0], y, 4, 0, *out),
        (x.astype(np.float64), y, 4, 0, *out),
        (x, y[:, ::2], 4, 0, *out),
        (x[:1], y, 4, 0, *out),
        (x, y, 4, 0, out[0], out[1].astype(np.int32)),
    ]
    for arguments in wrong:
        with pytest.raises(ValueError, match=r"."):
            _native.nearest_rows(*arguments)
    frozen = out[0].copy()
    frozen.setflags(write=False)
    with pytest.raises((ValueError, BufferError)):
        _native.nearest_rows(x, y, 4, 0, frozen, out[1])
    with pytest.raises(TypeError):
        _native.nearest_rows(x, y)
