"""The precision of activations in products with quantised matrices: float32, or int8 in blocks that
share a scale. A process-wide setting that is part of the keys of programs.
"""

from __future__ import annotations

import numpy as np

__all__ = [
    "ACTIVATIONS",
    "ACTIVATION_BLOCK",
    "SMALLEST_BLOCK",
    "activations",
    "as_bytes",
    "choose_activations",
]

ACTIVATIONS = ("float32", "int8")
ACTIVATION_BLOCK = 32  # elements of a row that share a scale
# Counts as the largest element of blocks of smaller ones: 1/127 of it and its inverse are float32
# numbers, of full precision.
SMALLEST_BLOCK = 2.0**-118
_LARGEST = np.float32(127)


def activations() -> str:
    """The current setting: one of `ACTIVATIONS`."""
    return _activations


def choose_activations(name: str) -> None:
    """Changes the setting."""
    global _activations
    _activations = name


def as_bytes(rows: np.ndarray) -> np.ndarray:
    """Rows of float32 quantised to int8 and back: in each block, multiples of the largest magnitude
    / 127. A block that is not finite becomes NaN.
    """
    blocks = rows.reshape(-1, ACTIVATION_BLOCK)
    largest = np.maximum(abs(blocks).max(-1, keepdims=True), np.float32(SMALLEST_BLOCK))
    scale = np.where(np.isfinite(largest), largest / _LARGEST, np.float32(np.nan))
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.rint(blocks * (_LARGEST / largest)) * scale
    return found.reshape(rows.shape)


_activations = "float32"
