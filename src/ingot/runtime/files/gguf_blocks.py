"""The elements of GGUF files: plain numbers, and blocks of codes with their scales.

Blocks of Q4_0, Q4_1 and Q8_0 hold what `quantized_matmul` takes, in another order, so they stay
codes of 4 or 8 bits in groups of 32. All others are dequantised to float16, as in MLX, which
supports fewer.

The layouts are those of ggml. Codes of a block of 32 are in two halves: the low bits of its bytes,
then the high bits. K-quants have blocks of 256 in sub-blocks of 16 or 32, whose scales are small
integers themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ingot._native import Dtype
from ingot.graph.dtype import float16, float32, float64, int8, int16, int32, int64

__all__ = ["BLOCKS", "CODES_OF_PLAIN", "PLAIN", "Blocks", "grouped_codes", "numbers_of_blocks"]

# Blocks that are decoded at a time: the temporaries stay in L2.
_AT_A_TIME = 512

PLAIN: dict[int, Dtype] = {
    0: float32,
    1: float16,
    24: int8,
    25: int16,
    26: int32,
    27: int64,
    28: float64,
}
CODES_OF_PLAIN = {dtype: code for code, dtype in PLAIN.items()}


class Blocks(NamedTuple):
    """A block format: its size in elements and bytes, and its decoder."""

    name: str
    elements: int
    nbytes: int
    numbers: Callable[[np.ndarray], np.ndarray]
    grouped_bits: int = 0  # bits per code, if blocks stay quantised


def numbers_of_blocks(kind: Blocks, data: np.ndarray) -> np.ndarray:
    """The decoded elements of consecutive blocks, in float16."""
    blocks = data.reshape(-1, kind.nbytes)
    numbers = np.empty((len(blocks), kind.elements), np.float16)
    with np.errstate(over="ignore", invalid="ignore"):  # corrupt scales may be NaN or too large
        for first in range(0, len(blocks), _AT_A_TIME):
            some = slice(first, first + _AT_A_TIME)
            numbers[some] = kind.numbers(blocks[some])
    return numbers


def grouped_codes(kind: Blocks, data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Blocks as packed codes, scales and biases: `scale * code + bias`, in groups of 32."""
    blocks = data.reshape(-1, kind.nbytes)
    scales = _halves(blocks, 0).copy()
    packed = np.empty((len(blocks), 4 * kind.grouped_bits), np.uint8)
    if kind.grouped_bits == 8:
        # Flipping the sign bit of signed bytes makes them offsets from -128.
        np.bitwise_xor(blocks[:, 2:], 0x80, out=packed)
        biases = scales * np.float16(-128)
    else:
        codes = blocks[:, -16:]
        even, odd = codes[:, 0::2], codes[:, 1::2]
        packed[:, :8] = (even & 0x0F) | (odd << 4)
        packed[:, 8:] = (even >> 4) | (odd & 0xF0)
        biases = scales * np.float16(-8) if kind.nbytes == 18 else _halves(blocks, 2).copy()
    return packed.view(np.uint32), scales, biases


def _halves(blocks: np.ndarray, first: int) -> np.ndarray:
    """The float16 number at a byte offset of each block, as a column."""
    return blocks[:, first : first + 2].copy().view(np.float16)


def _factor(blocks: np.ndarray, first: int) -> np.ndarray:
    return _halves(blocks, first).astype(np.float32)


def _nibbles(codes: np.ndarray) -> np.ndarray:
    """The low four bits of all bytes, then the high ones."""
    return np.concatenate([codes & 15, codes >> 4], axis=-1)


def _q4_0(blocks: np.ndarray) -> np.ndarray:
    return _factor(blocks, 0) * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: np.ndarray) -> np.ndarray:
    return _factor(blocks, 0) * _nibbles(blocks[:, 4:]) + _factor(blocks, 2)


