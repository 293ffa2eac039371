"""The precision of activations in products with quantised matrices: float32, or int8 in blocks that
share a scale. A process-wide setting that is part of the keys of programs.
"""

from __future__ import annotations

import numpy as np

__all__ = ["ACTIVATIONS", "ACTIVATION_BLOCK", "activations", "as_bytes", "choose_activations"]

ACTIVATIONS = ("float32", "int8")
ACTIVATION_BLOCK = 32  # elements of a row that share a scale
_LARGEST = 127


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
    largest = abs(blocks).max(-1, keepdims=True)
    scale = np.where(np.isfinite(largest), largest / np.float32(_LARGEST), np.float32(np.nan))
    inverse = np.divide(
        np.float32(_LARGEST), largest, out=np.zeros_like(largest), where=largest > 0
    )
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.rint(blocks * inverse) * scale
    return found.reshape(rows.shape)


_activations = "float32"
