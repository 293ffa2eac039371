"""Normalisations, rotations and attention, composed of array operations that `mx.compile` fuses.

Sums are in float32 for the half types and rounded once at the end.
"""

from __future__ import annotations

import math

import ingot.core as mx

__all__ = ["layer_norm", "rms_norm", "rope", "scaled_dot_product_attention"]


def _widened(x: mx.array) -> mx.array:
    """`x`, in float32 if its dtype is a half type."""
    return x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x


def _result_dtype(name: str, *arrays: mx.array | None) -> mx.Dtype:
    """The dtype of the arrays together, which must be of floating point."""
    dtype = mx.result_type(*(x for x in arrays if x is not None))
    if not mx.issubdtype(dtype, mx.floating):
        raise ValueError(
            f"[{name}] expected floating-point numbers, got {dtype}: convert the input, for "
            "example with x.astype(mx.float32)."
        )
    return dtype


def rms_norm(x: mx.array, weight: mx.array | None, eps: float) -> mx.array:
    """`x` divided by the root of its mean square along the last axis, times `weight`."""
    dtype = _result_dtype("rms_norm", x, weight)
    wide = _widened(x)
    scaled = wide * mx.rsqrt(mx.mean(mx.square(wide), axis=-1, keepdims=True) + eps)
    normalized = scaled.astype(dtype)
    return normalized if weight is None else normalized * weight


def layer_norm(x: mx.array, weight: mx.array | None, bias: mx.array | None, eps: float) -> mx.array:
    """`x` with mean 0 and variance 1 along the last axis, times `weight`, plus `bias`."""
    dtype = _result_dtype("layer_norm", x, weight, bias)
    wide = _widened(x)
    centred = wide - mx.mean(wide, axis=-1, keepdims=True)
    variance = mx.mean(mx.square(centred), axis=-1, keepdims=True)
    y = (centred * mx.rsqrt(variance + eps)).astype(dtype)
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def rope(
    x: mx.array,
    dims: int,
    *,
    traditional: bool,
    base: float,
    scale: float,
    offset: int | mx.array,
) -> mx.array:
    """Rotates pairs of the first `dims` features by angles that grow with the position.

    Positions are along the axis before the last. Pair i turns by `base ** (-2 i / dims)` a
    position. A pair is two neighbours if `traditional`, otherwise features i and i + `dims` / 2.
    """
    dtype = _result_dtype("rope", x)
    if x.ndim < 3:
        raise ValueError(f"[rope] expected an input of at least 3 dimensions, got shape {x.shape}.")
    if isinstance(offset, mx.array) and offset.ndim == 1 and offset.size > 1:
        # One offset for each example: as long as the batch, and broadcast along what follows it.
        offset = offset.reshape(-1, *(1,) * (x.ndim - 2))
    half = dims // 2
    positions = (mx.arange(x.shape[-2], dtype=mx.float32) + offset) * scale
    frequencies = mx.exp(mx.arange(half, dtype=mx.float32) * (-math.log(base) / half))
    angles = positions[..., None] * frequencies
    cosines = mx.cos(angles).astype(dtype)
    sines = mx.sin(angles).astype(dtype)
    rotated = x[..., :dims]
    if traditional:
        first, second = rotated[..., ::2], rotated[..., 1::2]
    else:
        first, second = rotated[..., :half], rotated[..., half:]
    turned = (first * cosines - second * sines, first * sines + second * cosines)
    if traditional:
        y = mx.stack(turned, axis=-1).reshape(rotated.shape)
    else:
        y = mx.concatenate(turned, axis=-1)
    return y if dims == x.shape[-1] else mx.concatenate([y, x[..., dims:]], axis=-1)


def scaled_dot_product_attention(
    q: mx.array, k: mx.array, v: mx.array, *, scale: float, mask: mx.array | str | None = None
) -> mx.array:
    """`softmax(scale * q @ k.T + mask) @ v` for each head.

    Args:
        q: Queries of shape (B, heads, T, D).
        k: Keys of shape (B, heads, S, D).
        v: Values of shape (B, heads, S, D').
        scale: A factor for the products.
        mask: Numbers to add to the scores; or booleans that say which keys are seen; or "causal",
            where a query sees its own position and those before.
    """
    scores = (q * scale) @ k.swapaxes(-1, -2)
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(f'[attention] a mask is an array or "causal", got {mask!r}.')
        queries, keys = scores.shape[-2:]
        mask = mx.arange(keys - queries, keys)[:, None] >= mx.arange(keys)
    if mask is None:
        masked = scores
    elif mask.dtype == mx.bool_:
        masked = mx.where(mask, scores, mx.array(-math.inf, scores.dtype))
    else:
        masked = scores + _checked_mask(mask, scores.dtype)
    return mx.softmax(masked, axis=-1, precise=True) @ v


def _checked_mask(mask: mx.array, dtype: mx.Dtype) -> mx.array:
    if mx.result_type(mask, mx.zeros((), dtype)) != dtype:
        raise ValueError(
            f"[attention] a mask of dtype {mask.dtype} would widen the scores, which are {dtype}: "
            f"convert it, for example with mask.astype(mx.{dtype})."
        )
    return mask.astype(dtype)