def _fifth_bits(bits: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """5-bit codes, whose highest bits are in four separate bytes."""
    high = np.unpackbits(bits, axis=1, bitorder="little")
    return _nibbles(codes) | (high << 4)


def _q5_0(blocks: np.ndarray) -> np.ndarray:
    codes = _fifth_bits(blocks[:, 2:6], blocks[:, 6:])
    return _factor(blocks, 0) * (codes.astype(np.float32) - 16)


def _q5_1(blocks: np.ndarray) -> np.ndarray:
    return _factor(blocks, 0) * _fifth_bits(blocks[:, 4:8], blocks[:, 8:]) + _factor(blocks, 2)


def _q8_0(blocks: np.ndarray) -> np.ndarray:
    return _factor(blocks, 0) * blocks[:, 2:].view(np.int8)


def _two_bits(codes: np.ndarray) -> np.ndarray:
    """2-bit codes, (blocks, 16, 16): 32 bytes hold four rows of 32 codes."""
    halves = codes.reshape(-1, 2, 1, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 1, 4, 1)
    return ((halves >> shifts) & 3).reshape(-1, 16, 16)


def _q2_k(blocks: np.ndarray) -> np.ndarray:
    steps = blocks[:, :16]
    scales = _factor(blocks, 80) * (steps & 15)
    offsets = _factor(blocks, 82) * (steps >> 4)
    codes = _two_bits(blocks[:, 16:80])
    return (scales[..., None] * codes - offsets[..., None]).reshape(-1, 256)


def _q3_k(blocks: np.ndarray) -> np.ndarray:
    packed = blocks[:, 96:108]
    low = _nibbles(packed[:, :8])
    shifts = np.repeat(np.arange(0, 8, 2, dtype=np.uint8), 4)
    high = (np.tile(packed[:, 8:], 4) >> shifts) & 3
    scales = _factor(blocks, 108) * ((low | (high << 4)).astype(np.float32) - 32)
    # A cleared bit subtracts 4; bit n of byte l belongs to row n of 32 codes.
    bits = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    kept = ((blocks[:, None, :32] >> bits) & 1).reshape(-1, 16, 16)
    codes = _two_bits(blocks[:, 32:96]).astype(np.int8) - 4 + 4 * kept.astype(np.int8)
    return (scales[..., None] * codes).reshape(-1, 256)


def _scales_and_offsets(blocks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scales and offsets of 8 sub-blocks, 6 bits each, from the 12 bytes after two float16."""
    packed = blocks[:, 4:16]
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    steps = np.concatenate([first & 63, (third & 15) | ((first >> 6) << 4)], axis=1)
    down = np.concatenate([second & 63, (third >> 4) | ((second >> 6) << 4)], axis=1)
    scales, offsets = _factor(blocks, 0) * steps, _factor(blocks, 2) * down
    return scales[..., None], offsets[..., None]


def _q4_k(blocks: np.ndarray) -> np.ndarray:
    scales, offsets = _scales_and_offsets(blocks)
    codes = _nibbles(blocks[:, 16:].reshape(-1, 4, 32)).reshape(-1, 8, 32)
    return (scales * codes - offsets).reshape(-1, 256)


def _q5_k(blocks: np.ndarray) -> np.ndarray:
    scales, offsets = _scales_and_offsets(blocks)
    bits = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = (blocks[:, None, 16:48] >> bits) & 1
    codes = _nibbles(blocks[:, 48:].reshape(-1, 4, 32)).reshape(-1, 8, 32) | (high << 4)
    return (scales * codes - offsets).reshape(-1, 256)


def _q6_k(blocks: np.ndarray) -> np.ndarray:
    low = _nibbles(blocks[:, :128].reshape(-1, 2, 64)).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 1, 4, 1)
    high = (blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts) & 3
    codes = (low | (high << 4)).astype(np.int8) - 32
    scales = _factor(blocks, 208) * blocks[:, 192:208].view(np.int8)
    return (scales[..., None] * codes.reshape(-1, 16, 16)).reshape(-1, 256)


def _q8_k(blocks: np.ndarray) -> np.ndarray:
    scale: np.ndarray = blocks[:, :4].copy().view(np.float32)
    return scale * blocks[:, 4:260].view(np.int8)


def _bf16(blocks: np.ndarray) -> np.ndarray:
    high: np.ndarray = blocks.copy().view(np.uint16).astype(np.uint32) << 16
    return high.view(np.float32)


BLOCKS: dict[int, Blocks] = {
    2: Blocks("Q4_0", 32, 18, _q4_0, 4),
    3: Blocks("Q4_1", 32, 20, _q4_1, 4),
    6: Blocks("Q5_0", 32, 22, _q5_0),
    7: Blocks("Q5_1", 32, 24, _q5_1),
    8: Blocks("Q8_0", 32, 34, _q8_0, 8),
    10: Blocks("Q2_K", 256, 84, _q2_k),
    11: Blocks("Q3_K", 256, 110, _q3_k),
    12: Blocks("Q4_K", 256, 144, _q4_k),
    13: Blocks("Q5_K", 256, 176, _q5_k),
    14: Blocks("Q6_K", 256, 210, _q6_k),
    15: Blocks("Q8_K", 256, 292, _q8_k),
    30: Blocks("BF16", 1, 2, _bf16),
}
