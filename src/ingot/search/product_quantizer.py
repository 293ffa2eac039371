"""Product quantizer: a vector is cut into subvectors, each replaced by the nearest codebook entry.

The distance between a query and a code (asymmetric, because the query is not coded) is a sum over
subvectors of lookups in tables of the query's distances to all codebook entries. It equals the
distance to the decoded vector.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot.search.inverted.codes import CodeFormat, CodeKind
from ingot.search.kmeans import nearest_centroid, train_centroids
from ingot.search.metrics import MetricType
from ingot.search.top_k import as_count

__all__ = ["ProductQuantizer"]


MAX_TRIED = 4096  # values of M that an error message considers


class ProductQuantizer:
    """One byte per subvector.

    Args:
        name: The prefix of error messages.
        d: The length of vectors.
        M: The number of subvectors, which must divide `d`.
        nbits: Codebooks have 2**nbits entries; from 1 to 8.
    """

    by_residual = True
    code_dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __init__(self, name: str, d: int, M: int, nbits: int = 8) -> None:
        self.code_size = as_count(name, "M", M)
        self.nbits = as_count(name, "nbits", nbits)
        if self.nbits > 8:
            raise ValueError(f"[{name}] codes have at most 8 bits a subvector, got nbits={nbits}.")
        if d % self.code_size != 0:
            divisors = [str(m) for m in range(1, min(d, MAX_TRIED) + 1) if d % m == 0]
            raise ValueError(
                f"[{name}] cannot cut vectors of length {d} into M={M} equal subvectors: choose "
                f"M among {', '.join(divisors)}."
            )
        self._length = d // self.code_size
        self.codebooks: np.ndarray | None = None  # (M, 2**nbits, d / M)
        self._columns: tuple[np.ndarray, np.ndarray] | None = None  # codebooks, and transposed

    @property
    def is_trained(self) -> bool:
        """Whether there are codebooks."""
        return self.codebooks is not None

    def train(self, vectors: np.ndarray, seed: int, progress: bool | None) -> None:
        """Train all codebooks at once."""
        self.codebooks = train_centroids(
            f"a product quantizer of {self.code_size} subvectors",
            self._subvectors(vectors),
            1 << self.nbits,
            seed=seed,
            progress=progress,
        )

    def encode(self, vectors: np.ndarray) -> np.ndarray:
        """The indices of the nearest codebook entries."""
        assert self.codebooks is not None
        return nearest_centroid(self._subvectors(vectors), self.codebooks, MetricType.L2).T.astype(
            np.uint8, order="C"
        )

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """The concatenated codebook entries."""
        assert self.codebooks is not None
        subvectors, entries, length = self.codebooks.shape
        rows = codes + np.arange(0, subvectors * entries, entries)
        found = np.take(self.codebooks.reshape(-1, length), rows, 0)
        return found.reshape(len(codes), subvectors * length)

    def format(self) -> CodeFormat:
        """The codebooks, transposed; cached while they are unchanged."""
        assert self.codebooks is not None
        kept = self._columns
        if kept is None or kept[0] is not self.codebooks:
            subvectors, entries, length = self.codebooks.shape
            columns = self.codebooks.transpose(0, 2, 1).reshape(subvectors * length, entries)
            kept = self._columns = self.codebooks, np.ascontiguousarray(columns)
        return CodeFormat(CodeKind.PARTS, codebooks=kept[1])

    def arrays(self) -> dict[str, np.ndarray]:
        """The codebooks."""
        return {} if self.codebooks is None else {"codebooks": self.codebooks}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of the codebooks."""
        return {"codebooks": (self.code_size, 1 << self.nbits, self._length)}

    def restore(self, arrays: dict[str, np.ndarray], codes: np.ndarray) -> str | None:
        """Restore the codebooks."""
        self.codebooks = arrays.get("codebooks")
        most = int(codes.max(initial=0))
        if most >= 1 << self.nbits:
            return f"there is a code {most}, and codebooks have {1 << self.nbits} entries"
        return None

    def _subvectors(self, vectors: np.ndarray) -> np.ndarray:
        """The subvectors (M, number, d / M) of vectors."""
        length = vectors.shape[1] // self.code_size
        subvectors = vectors.reshape(len(vectors), self.code_size, length).transpose(1, 0, 2)
        return np.ascontiguousarray(subvectors)
