"""What an index keeps of a vector: codes, and how they are made and read.

`Codec` is what indexes ask of a quantizer. `WholeVectors` is the one that loses nothing.
`CodeFormat` says how native code is to read codes.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import numpy as np

__all__ = ["NO_TABLE", "CodeFormat", "CodeKind", "Codec", "WholeVectors"]

NO_TABLE = np.empty((0, 0), np.float32)


class CodeKind(IntEnum):
    """What codes are, numbered as in _native/search/coded_keys.h."""

    FLOAT32 = 0
    EIGHT_BITS = 1
    FOUR_BITS = 2
    FLOAT16 = 3
    PARTS = 4


class CodeFormat(NamedTuple):
    """How codes are read: component i is origins[i] + steps[i] * code, or from codebooks.

    `origins` and `steps` are (1, d); `codebooks` are (d, entries): for each component those of all
    entries of the codebook that it belongs to.
    """

    kind: CodeKind
    origins: np.ndarray = NO_TABLE
    steps: np.ndarray = NO_TABLE
    codebooks: np.ndarray = NO_TABLE


class Codec(Protocol):
    """Makes codes, `code_size` numbers of `code_dtype`, of vectors, and vectors of codes."""

    code_size: int
    code_dtype: np.dtype[Any]
    by_residual: bool  # whether inverted lists keep differences to their centroids, as in faiss

    @property
    def is_trained(self) -> bool:
        """Whether there is nothing to train, or that is done."""

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """Learns from float32 vectors (number, d)."""

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """The codes (number, code_size) of float32 vectors (number, d)."""

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The float32 vectors (number, d) that codes stand for."""

    def format(self) -> CodeFormat:
        """How native code reads the codes."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What was learnt, by name."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what is learnt, float32 arrays, by name."""

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """Takes back what `arrays` gave, of the right shapes.

        Returns:
            Why that or the codes cannot be right; None if they can.
        """


class WholeVectors:
    """Vectors as they are."""

    by_residual = False
    is_trained = True
    code_dtype: np.dtype[Any] = np.dtype(np.float32)

    def __init__(self, d: int) -> None:
        self.code_size = d

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """There is nothing to learn."""

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
        """Nothing was learnt."""
        return {}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Nothing is learnt."""
        return {}

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """There is nothing to take back."""
        return None
