"""The native search in inverted lists: against NumPy on decoded vectors, and refusing what does not
fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ingot import _native
from ingot.search.inverted.codes import NO_TABLE, CodeFormat, CodeKind
from ingot.search.nearest_evaluation import METRICS

RANDOM = np.random.default_rng(0)


def coded(kind: CodeKind, rows: int, d: int) -> tuple[CodeFormat, np.ndarray, np.ndarray]:
    """A format, random codes, and the vectors that they stand for in float64."""
    origins, steps = RANDOM.standard_normal((2, 1, d), np.float32)
    if kind is CodeKind.FLOAT32:
        codes = RANDOM.standard_normal((rows, d), np.float32)
        return CodeFormat(kind), codes, codes.astype(np.float64)
    if kind is CodeKind.PARTS:
        entries, parts = 16, next(m for m in (5, 3, 1) if d % m == 0)
        codebooks = RANDOM.standard_normal((d, entries), np.float32)
        codes = RANDOM.integers(0, entries, (rows, parts)).astype(np.uint8)
        vectors = codebooks[np.arange(d), codes.repeat(d // parts, 1)]
        return CodeFormat(kind, codebooks=codebooks), codes, vectors.astype(np.float64)
    if kind is CodeKind.FLOAT16:
        codes = RANDOM.standard_normal((rows, d)).astype(np.float16)
        codes[:, 0] = 3e-7  # below what is normal in half precision
        numbers = codes.astype(np.float64)
    elif kind is CodeKind.EIGHT_BITS:
        codes = RANDOM.integers(0, 256, (rows, d)).astype(np.uint8)
        numbers = codes.astype(np.float64)
    else:
        codes = RANDOM.integers(0, 256, (rows, (d + 1) // 2)).astype(np.uint8)
        pairs = np.stack([codes & 15, codes >> 4], 2).reshape(rows, -1)
        numbers = pairs[:, :d].astype(np.float64)
    return CodeFormat(kind, origins, steps), codes, origins + steps * numbers


def searched(
    queries: np.ndarray,
    probes: np.ndarray,
    codes: np.ndarray,
    limits: np.ndarray,
    code_format: CodeFormat,
    centroids: np.ndarray,
    metric: str,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    distances = np.empty((len(queries), k), np.float32)
    positions = np.empty((len(queries), k), np.int64)
    _native.nearest_in_lists(
        queries,
        probes,
        codes,
        limits[None],
        *code_format,
        centroids,
        METRICS.index(metric),
        distances,
        positions,
    )
    return distances, positions


@pytest.mark.parametrize("metric", ["l2", "inner_product"])
@pytest.mark.parametrize("kind", CodeKind)
@pytest.mark.parametrize("d", [1, 15, 32, 57])
@pytest.mark.parametrize("lengths", [(0, 40, 1, 700), (9000,)])
def test_against_decoded_vectors(
    lengths: tuple[int, ...], d: int, kind: CodeKind, metric: str
) -> None:
    limits = np.cumsum([0, *lengths])
    code_format, codes, vectors = coded(kind, int(limits[-1]), d)
    centroids = NO_TABLE
    if kind is not CodeKind.FLOAT32 and d in (15, 32):  # codes of differences to centroids
        centroids = RANDOM.standard_normal((len(lengths), d), np.float32)
        vectors = vectors + np.repeat(centroids, lengths, 0)
    for count, k in ((1, 3), (9, 50)):
        queries = RANDOM.standard_normal((count, d), np.float32)
        probes = np.argsort(RANDOM.random((count, len(lengths))), 1)[:, :3].copy()
        probes[0, -1] = -1 if len(lengths) > 1 else 0
        found, positions = searched(
            queries, probes, codes, limits, code_format, centroids, metric, k
        )
        for query, probed, near, rows in zip(queries, probes, found, positions, strict=True):
            parts = [np.arange(limits[i], limits[i + 1]) for i in probed if i >= 0]
            looked_at = np.concatenate(parts)
            if metric == "l2":
                keys = ((vectors[looked_at] - query) ** 2).sum(1)
            else:
                keys = -(vectors[looked_at] @ query)
            expected = np.sort(keys)[:k]
            there = len(expected)
            sign = 1 if metric == "l2" else -1
            scale = max(1, np.abs(keys).max(initial=0))
            np.testing.assert_allclose(near[:there] * sign, expected, rtol=1e-4, atol=1e-5 * scale)
            assert (near[there:] == sign * np.inf).all()
            assert (rows[there:] == -1).all()
            assert len(set(rows[:there].tolist())) == there
            by_row = dict(zip(looked_at.tolist(), keys.tolist(), strict=True))
            chosen = [by_row[row] for row in rows[:there].tolist()]
            np.testing.assert_allclose(chosen, expected, rtol=1e-4, atol=1e-5 * scale)


def test_equal_ones_come_in_the_order_of_probes_and_rows() -> None:
    codes = np.zeros((6, 4), np.float32)
    limits = np.array([0, 2, 6])
    queries = np.zeros((1, 4), np.float32)
    found = searched(
        queries, np.array([[1, 0]]), codes, limits, CodeFormat(CodeKind.FLOAT32), NO_TABLE, "l2", 5
    )
    assert found[1].tolist() == [[2, 3, 4, 5, 0]]


def test_entries_that_a_codebook_does_not_have() -> None:
    code_format, codes, _ = coded(CodeKind.PARTS, 30, 5)
    limits, queries = np.array([0, 30]), RANDOM.standard_normal((1, 5), np.float32)
    probes = np.zeros((1, 1), np.int64)
    settings = (limits, code_format, NO_TABLE, "l2", 4)
    expected = searched(queries, probes, codes, *settings)
    for one, other in zip(searched(queries, probes, codes | 240, *settings), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_does_not_fit_is_refused() -> None:
    code_format, codes, _ = coded(CodeKind.EIGHT_BITS, 6, 5)
    queries, none = np.zeros((2, 5), np.float32), NO_TABLE
    probes, limits = np.zeros((2, 1), np.int64), np.array([[0, 2, 6]])
    out = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int64)
    right: list[Any] = [queries, probes, codes, limits, *code_format, none, 0, *out]
    _native.nearest_in_lists(*right)
    frozen = out[0].copy()
    frozen.setflags(write=False)
    wrong: list[tuple[int, Any]] = [
        (0, queries[:, :4].copy()),
        (0, queries[:1]),
        (0, queries.astype(np.float64)),
        (0, queries[0]),
        (1, probes + 2),
        (1, probes[:1]),
        (2, codes[:5]),
        (2, codes[:, :4].copy()),
        (2, codes.astype(np.float32)),
        (3, np.array([[0, 7, 6]])),
        (3, np.array([[-1, 2, 6]])),
        (3, np.zeros((1, 0), np.int64)),
        (4, 5),
        (4, -1),
        (4, CodeKind.PARTS),
        (5, code_format.origins[:, :4].copy()),
        (6, none),
        (8, np.zeros((1, 5), np.float32)),
        (8, np.zeros((2, 4), np.float32)),
        (9, METRICS.index("l1")),
        (10, out[0][:1]),
        (10, frozen),
        (11, np.zeros((2, 2), np.int64)),
    ]
    for place, value in wrong:
        arguments = [*right[:place], value, *right[place + 1 :]]
        with pytest.raises((ValueError, BufferError)):
            _native.nearest_in_lists(*arguments)
