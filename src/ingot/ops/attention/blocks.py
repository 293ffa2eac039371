"""Attention in blocks of queries, in NumPy: the matrix of all scores is never stored.

Queries are (B, heads, queries, D), keys (B, heads / n, keys, D) and values (B, heads / n, keys, E):
n consecutive heads of queries share a head of keys and values. A mask is (B, heads, queries, keys),
sinks are (B, heads), with 1 allowed for any length but that of sinks' heads. Half precision is
computed in float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ingot.graph.libraries import prepare_blas
from ingot.graph.numerics.parallel import each_in_parallel
from ingot.tuning import SCORE_BLOCK

__all__ = ["Masking", "attend", "attention_cotangents"]


class Block(NamedTuple):
    """Some queries of one head."""

    example: int
    head: int
    rows: slice


class Masking(NamedTuple):
    """Modifiers of the scores: causality, a mask, and sinks, which compete with the keys."""

    causal: bool
    mask: np.ndarray | None
    sinks: np.ndarray | None

    def sink(self, block: Block) -> np.ndarray | None:
        """The sink of a head."""
        if self.sinks is None:
            return None
        example = 0 if self.sinks.shape[0] == 1 else block.example
        found: np.ndarray = _wide(self.sinks)[example, block.head]
        return found


class Powers(NamedTuple):
    """Exponentials of the scores of some queries, scaled so that the largest of each row is 1."""

    of_keys: np.ndarray
    of_sink: np.ndarray
    totals: np.ndarray
    largest: np.ndarray
    hidden: np.ndarray  # rows without a visible key: all their scores are the lowest number


def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, masking: Masking
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values weighted by the softmax of scaled products of queries and keys; the largest score of
    each query, and the sum of the exponentials relative to it.
    """
    prepare_blas()
    sharing = q.shape[1] // k.shape[1]
    result = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    tops, totals = (np.zeros(q.shape[:-1], _wide(q[:0]).dtype) for _ in range(2))
    if k.shape[2] == 0:
        return result, tops, totals

    def fill(block: Block) -> None:
        position = block.example, block.head // sharing
        keys, values = _wide(k[position]), _wide(v[position])
        scores = _scores(_wide(q[block]) * scale, keys, block, q.shape[2], masking)
        powers = _powers(scores, masking.sink(block))
        result[block] = (powers.of_keys @ values[: scores.shape[1]]) / powers.totals
        tops[block], totals[block] = powers.largest[:, 0], powers.totals[:, 0]

    blocks = [
        Block(example, head, rows)
        for example, head in np.ndindex(*q.shape[:2])
        for rows in _row_blocks(q.shape[2], k.shape[2])
    ]
    each_in_parallel(fill, blocks)
    return result, tops, totals


def attention_cotangents(
    cotangent: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    scale: float,
    masking: Masking,
) -> tuple[np.ndarray, ...]:
    """The cotangents of queries, keys, values and, if there are any, sinks."""
    prepare_blas()
    sharing = q.shape[1] // k.shape[1]
    of_q, of_k, of_v = (np.zeros(x.shape, x.dtype) for x in (q, k, v))
    of_sinks = np.zeros(q.shape[:2], _wide(q[:0]).dtype)

    def fill(position: tuple[int, int]) -> None:
        example, head = position
        keys, values = _wide(k[position]), _wide(v[position])
        of_keys, of_values = np.zeros_like(keys), np.zeros_like(values)
        for number in range(head * sharing, (head + 1) * sharing):
            for rows in _row_blocks(q.shape[2], keys.shape[0]):
                block = Block(example, number, rows)
                queries = _wide(q[block]) * scale
                scores = _scores(queries, keys, block, q.shape[2], masking)
                powers = _powers(scores, masking.sink(block))
                shares = powers.of_keys / powers.totals
                count = shares.shape[1]  # number of keys that any of the queries sees
                of_result = _wide(cotangent[block])
                of_values[:count] += shares.T @ of_result
                of_scores = of_result @ values[:count].T
                average = np.einsum("ij,ij->i", of_scores, shares)[:, None]
                of_scores -= average
                of_scores *= shares
                of_scores[powers.hidden] = 0
                of_q[block] = (of_scores @ keys[:count]) * scale
                of_keys[:count] += of_scores.T @ queries
                of_sinks[example, number] -= np.sum(powers.of_sink / powers.totals * average)
        of_k[position] = of_keys
        of_v[position] = of_values

    if k.shape[2] > 0:
        each_in_parallel(fill, list(np.ndindex(*k.shape[:2])))
    if masking.sinks is None:
        return of_q, of_k, of_v
    if masking.sinks.shape[0] == 1:
        of_sinks = of_sinks.sum(0, keepdims=True)
    return of_q, of_k, of_v, of_sinks.astype(q.dtype)


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.itemsize == 2 else x


def _row_blocks(queries: int, keys: int) -> Iterator[slice]:
    count = max(1, SCORE_BLOCK // max(1, keys))
    for start in range(0, queries, count):
        yield slice(start, min(start + count, queries))


def _scores(
    queries: np.ndarray, keys: np.ndarray, block: Block, length: int, masking: Masking
) -> np.ndarray:
    """The masked scores of a block, without the keys after all that its queries may see.

    `length` is the number of queries of the whole sequence.
    """
    rows = block.rows
    ahead = keys.shape[0] - length  # the last query sees the last key
    count = keys.shape[0]
    if masking.causal and rows.start + ahead >= 0:
        count = rows.stop + ahead
    scores: np.ndarray = queries @ keys[:count].T
    lowest = np.finfo(scores.dtype).min
    if masking.causal:
        scores[np.arange(rows.start, rows.stop)[:, None] + ahead < np.arange(count)] = lowest
    if masking.mask is None:
        return scores
    part = _part_of_mask(masking.mask, block, count)
    if part.dtype == bool:
        scores[np.broadcast_to(~part, scores.shape)] = lowest
    else:
        scores += part
    return scores


def _part_of_mask(mask: np.ndarray, block: Block, count: int) -> np.ndarray:
    """The mask of a block and the first `count` keys; an axis of length 1 broadcasts."""
    example, head, rows = (length > 1 for length in mask.shape[:3])
    part: np.ndarray = mask[block.example if example else 0, block.head if head else 0]
    return part[block.rows if rows else slice(None), :count]


def _powers(scores: np.ndarray, sink: np.ndarray | None) -> Powers:
    """Exponentials of the scores, in place, and of the sink."""
    lowest = np.finfo(scores.dtype).min
    largest: np.ndarray = scores.max(1, keepdims=True)
    hidden = largest[:, 0] == lowest
    if sink is not None:
        largest = np.maximum(largest, sink)
    scores -= largest
    np.exp(scores, out=scores)
    of_sink = np.zeros_like(largest) if sink is None else np.exp(sink - largest)
    return Powers(scores, of_sink, scores.sum(1, keepdims=True) + of_sink, largest, hidden)
