"""The codes that an index stores for vectors, and how they are encoded and decoded.

`Codec` is the interface of a quantizer. `WholeVectors` is the lossless one. `CodeFormat` tells
native code how to read codes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["NO_TABLE", "CodeFormat", "CodeKind", "Codec", "WholeVectors"]

NO_TABLE = np.empty((0, 0), np.float32)


class CodeKind(IntEnum):
    """The kinds of codes, numbered as in _native/search/coded_keys.h."""

    FLOAT32 = 0
    EIGHT_BITS = 1
    FOUR_BITS = 2
    FLOAT16 = 3
    PARTS = 4


class CodeFormat(NamedTuple):
    """How codes are read: component i is origins[i] + steps[i] * code, or comes from codebooks.

    `origins` and `steps` are (1, d); `codebooks` are (d, entries): for each component, its value in
    every entry of its codebook.
    """

    kind: CodeKind
    origins: np.ndarray = NO_TABLE
    steps: np.ndarray = NO_TABLE
    codebooks: np.ndarray = NO_TABLE


class Codec(Protocol):
    """Encodes vectors as `code_size` numbers of `code_dtype`, and decodes them."""

    code_size: int
    code_dtype: np.dtype[Any]
    by_residual: bool  # whether inverted lists store residuals to their centroids, as in faiss

    @property
    def is_trained(self) -> bool:
        """Whether it is trained, or needs no training."""

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """Train on float32 vectors (number, d)."""

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """The codes (number, code_size) of float32 vectors (number, d)."""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The float32 vectors (number, d) that codes decode to."""

    def format(self) -> CodeFormat:
        """How native code reads the codes."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The trained parameters, by name."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the trained parameters, float32 arrays, by name."""

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """Restore parameters from `arrays`, which have the right shapes.

        Returns:
            Why that or the codes cannot be right; None if they can.
        """


class WholeVectors:
    """Uncompressed vectors."""

    by_residual = False
    is_trained = True
    code_dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, d: int) -> None:
        self.code_size = d

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """Nothing to train."""

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """The vectors."""
        return vectors

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The vectors."""
        return codes

    def format(self) -> CodeFormat:
        """The vectors themselves."""
        return CodeFormat(CodeKind.FLOAT32)

    def arrays(self) -> dict[str, np.ndarray]:
        """No trained parameters."""
        return {}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """No trained parameters."""
        return {}

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """Nothing to restore."""
        return None
