"""Attention of few queries as one node: a step of a model that decodes, whose keys are one more
each time, so that no program of fixed lengths would be run twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import prepare_blas
from ingot.graph.roles import Composite
from ingot.graph.shape import Shape
from ingot.ops.attention.blocks import Masking
from ingot.ops.attention.rules import composed_attention

__all__ = ["AttentionStep"]


@dataclass(frozen=True)
class AttentionStep(Composite):
    """Attention, evaluated by NumPy for all heads at once. A mask and sinks may follow values."""

    scale: float
    causal: bool
    has_mask: bool

    def _extras(self, extras: Sequence[Any]) -> tuple[Any, Any]:
        """The mask and the sinks."""
        mask = extras[0] if self.has_mask else None
        return mask, extras[-1] if len(extras) > self.has_mask else None

    def infer(self, q: array, k: array, v: array, *extras: array) -> tuple[Shape, Dtype]:
        return (*q.shape[:-1], v.shape[-1]), q.dtype

    def compose(self, *inputs: array) -> array:
        q, k, v, *extras = inputs
        mask, sinks = self._extras(extras)
        return composed_attention(q, k, v, self.scale, self.causal, mask, sinks)

    def runs_alone(self, *shapes: Shape) -> bool:
        return False

    def evaluate(self, *values: np.ndarray) -> np.ndarray:
        q, k, v, *extras = values
        return _attend(q, k, v, self.scale, Masking(self.causal, *self._extras(extras)))


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, masking: Masking
) -> np.ndarray:
    """Sums of values, weighted by shares of scores: a product for all heads that share keys."""
    prepare_blas()
    batch, heads, queries, _ = q.shape
    shared, keys = k.shape[1:3]
    if keys == 0:
        return np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    grouped = (_in_float32(q) * scale).reshape(
        batch, shared, heads // shared * queries, q.shape[-1]
    )
    scores = (grouped @ _in_float32(k).swapaxes(-1, -2)).reshape(batch, heads, queries, keys)
    lowest = np.finfo(scores.dtype).min
    if masking.causal and queries > 1:
        hidden = np.arange(keys - queries, keys)[:, None] < np.arange(keys)
        scores[..., hidden] = lowest
    if masking.mask is not None and masking.mask.dtype == bool:
        scores[np.broadcast_to(~masking.mask, scores.shape)] = lowest
    elif masking.mask is not None:
        scores += masking.mask
    largest = scores.max(-1, keepdims=True)
    sinks = None if masking.sinks is None else _in_float32(masking.sinks)[..., None, None]
    if sinks is not None:
        largest = np.maximum(largest, sinks)
    scores -= largest
    np.exp(scores, out=scores)
    totals = scores.sum(-1, keepdims=True)
    if sinks is not None:
        totals += np.exp(sinks - largest)
    sums = scores.reshape(*grouped.shape[:3], keys) @ _in_float32(v)
    return (sums.reshape(*q.shape[:-1], v.shape[-1]) / totals).astype(q.dtype, copy=False)


def _in_float32(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.itemsize == 2 else x
