"""Scalar quantizer: each component of a vector is replaced by a short code.

As in faiss: the range of each component in the training vectors is divided into equal steps, and a
code decodes to the middle of its step; or components become half-precision floats, which need no
training.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.search.inverted.codes import CodeFormat, CodeKind

__all__ = ["QTYPES", "ScalarQuantizer"]

QTYPES = ("8bit", "4bit", "fp16")
_KINDS = dict(zip(QTYPES, (CodeKind.EIGHT_BITS, CodeKind.FOUR_BITS, CodeKind.FLOAT16), strict=True))


class ScalarQuantizer:
    """Codes of 8, 4 or 16 bits for each component.

    Args:
        name: The prefix of error messages.
        d: The length of vectors.
        qtype: "8bit", "4bit" or "fp16".
    """

    by_residual = True

    def __init__(self, name: str, d: int, qtype: str = "8bit") -> None:
        if qtype not in QTYPES:
            raise ValueError(
                f"[{name}] a scalar quantizer has the type {', '.join(map(repr, QTYPES))}, got "
                f"{qtype!r}."
            )
        self.d = d
        self.qtype = qtype
        self.code_size = (d + 1) // 2 if qtype == "4bit" else d
        self.code_dtype: np.dtype[Any] = np.dtype(np.float16 if qtype == "fp16" else np.uint8)
        self._steps = 15 if qtype == "4bit" else 255
        self._lowest: np.ndarray | None = None  # of each component
        self._range: np.ndarray | None = None

    @property
    def is_trained(self) -> bool:
        """Whether the ranges are known, or not needed."""
        return self.qtype == "fp16" or self._lowest is not None

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """Learn the ranges of components."""
        if len(vectors) == 0:
            raise ValueError("[train] a scalar quantizer needs at least 1 training vector, got 0.")
        if self.qtype != "fp16":
            self._lowest = vectors.min(0)
            self._range = vectors.max(0) - self._lowest

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """The step of each component; values out of range are clamped."""
        if self.qtype == "fp16":
            largest = float(np.finfo(np.float16).max)
            return np.clip(vectors, -largest, largest).astype(np.float16)
        assert self._lowest is not None
        assert self._range is not None
        fractions = np.divide(
            vectors - self._lowest,
            self._range,
            out=np.zeros(vectors.shape, np.float32),
            where=self._range > 0,
        )
        codes = (np.clip(fractions, 0, 1) * np.float32(self._steps)).astype(np.uint8)
        if self.qtype == "8bit":
            return codes
        padded = np.zeros((len(codes), 2 * self.code_size), np.uint8)
        padded[:, : self.d] = codes
        return padded[:, ::2] | (padded[:, 1::2] << 4)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The middles of the steps."""
        if self.qtype == "fp16":
            return codes.astype(np.float32)
        assert self._lowest is not None
        assert self._range is not None
        if self.qtype == "4bit":
            pairs = np.stack([codes & 15, codes >> 4], 2)
            codes = pairs.reshape(len(codes), 2 * self.code_size)[:, : self.d]
        vectors = codes.astype(np.float32)
        vectors += 0.5
        vectors *= self._range / np.float32(self._steps)
        vectors += self._lowest
        return vectors

    def format(self) -> CodeFormat:
        """The origins and sizes of the steps."""
        kind = _KINDS[self.qtype]
        if self._lowest is None or self._range is None:
            return CodeFormat(
                kind, np.zeros((1, self.d), np.float32), np.ones((1, self.d), np.float32)
            )
        steps = self._range / np.float32(self._steps)
        return CodeFormat(kind, (self._lowest + np.float32(0.5) * steps)[None], steps[None])

    def arrays(self) -> dict[str, np.ndarray]:
        """The ranges."""
        if self._lowest is None or self._range is None:
            return {}
        return {"lowest": self._lowest, "range": self._range}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the ranges."""
        return {} if self.qtype == "fp16" else {"lowest": (self.d,), "range": (self.d,)}

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """Restore the ranges."""
        self._lowest = arrays.get("lowest")
        self._range = arrays.get("range")
        if self._range is not None and (self._range < 0).any():
            return "the range of a component is negative"
        return None
