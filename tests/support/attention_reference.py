"""Attention in NumPy, in float64, with every matrix in memory; and random inputs for it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

# Batch, heads of queries and of keys, queries, keys, features of queries and of values.
LENGTHS = [
    (1, 2, 2, 5, 7, 8, 6),
    (2, 4, 2, 37, 70, 16, 16),
    (1, 3, 1, 77, 77, 33, 65),
    (1, 1, 1, 33, 300, 64, 64),
    (2, 8, 2, 1, 130, 64, 64),
    (1, 2, 2, 20, 10, 5, 3),
    (1, 1, 1, 1, 1, 1, 1),
]
CASES = (
    "plain",
    "causal",
    "boolean",
    "boolean keys",
    "additive",
    "additive queries",
    "sinks",
    "sinks, causal",
    "sinks, boolean",
)
LOWEST = float(np.finfo(np.float32).min)  # the score of a hidden key


class Case(NamedTuple):
    """Queries, keys, values and then perhaps a mask and sinks."""

    kind: str
    arrays: list[np.ndarray]
    scale: float = 0.3

    @property
    def causal(self) -> bool:
        return "causal" in self.kind

    @property
    def mask(self) -> np.ndarray | None:
        return self.arrays[3] if "boolean" in self.kind or "additive" in self.kind else None

    @property
    def sinks(self) -> np.ndarray | None:
        return self.arrays[-1] if "sinks" in self.kind else None


def random_case(
    kind: str, batch: int, heads: int, shared: int, queries: int, keys: int, depth: int, width: int
) -> Case:
    """Normally distributed numbers, the same for the same lengths."""
    lengths = (batch, heads, shared, queries, keys, depth, width)
    random = np.random.default_rng(zlib.crc32(repr((kind, lengths)).encode()))

    def normal(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    arrays = [
        normal(batch, heads, queries, depth),
        normal(batch, shared, keys, depth),
        normal(batch, shared, keys, width),
    ]
    if kind.endswith("boolean"):
        seen = random.uniform(size=(batch, 1, queries, keys)) < 0.7
        seen[0, 0, 0] = False
        arrays.append(seen)
    elif kind == "boolean keys":
        arrays.append(random.uniform(size=keys) < 0.7)
    elif kind == "additive":
        arrays.append(normal(heads, queries, keys))
    elif kind == "additive queries":
        arrays.append(normal(heads, queries, 1))
    if "sinks" in kind:
        arrays.append(normal(heads))
    return Case(kind, arrays)


def options_of(case: Case, extras: Sequence[Any]) -> dict[str, Any]:
    """A mask and sinks as the function takes them."""
    given: dict[str, Any] = {"mask": "causal"} if case.causal else {}
    if case.mask is not None:
        given["mask"] = extras[0]
    if case.sinks is not None:
        given["sinks"] = extras[-1]
    return given


class _Softmax(NamedTuple):
    """Inputs in float64, shares of keys and sinks, and what scores depend on queries and keys."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    shares: np.ndarray
    of_sink: np.ndarray
    seen: np.ndarray


def _softmax(case: Case) -> _Softmax:
    q, k, v = (x.astype(np.float64) for x in case.arrays[:3])
    sharing = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, sharing, 1), np.repeat(v, sharing, 1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * case.scale
    seen = np.ones(scores.shape, bool)
    queries, keys = scores.shape[-2:]
    if case.causal:
        seen &= np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
    if case.mask is not None and case.mask.dtype == bool:
        seen &= case.mask
    elif case.mask is not None:
        scores = scores + case.mask
    scores = np.where(seen, scores, LOWEST)
    sinks = np.full((1, 1, 1, 1), -np.inf)
    if case.sinks is not None:
        sinks = case.sinks.astype(np.float64)[None, :, None, None]
    top = np.maximum(scores.max(-1, keepdims=True), sinks)
    powers, of_sink = np.exp(scores - top), np.exp(sinks - top)
    totals = powers.sum(-1, keepdims=True) + of_sink
    return _Softmax(q, k, v, powers / totals, of_sink / totals, seen)


def expected(case: Case) -> np.ndarray:
    """softmax(scale * q @ k.T) @ v."""
    found = _softmax(case)
    result: np.ndarray = found.shares @ found.v
    return result


def cotangents(case: Case, cotangent: np.ndarray) -> list[np.ndarray]:
    """The cotangents of all inputs but boolean masks, given that of the result."""
    q, k, v, shares, of_sink, seen = _softmax(case)
    of_shares = cotangent.astype(np.float64) @ v.swapaxes(-1, -2)
    average = (of_shares * shares).sum(-1, keepdims=True)
    of_masked = shares * (of_shares - average)
    of_scores = np.where(seen, of_masked, 0)

    def shared(x: np.ndarray) -> np.ndarray:
        """The sum over the heads of queries that share one of keys."""
        batch, heads, *others = x.shape
        groups = case.arrays[1].shape[1]
        total: np.ndarray = x.reshape(batch, groups, heads // groups, *others).sum(2)
        return total

    found = [
        of_scores @ k * case.scale,
        shared(of_scores.swapaxes(-1, -2) @ q) * case.scale,
        shared(shares.swapaxes(-1, -2) @ cotangent.astype(np.float64)),
    ]
    if case.mask is not None and case.mask.dtype != bool:
        found.append(_unbroadcast(of_scores, case.mask.shape))
    if case.sinks is not None:
        found.append(-(of_sink * average).sum((0, 2, 3)))
    return found


def _unbroadcast(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    x = x.sum(tuple(range(x.ndim - len(shape))))
    repeated = tuple(axis for axis, length in enumerate(shape) if length == 1)
    total: np.ndarray = x.sum(repeated, keepdims=True)
    return total
