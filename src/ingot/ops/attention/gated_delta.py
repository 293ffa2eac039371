"""The gated delta rule: linear attention with a decaying, error-corrected memory."""

from __future__ import annotations

from typing import Any

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_, float32, float64, is_floating, promote
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.joining import repeat, stack
from ingot.ops.shape.movement import expand_dims, require_array

__all__ = ["gated_delta_update"]

_NAME = "gated_delta_update"


def gated_delta_update(
    q: array,
    k: array,
    v: array,
    gamma: array,
    beta: array,
    initial_state: array | None = None,
    mask: array | None = None,
    stream: StreamLike = None,
) -> list[array]:
    """Outputs of a memory that is decayed, corrected and read at each position.

    A head's memory is a matrix S. At each position it becomes `gamma * S`, then `beta` times the
    difference between the value and what the memory has for the key, `v - S @ k`, is stored under
    the key, and the output is `S @ q`.

    Args:
        q: Queries (B, T, heads of keys, D).
        k: Keys (B, T, heads of keys, D).
        v: Values (B, T, heads, E), of which some share the queries and keys of a head.
        gamma: What is left of the memory (B, T, heads), or of each of its columns
            (B, T, heads, D).
        beta: How much of a difference is stored (B, T, heads).
        initial_state: The memory at first, (B, heads, E, D); nothing by default.
        mask: Which positions count (B, T); the others leave the memory and have outputs of 0.
        stream: The stream or device to run on.

    Returns:
        The outputs (B, T, heads, E), and the memory at last.
    """
    dtype = _checked_dtype(q, k, v, gamma, beta)
    batch, length, heads, values = v.shape
    wide = float64 if dtype is float64 else float32
    sharing = heads // k.shape[2]
    queries, keys = (repeat(astype(x, wide), sharing, 2) for x in (q, k))
    stored = astype(v, wide)
    decay = astype(gamma, wide)
    decay = expand_dims(decay, (3, 4) if gamma.ndim == 3 else 3)
    rate = expand_dims(astype(beta, wide), 3)
    state = _checked_state(initial_state, (batch, heads, values, k.shape[3]), wide)
    counts = None if mask is None else _checked_mask(mask, (batch, length))
    outputs = []
    for position in range(length):
        key = expand_dims(keys[:, position], 2)
        faded = state * decay[:, position]
        difference = (stored[:, position] - sum(faded * key, -1)) * rate[:, position]
        following = faded + expand_dims(difference, 3) * key
        output = sum(following * expand_dims(queries[:, position], 2), -1)
        if counts is not None:
            seen = expand_dims(counts[:, position], (1, 2))
            following = where(expand_dims(seen, 3), following, state)
            output = where(seen, output, 0.0)
        state = following
        outputs.append(output)
    if not outputs:
        return [zeros(v.shape, dtype), state]
    return [astype(stack(outputs, 1), dtype, stream), state]


def _checked_dtype(q: Any, k: Any, v: Any, gamma: Any, beta: Any) -> Dtype:
    """The dtype of the outputs, after checking the shapes of the inputs."""
    for x in (q, k, v):
        if require_array(_NAME, x).ndim != 4:
            raise ValueError(
                f"[{_NAME}] queries, keys and values have 4 axes, got shape {shape_text(x.shape)}."
            )
    if q.shape != k.shape or k.shape[:2] != v.shape[:2]:
        raise ValueError(
            f"[{_NAME}] queries {shape_text(q.shape)}, keys {shape_text(k.shape)} and values "
            f"{shape_text(v.shape)} must have the same batch and positions, and queries the shape "
            "of keys."
        )
    if k.shape[2] == 0 or v.shape[2] % k.shape[2] != 0:
        raise ValueError(
            f"[{_NAME}] the heads of values must be a multiple of those of keys, got {v.shape[2]} "
            f"and {k.shape[2]}."
        )
    allowed = [v.shape[:3], (*v.shape[:3], 1), (*v.shape[:3], k.shape[3])]
    if require_array(_NAME, gamma).shape not in allowed or (
        require_array(_NAME, beta).shape != v.shape[:3]
    ):
        raise ValueError(
            f"[{_NAME}] gamma and beta have one number for each position and head, "
            f"{shape_text(v.shape[:3])}, got {shape_text(gamma.shape)} and "
            f"{shape_text(beta.shape)}."
        )
    dtype = promote(promote(q.dtype, k.dtype), v.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{_NAME}] takes real floating-point arrays, got {dtype.name}.")
    return dtype


def _checked_state(state: Any, shape: tuple[int, ...], dtype: Dtype) -> array:
    if state is None:
        return zeros(shape, dtype)
    if require_array(_NAME, state).shape != shape:
        raise ValueError(
            f"[{_NAME}] the initial state has shape {shape_text(shape)}, got "
            f"{shape_text(state.shape)}."
        )
    return astype(state, dtype)


def _checked_mask(mask: Any, shape: tuple[int, ...]) -> array:
    if require_array(_NAME, mask).shape != shape:
        raise ValueError(
            f"[{_NAME}] a mask has one element for each position, {shape_text(shape)}, got shape "
            f"{shape_text(mask.shape)}."
        )
    return astype(mask, bool_)
