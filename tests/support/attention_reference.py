"""Attention in NumPy, in float64, with every matrix in memory; and random inputs for it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

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


def expected(case: Case) -> np.ndarray:
    """softmax(scale * q @ k.T) @ v."""
    q, k, v = (x.astype(np.float64) for x in case.arrays[:3])
    sharing = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, sharing, 1), np.repeat(v, sharing, 1)
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * case.scale
    queries, keys = scores.shape[-2:]
    if case.causal:
        seen = np.arange(keys) <= np.arange(queries)[:, None] + keys - queries
        scores = np.where(seen, scores, LOWEST)
    if case.mask is not None:
        hides = case.mask.dtype == bool
        scores = np.where(case.mask, scores, LOWEST) if hides else scores + case.mask
    top = scores.max(-1, keepdims=True)
    if case.sinks is not None:
        sinks = case.sinks.astype(np.float64)[None, :, None, None]
        top = np.maximum(top, sinks)
    powers = np.exp(scores - top)
    totals = powers.sum(-1, keepdims=True)
    if case.sinks is not None:
        totals = totals + np.exp(sinks - top)
    found: np.ndarray = powers / totals @ v
    return found
