"""Quantised matrices in NumPy, for `evaluate` rules."""

from __future__ import annotations

import numpy as np

__all__ = ["codes_of", "numbers"]

_WORD = 32
_FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def codes_of(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpack the codes in the words along the last axis."""
    count = packed.shape[-1] * _WORD // bits
    first = np.arange(count) * bits
    word, shift = first // _WORD, (first % _WORD).astype(np.uint32)
    codes = packed[..., word] >> shift
    crossing = shift + bits > _WORD
    if crossing.any():
        above = np.minimum(word + 1, packed.shape[-1] - 1)
        left = (_WORD - shift[crossing]).astype(np.uint32)
        codes[..., crossing] |= packed[..., above[crossing]] << left
    found: np.ndarray = codes & np.uint32((1 << bits) - 1)
    return found


def numbers(
    mode: str,
    group_size: int,
    bits: int,
    packed: np.ndarray,
    scales: np.ndarray,
    biases: np.ndarray | None = None,
) -> np.ndarray:
    """The decoded numbers, in float32."""
    codes = codes_of(packed, bits)
    if mode == "affine":
        values, factors = codes.astype(np.float32), scales.astype(np.float32)
    else:
        values = _fp8()[codes] if bits == 8 else _fp4()[codes]
        factors = _fp8()[scales] if mode == "nvfp4" else np.exp2(scales.astype(np.float32) - 127)
    groups = values.reshape(*scales.shape, group_size) * factors[..., None]
    if biases is not None:
        groups += biases.astype(np.float32)[..., None]
    found: np.ndarray = groups.reshape(codes.shape)
    return found


def _fp4() -> np.ndarray:
    """The values of all 4-bit codes."""
    return np.concatenate([_FP4, -_FP4])


def _fp8() -> np.ndarray:
    """The values of all 8-bit codes: sign, 4 bits of exponent, 3 of fraction."""
    code = np.arange(128)
    fraction, exponent = code & 7, code >> 3
    size = np.where(exponent == 0, fraction / 8, (1 + fraction / 8) * 2.0 ** (exponent - 1)) / 64
    size[127] = np.nan
    return np.concatenate([size, -size]).astype(np.float32)
