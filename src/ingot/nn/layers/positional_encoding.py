"""Positional encodings for transformers."""

from __future__ import annotations

import math

import ingot.core as mx
from ingot.nn.module import Module

__all__ = ["ALiBi", "RoPE", "SinusoidalPositionalEncoding"]


class RoPE(Module):
    """Rotary encoding: pairs of features are rotated by angles that grow with the position.

    Args:
        dims: How many of the features are rotated; the others stay as they are.
        traditional: Whether neighbouring features are a pair. Otherwise features half of `dims`
            apart are, which is a little faster.
        base: The base of the angles: pair i rotates by `base ** (-2 * i / dims)` per position.
        scale: A factor for the positions.
    """

    def __init__(
        self, dims: int, traditional: bool = False, base: float = 10000, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.dims = dims
        self.traditional = traditional
        self.base = base
        self.scale = scale

    def _extra_repr(self) -> str:
        return f"{self.dims}, traditional={self.traditional}"

    def __call__(self, x: mx.array, offset: int | mx.array = 0) -> mx.array:
        """The input with its features rotated.

        Args:
            x: An array of shape (B, ..., T, D) with the positions along the axis before the last.
            offset: The first position; an array may have one for each example of the batch.
        """
        return mx.fast.rope(
            x,
            self.dims,
            traditional=self.traditional,
            base=self.base,
            scale=self.scale,
            offset=offset,
        )


class SinusoidalPositionalEncoding(Module):
    """Sines and cosines of the position, with frequencies in geometric steps.

    Args:
        dims: The number of features, which is even.
        min_freq: The lowest frequency.
        max_freq: The highest frequency.
        scale: A factor for the features; sqrt(2 / `dims`) by default.
        cos_first: Whether the cosines come before the sines.
        full_turns: Whether frequencies are in turns, not radians, per position.
    """

    def __init__(
        self,
        dims: int,
        min_freq: float = 0.0001,
        max_freq: float = 1,
        scale: float | None = None,
        cos_first: bool = False,
        full_turns: bool = False,
    ) -> None:
        super().__init__()
        if dims <= 0 or dims % 2 != 0:
            raise ValueError(
                "[SinusoidalPositionalEncoding] dims must be positive and even, for sines and "
                f"cosines go together, got {dims}."
            )
        if not (min_freq > 0 and max_freq > 0):
            raise ValueError(
                "[SinusoidalPositionalEncoding] min_freq and max_freq must be positive, got "
                f"{min_freq} and {max_freq}."
            )
        half = dims // 2
        descent = mx.array([1.0]) if half == 1 else 1 - mx.arange(half) / (half - 1)
        lowest = math.log(min_freq)
        # The underscore prefix keeps it from being a parameter.
        self._sigmas = mx.exp(descent * (math.log(max_freq) - lowest) + lowest)
        if full_turns:
            self._sigmas = self._sigmas * (2 * math.pi)
        self.scale = math.sqrt(2 / dims) if scale is None else scale
        self.cos_first = cos_first

    def __call__(self, x: mx.array) -> mx.array:
        """The features of each position in `x`, along a new last axis."""
        angles = x[..., None] * self._sigmas
        waves = [mx.sin(angles), mx.cos(angles)]
        if self.cos_first:
            waves.reverse()
        y = mx.concatenate(waves, axis=-1)
        return y if self.scale == 1 else y * self.scale


class ALiBi(Module):
    """Attention with linear biases: scores decrease with the distance, with a slope per head."""

    @staticmethod
    def create_alibi_matrix(
        q_sequence_length: int,
        k_sequence_length: int,
        num_heads: int,
        offset: int = 0,
        dtype: mx.Dtype = mx.float32,
    ) -> mx.array:
        """The biases, of shape (1, heads, queries, keys).

        Args:
            q_sequence_length: The position after the last query.
            k_sequence_length: The number of keys.
            num_heads: The number of heads.
            offset: The position of the first query.
            dtype: The dtype of the result.
        """
        queries = mx.arange(offset, q_sequence_length)
        keys = mx.arange(0, k_sequence_length)
        distances = -mx.abs(queries[:, None] - keys)[None, None]
        return (distances * ALiBi.create_alibi_slope(num_heads, dtype)).astype(dtype)

    @staticmethod
    def create_alibi_slope(num_heads: int, dtype: mx.Dtype = mx.float32) -> mx.array:
        """The slopes of the heads, of shape (heads, 1, 1).

        Args:
            num_heads: The number of heads.
            dtype: The dtype of the result.
        """
        return mx.array(_slopes(num_heads), dtype=dtype)[:, None, None]

    def __call__(
        self, attention_scores: mx.array, offset: int = 0, mask: mx.array | None = None
    ) -> mx.array:
        """The scores with the biases and the mask added.

        Args:
            attention_scores: Scores of shape (B, heads, queries, keys).
            offset: The position of the first query.
            mask: Numbers to add, besides.
        """
        if attention_scores.ndim != 4:
            raise ValueError(
                "[ALiBi] attention_scores must have the shape (B, heads, queries, keys), "
                f"got shape {attention_scores.shape}."
            )
        _, num_heads, queries, keys = attention_scores.shape
        biases = self.create_alibi_matrix(
            queries + offset, keys, num_heads, offset, attention_scores.dtype
        )
        if mask is not None:
            biases = biases + mask
        return attention_scores + biases


def _slopes(num_heads: int) -> list[float]:
    """A geometric sequence for a power of two.

    Otherwise that of the power of two below, and every second element of the one above.
    """
    power = math.floor(math.log2(num_heads))
    if num_heads == 2**power:
        first = 2 ** (-(2.0 ** -(power - 3)))
        return [first * first**head for head in range(num_heads)]
    below = 2**power
    return _slopes(below) + _slopes(2 * below)[::2][: num_heads - below]
