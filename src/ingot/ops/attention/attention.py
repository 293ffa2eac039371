"""Attention: the function that users call."""

from __future__ import annotations

from typing import Any

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_, is_floating, promote
from ingot.graph.op import apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.shape import Shape, shape_text, size_of
from ingot.ops.attention.rules import Attention, composed_attention
from ingot.ops.attention.step import AttentionStep
from ingot.ops.elementwise.casting import astype
from ingot.ops.shape.movement import require_array, reshape
from ingot.tuning import MAX_QUERIES_AT_ONCE, MIN_BLOCKED_SCORES

__all__ = ["scaled_dot_product_attention"]

_NAME = "scaled_dot_product_attention"


def scaled_dot_product_attention(
    q: array,
    k: array,
    v: array,
    *,
    scale: float,
    mask: str | array | None = None,
    sinks: array | None = None,
    force_fused: bool = False,
    stream: StreamLike = None,
) -> array:
    """Attention of several heads: `softmax(scale * q @ k.T) @ v`.

    Long sequences are computed in blocks of queries, so that memory does not grow with their
    square; their gradient is too. Compiled, so are shorter ones, all but a few queries.

    Args:
        q: Queries (B, heads, queries, D).
        k: Keys (B, heads / n, keys, D), each for n consecutive heads of queries.
        v: Values (B, heads / n, keys, E).
        scale: A factor for the products of queries and keys, often 1 / sqrt(D).
        mask: "causal" hides the keys that come after a query, where the last query sees the last
            key. An array that broadcasts to (B, heads, queries, keys) is added to the scores or, if
            it is boolean, hides the keys at which it is False.
        sinks: For each head of queries the score of one more key, which has no value.
        force_fused: Whether also short sequences are computed in blocks.
        stream: The stream or device to run on.

    Returns:
        An array (B, heads, queries, E).
    """
    dtype = _checked_dtype(q, k, v)
    factor = float(scale)
    causal = isinstance(mask, str)
    if causal and mask != "causal":
        raise ValueError(f'[{_NAME}] mask is "causal", an array or None, got {mask!r}.')
    shape = (*q.shape[:3], k.shape[2])
    added = None if mask is None or causal else _checked_mask(mask, shape, dtype)
    scores = None if sinks is None else _checked_sinks(sinks, q.shape[1], dtype)
    q, k, v = (astype(x, dtype, stream) for x in (q, k, v))
    extras = [x for x in (added, scores) if x is not None]
    if not force_fused and not _native.in_tracing():
        step = AttentionStep(factor, causal, added is not None)
        return apply(step, q, k, v, *extras, stream=stream)
    if not force_fused and not _is_nest(shape):
        return composed_attention(q, k, v, factor, causal, added, scores)
    op = Attention(factor, causal, added is not None)
    result, *_ = apply_multiple(op, q, k, v, *extras, stream=stream)
    return result


def _is_nest(shape: Shape) -> bool:
    """Whether traced attention with scores of a shape is one op: it has too many scores to store,
    or becomes a loop nest, which needs static lengths. A few queries are matrix-vector products,
    which are memory-bound.
    """
    if size_of(shape) >= MIN_BLOCKED_SCORES:
        return True
    known = all(type(length) is int for length in shape)
    return known and shape[2] > MAX_QUERIES_AT_ONCE


def _checked_dtype(q: Any, k: Any, v: Any) -> Dtype:
    """The dtype of the result, after checking queries, keys and values."""
    for x in (q, k, v):
        require_array(_NAME, x)
        if x.ndim != 4:
            raise ValueError(
                f"[{_NAME}] queries, keys and values have 4 axes, got shape {shape_text(x.shape)}."
            )
        if x.shape[0] != q.shape[0]:
            raise ValueError(
                f"[{_NAME}] the batch of shape {shape_text(x.shape)} has another length than that "
                f"of the queries, {shape_text(q.shape)}."
            )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"[{_NAME}] queries of shape {shape_text(q.shape)} and keys of shape "
            f"{shape_text(k.shape)} must have the same length along the last axis."
        )
    if k.shape[1:3] != v.shape[1:3]:
        raise ValueError(
            f"[{_NAME}] keys of shape {shape_text(k.shape)} and values of shape "
            f"{shape_text(v.shape)} must have equal numbers of heads and rows."
        )
    if k.shape[1] == 0 or q.shape[1] % k.shape[1] != 0:
        raise ValueError(
            f"[{_NAME}] the heads of queries must be a multiple of those of keys, got "
            f"{q.shape[1]} and {k.shape[1]}."
        )
    dtype = promote(promote(q.dtype, k.dtype), v.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{_NAME}] takes floating-point arrays, got {dtype.name}.")
    return dtype


def _checked_mask(mask: Any, shape: Shape, dtype: Dtype) -> array:
    require_array(_NAME, mask)
    if mask.ndim > 4:
        raise ValueError(
            f"[{_NAME}] a mask has at most 4 axes, got shape {shape_text(mask.shape)}."
        )
    lengths = zip(reversed(mask.shape), reversed(shape), strict=False)
    if any(own not in (1, length) for own, length in lengths):
        raise ValueError(
            f"[{_NAME}] a mask of shape {shape_text(mask.shape)} does not broadcast to the scores, "
            f"{shape_text(shape)}: (B, heads, queries, keys)."
        )
    whole: array = reshape(mask, (1,) * (4 - mask.ndim) + mask.shape)
    return whole if mask.dtype is bool_ else _promoted("a mask", whole, dtype)


def _checked_sinks(sinks: Any, heads: int, dtype: Dtype) -> array:
    require_array(_NAME, sinks)
    if sinks.shape != (heads,):
        raise ValueError(
            f"[{_NAME}] sinks must be one number for each of {heads} heads, got shape "
            f"{shape_text(sinks.shape)}."
        )
    return _promoted("sinks", reshape(sinks, (1, heads)), dtype)


def _promoted(what: str, x: array, dtype: Dtype) -> array:
    if promote(x.dtype, dtype) is not dtype:
        raise ValueError(
            f"[{_NAME}] the dtype of {what} must promote to that of the result, {dtype.name}, got "
            f"{x.dtype.name}."
        )
    return astype(x, dtype)
