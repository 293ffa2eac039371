"""Formats of quantised elements: codes of a few bits packed into 32-bit words, and 4- and 8-bit
floats.

Everything here is composed of elementwise operations, which fuse with their consumers: a matrix is
unpacked in the loop that applies its scales. Codes are packed from the lowest bits up; those of 3,
5 or 6 bits may straddle two words.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, float32, is_floating, uint8, uint32
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.exponential import log2
from ingot.ops.elementwise.rounding import floor, round
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.movement import require_array, reshape

__all__ = ["decode_fp4", "encode_fp4", "from_fp8", "pack", "to_fp8", "unpack"]

_WORD = 32  # bits; shifting by all of them gives 0

# Midpoints between the magnitudes of 4-bit floats: 0, 0.5, 1, 1.5, 2, 3, 4 and 6.
_FP4_STEPS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)

_FP8_LARGEST = 448.0  # the largest finite 8-bit float
_FP8_LARGEST_CODE = 0x7E
_FP8_NAN = 0x7F
_FP8_LOWEST_EXPONENT = -6  # below 2 ** -6 numbers are subnormal


@cache
def _shifts(bits: int, codes: int) -> tuple[np.ndarray, np.ndarray]:
    """For each word and code, the left and right shifts that move the code's bits into the word.

    A shift by the whole width means that the code is not in the word or moves the other way.
    """
    words = codes * bits // _WORD
    distance = np.arange(codes) * bits - np.arange(words)[:, None] * _WORD
    up = np.where((distance >= 0) & (distance < _WORD), distance, _WORD)
    down = np.where((distance < 0) & (distance > -bits), -distance, _WORD)
    return up.astype(np.uint32), down.astype(np.uint32)


def pack(codes: array, bits: int) -> array:
    """Pack codes of a few bits along the last axis into words."""
    count = _WORD // gcd(bits, _WORD)
    up, down = _shifts(bits, count)
    chunks = reshape(codes, (*codes.shape[:-1], codes.shape[-1] // count, 1, count))
    moved = chunks << array(up)
    if _crosses(bits):
        moved = moved | (chunks >> array(down))
    packed = sum(moved, -1)  # no bit is set twice
    return reshape(packed, (*codes.shape[:-1], codes.shape[-1] // count * len(up)))


def unpack(packed: array, bits: int) -> array:
    """Unpack words along the last axis: (..., words) become (..., chunks, codes).

    A chunk has as many codes as one or two vector registers, and is computed from all its words by
    shifts: that is faster than loading the one or two words of each code.
    """
    least = 16 if bits > 4 else 32
    count = max(_WORD // gcd(bits, _WORD), min(least, packed.shape[-1] * _WORD // bits))
    up, down = _shifts(bits, count)
    words = len(up)
    chunks = reshape(packed, (*packed.shape[:-1], packed.shape[-1] // words, words))
    codes: Any = None
    for word in range(words):
        bits_of_word = chunks[..., word : word + 1]
        part = bits_of_word >> array(up[word])
        if _crosses(bits):
            part = part | (bits_of_word << array(down[word]))
        codes = part if codes is None else codes | part
    mask = (1 << bits) - 1
    result: array = codes & mask
    return result


def _crosses(bits: int) -> bool:
    """Whether some codes straddle two words."""
    return _WORD % bits != 0


def encode_fp4(x: array) -> array:
    """Round to the nearest of the 15 4-bit floats, ties toward zero; returns codes.

    The highest bit is the sign, two are the exponent, one is the fraction. There is one zero.
    """
    size = abs(x)
    code = astype(size > _FP4_STEPS[0], uint32)
    for step in _FP4_STEPS[1:]:
        code = code + astype(size > step, uint32)
    negative = (x < 0) & (code > 0)
    return code | (astype(negative, uint32) << 3)


def decode_fp4(code: array) -> array:
    """Decode 4-bit floats to float32."""
    one = 1
    fraction = code & one
    exponent = (code >> one) & 3
    units = where(exponent == 0, fraction << one, (fraction + 2) << exponent)
    size = astype(units, float32) * 0.25
    return where((code & 8) == 0, size, -size)


def to_fp8(x: array, *, stream: StreamLike = None) -> array:
    """Numbers of 8 bits (1 sign, 4 exponent, 3 fraction: e4m3), as uint8.

    Rounded to nearest, ties to even. What is larger than 448, the largest, and NaN become 448.

    Args:
        x: Floating-point numbers.
        stream: The stream or device to run on.
    """
    if not is_floating(require_array("to_fp8", x).dtype):
        raise ValueError(f"[to_fp8] takes real floating-point numbers, got {x.dtype.name}.")
    wide = astype(x, float32, stream)
    size = abs(wide)
    fits = size < _FP8_LARGEST
    inside = where(fits, size, 1.0)
    # Where the logarithm rounds across a power of two, either exponent gives the same code.
    exponent = floor(log2(inside, stream=stream), stream=stream)
    above = where(
        exponent < _FP8_LOWEST_EXPONENT,
        0.0,
        exponent - _FP8_LOWEST_EXPONENT,
    )
    positions = astype(above, uint32)
    steps = inside * 512.0 / astype(array(1, uint32) << positions, float32)
    code = positions * 8 + astype(round(steps, stream=stream), uint32)
    code = where(fits, code, _FP8_LARGEST_CODE)
    # The reciprocal reveals the sign of zero.
    negative = (wide < 0) | (1 / wide < 0)
    return astype(where(negative, code + 128, code), uint8, stream)


def from_fp8(x: array, dtype: Dtype = bfloat16, *, stream: StreamLike = None) -> array:
    """The numbers that `to_fp8` made codes of.

    Args:
        x: The codes, uint8.
        dtype: The floating-point dtype of the result.
        stream: The stream or device to run on.
    """
    if require_array("from_fp8", x).dtype is not uint8:
        raise ValueError(f"[from_fp8] takes codes of dtype uint8, got {x.dtype.name}.")
    if not isinstance(dtype, Dtype):
        raise TypeError(f"[from_fp8] takes a dtype such as mx.float32, got {dtype!r}.")
    if not is_floating(dtype):
        raise ValueError(f"[from_fp8] makes real floating-point numbers, not {dtype.name}.")
    code = astype(x, uint32, stream)
    fraction = code & 7
    exponent = (code >> 3) & 15
    normal = (fraction + 8) << exponent
    units = where(exponent == 0, fraction << 1, normal)
    size = astype(units, float32) * (1 / 1024)
    size = where((code & _FP8_NAN) == _FP8_NAN, float("nan"), size)
    signed = where(code < 128, size, -size)
    return astype(signed, dtype, stream)
