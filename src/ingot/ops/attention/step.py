"""Attention as one node, outside transforms and compiled functions.

Few queries are computed by native code: in decoding, the number of keys grows by one each step, so
that a program of fixed lengths would run only once. Prompts have a program for all lengths until
the same lengths have come often enough to pay for a loop nest of their own, which stores no scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot._native import Dtype, array, attention_step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Composite
from ingot.graph.shape import Shape, size_of
from ingot.ops.attention.blocks import Masking, attend
from ingot.ops.attention.rules import Attention, composed_attention
from ingot.tuning import MAX_QUERIES_AT_ONCE, MIN_BLOCKED_SCORES

__all__ = ["AttentionStep"]


@dataclass(frozen=True)
class AttentionStep(Composite):
    """Attention. A mask and sinks may follow the values."""

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
        lengths = _scores(q.shape, k.shape)
        if q.shape[2] > MAX_QUERIES_AT_ONCE and all(type(length) is int for length in lengths):
            op = Attention(self.scale, self.causal, self.has_mask)
            result, *_ = apply_multiple(op, *inputs)
            return result
        mask, sinks = self._extras(extras)
        return composed_attention(q, k, v, self.scale, self.causal, mask, sinks)

    def runs_alone(self, *shapes: Shape) -> bool:
        count = size_of(_scores(*shapes[:2]))
        return shapes[0][2] > MAX_QUERIES_AT_ONCE and 0 < count < MIN_BLOCKED_SCORES

    def has_fixed_rows(self, position: int) -> bool:
        return not (self.has_mask and position == 3)  # its rows have one element for each key

    def work_for_lengths(self, *shapes: Shape) -> int:
        return size_of(_scores(*shapes[:2])) if shapes[0][2] > MAX_QUERIES_AT_ONCE else 0

    def evaluate(self, *values: np.ndarray) -> np.ndarray:
        q, k, v, *extras = values
        masking = Masking(self.causal, *self._extras(extras))
        if k.shape[2] == 0:
            return np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
        if q.dtype == np.float64 or q.shape[2] > MAX_QUERIES_AT_ONCE:
            return attend(q, k, v, self.scale, masking)[0]
        return _attend(q, k, v, self.scale, masking).astype(q.dtype, copy=False)


def _scores(queries: Shape, keys: Shape) -> Shape:
    """The shape of the scores."""
    return (*queries[:3], keys[2])


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, masking: Masking
) -> np.ndarray:
    """Attention in float32 by native code, which reads keys and values in place."""
    mask, sinks = masking.mask, masking.sinks
    if mask is not None:
        mask = mask if mask.dtype == bool else mask.astype(np.float32, copy=False)
        mask = np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    if sinks is not None:
        sinks = np.broadcast_to(sinks.astype(np.float32, copy=False), q.shape[:2])
    q, k, v = map(_with_contiguous_rows, (q, k, v))
    found: np.ndarray = attention_step(q, k, v, scale, masking.causal, mask, sinks)
    return found


def _with_contiguous_rows(x: np.ndarray) -> np.ndarray:
    is_contiguous = x.strides[-1] == x.itemsize or x.shape[-1] == 1
    return x if is_contiguous else np.ascontiguousarray(x)
