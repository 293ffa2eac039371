"""Indexes of coded vectors in inverted lists, with faiss's conventions.

`CodedIndex` implements all of them: vectors are assigned to the list of the nearest of `nlist`
centroids and replaced by codes; a search scans the `nprobe` lists whose centroids are nearest to a
query. Indexes without centroids have one list, which every search scans.
"""

from __future__ import annotations

from operator import index
from typing import Any, Self

import numpy as np

from ingot._native import array, constant
from ingot.graph.dtype import float32, int64
from ingot.runtime.files.access import File
from ingot.search.flat import as_ids, as_new_ids, as_number
from ingot.search.inverted.codes import Codec, WholeVectors
from ingot.search.inverted.files import load_coded, save_coded
from ingot.search.inverted.lists import InvertedLists, Lists
from ingot.search.inverted.search import (
    search_decoded,
    search_lists,
    search_lists_within,
    worth_decoding,
)
from ingot.search.kmeans import nearest_centroid, train_centroids, unit_vectors
from ingot.search.metrics import MetricType, as_metric
from ingot.search.nearest_evaluation import nearest_rows
from ingot.search.product_quantizer import ProductQuantizer
from ingot.search.scalar_quantizer import ScalarQuantizer
from ingot.search.storage import refuse_in_trace
from ingot.search.top_k import as_count, as_rows, as_vectors

__all__ = [
    "CodedIndex",
    "IVFFlatIndex",
    "IVFPQIndex",
    "IVFScalarQuantizerIndex",
    "PQIndex",
    "ScalarQuantizerIndex",
]

_COARSE_ITERATIONS = 10  # as in faiss: the centroids of lists need less accuracy than codebooks
_BY_VALUE = "it depends on values, which are not there while tracing"
_RUNS_ONCE = "tracing runs it once, and later calls would not see it; do it outside"


class CodedIndex:
    """The base of all indexes with codes; its subclasses define the codes.

    Attributes:
        d: The length of vectors.
        metric_type: The metric. Vectors are scaled to length 1 for "cosine".
        nlist: The number of inverted lists.
        nprobe: How many lists a search probes, 1 by default.
        seed: The seed of the training's random choices.
    """

    def __init__(
        self, d: int, metric_type: MetricType | str | int, nlist: int | None, codec: Codec
    ) -> None:
        self.d = d
        self.metric_type = as_metric(self._name, metric_type)
        if self.metric_type in (MetricType.L1, MetricType.LINF):
            raise ValueError(
                f"[{self._name}] knows the metrics 'l2', 'inner_product' and 'cosine', got "
                f"{self.metric_type.value!r}: FlatIndex knows all."
            )
        self.nlist = 1 if nlist is None else as_count(self._name, "nlist", nlist)
        self.nprobe = 1
        self.seed = 1234
        self._codec = codec
        self._has_centroids = nlist is not None
        self._centroids: np.ndarray | None = None
        self._lists = InvertedLists(self.nlist, codec.code_size, codec.code_dtype)
        self._next_id = 0
        self._numbered = True  # all ids are positions

    @property
    def _name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self._settings().items())
        state = f"{self._lists.total} vectors" if self.is_trained else "not trained"
        return f"{self._name}({settings}), {state}"

    def _settings(self) -> dict[str, Any]:
        """The arguments that construct an index like this one."""
        raise NotImplementedError

    @property
    def is_trained(self) -> bool:
        """Whether vectors can be added."""
        return self._codec.is_trained and (self._centroids is not None or not self._has_centroids)

    @property
    def ntotal(self) -> int:
        """The number of vectors."""
        refuse_in_trace("ntotal", "it is a number that would stay what it is while tracing")
        return self._lists.total

    def train(self, x: Any, progress: bool | None = None) -> None:
        """Learn centroids and codes from vectors like those that will be added.

        Args:
            x: Vectors (number, d): an array, a NumPy array or a list of lists. At least as many as
                centroids are needed; faiss advises 39 times as many, and so does a warning here.
            progress: Whether to show a progress bar; by default on terminals.
        """
        refuse_in_trace("train", _RUNS_ONCE)
        vectors = self._vectors("train", x)
        if self._lists.total > 0:
            raise ValueError(
                f"[train] the index has {self._lists.total} vectors, whose codes would lose their "
                "meaning: reset it first, or train a new one."
            )
        if self._has_centroids:
            self._centroids = train_centroids(
                f"{self.nlist} inverted lists",
                vectors[None],
                self.nlist,
                iterations=_COARSE_ITERATIONS,
                seed=self.seed,
                metric=self._compared,
                progress=progress,
            )[0]
        if self._residual:
            vectors = vectors - self._nearest_centroid(vectors)[1]
        self._codec.train(vectors, self.seed, progress)

    def add(self, x: Any) -> None:
        """Add vectors, whose ids are their numbers in the order of addition.

        Args:
            x: Vectors (number, d) of finite numbers: an array, a NumPy array or a list of lists.
        """
        refuse_in_trace("add", _RUNS_ONCE)
        self._require_training("add")
        vectors = self._vectors("add", x)
        if not self._numbered and not self._has_centroids:
            raise ValueError(
                "[add] the index has vectors with ids of their own: use add_with_ids, or reset."
            )
        self._append(vectors, np.arange(self._next_id, self._next_id + len(vectors)))

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Add vectors with explicit ids.

        Ids may occur several times: a search finds each of the vectors, `remove_ids` removes all.

        Args:
            x: Vectors (number, d) of finite numbers: an array, a NumPy array or a list of lists.
            ids: As many integers. -1 is reserved: searches return it where there is no vector.
        """
        refuse_in_trace("add_with_ids", _RUNS_ONCE)
        self._require_training("add_with_ids")
        vectors = self._vectors("add_with_ids", x)
        numbers = as_new_ids(ids, len(vectors))
        if self._numbered and self._lists.total > 0 and not self._has_centroids:
            raise ValueError(
                "[add_with_ids] the index has vectors that are numbered by position: add all "
                "vectors with ids or none, or reset."
            )
        self._numbered = False
        self._append(vectors, numbers)

    def _append(self, vectors: np.ndarray, ids: np.ndarray) -> None:
        lists = np.zeros(len(vectors), np.int64)
        if self._has_centroids:
            lists, centroids = self._nearest_centroid(vectors)
            if self._residual:
                vectors = vectors - centroids
        self._lists.append(self._codec.encode(vectors), ids, lists)
        self._next_id = max(self._next_id, int(ids.max(initial=-1)) + 1)

    def search(self, x: Any, k: int, nprobe: int | None = None) -> tuple[array, array]:
        """The `k` nearest vectors of each query, among the lists it probes.

        Args:
            x: Queries (number, d): an array, a NumPy array or a list of lists.
            k: How many vectors to find, 1 or more.
            nprobe: How many lists to probe instead of the attribute `nprobe`.

        Returns:
            Distances (float32) to the decoded vectors, and ids (int64), both
            (number, k), the nearest first. L2 distances are squared. Where fewer than `k` vectors
            are found, the id is -1 and the distance infinite (minus infinity for inner products
            and cosines).
        """
        refuse_in_trace("search", _BY_VALUE)
        self._require_training("search")
        k = as_count("search", "k", k)
        queries, probes = self._probes("search", x, nprobe)
        lists, metric, code_format = self._lists.read(), self._compared, self._codec.format()
        if worth_decoding(code_format, len(queries), self.nlist):
            found = search_decoded(queries, lists, self._decode, k, metric)
        else:
            centroids = self._centroids if self._residual else None
            found = search_lists(queries, probes, lists, code_format, centroids, k, metric)
        return constant(found[0], float32), constant(found[1], int64)

    def range_search(
        self, x: Any, radius: float, nprobe: int | None = None
    ) -> tuple[array, array, array]:
        """All vectors nearer to a query than `radius`, among the lists it probes.

        Args:
            x: Queries (number, d): an array, a NumPy array or a list of lists.
            radius: Vectors are found whose distance is less (for L2: squared), or whose inner
                product or cosine is more.
            nprobe: How many lists to probe instead of the attribute `nprobe`.

        Returns:
            Limits (int64, number + 1), distances (float32) and ids (int64): those of query i are
            from limits[i] to limits[i + 1] - 1.
        """
        refuse_in_trace("range_search", _BY_VALUE)
        self._require_training("range_search")
        queries, probes = self._probes("range_search", x, nprobe)
        limit = as_number("range_search", "radius", radius)
        limits, distances, ids = search_lists_within(
            queries, probes, self._lists.read(), self._decode, limit, self._compared
        )
        return constant(limits, int64), constant(distances, float32), constant(ids, int64)

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors.

        As in faiss, ids of other vectors stay in indexes with centroids. Others number the
        vectors again, unless these have ids of their own.

        Args:
            ids: Integers, in a list or an array. Those that no vector has are ignored.

        Returns:
            How many vectors were removed.
        """
        refuse_in_trace("remove_ids", _RUNS_ONCE)
        count = self._lists.remove(as_ids("remove_ids", ids))
        if self._numbered and not self._has_centroids:
            codes, numbers, limits = self._lists.read()
            self._lists.replace(Lists(codes, np.arange(len(numbers)), limits))
            self._next_id = len(numbers)
        return count

    def reconstruct(self, key: int) -> array:
        """The decoded vector with an id; if there are several, the last one."""
        refuse_in_trace("reconstruct", _BY_VALUE)
        lists = self._lists.read()
        found = np.flatnonzero(lists.ids == index(key))[-1:]
        if len(found) == 0:
            raise ValueError(
                f"[reconstruct] none of the {len(lists.ids)} vectors has the id {key}."
            )
        vectors = self._decode(int(lists.list_of(found)[0]), lists.codes[found])
        return constant(vectors[0].copy(), float32)

    def reset(self) -> None:
        """Remove all vectors; the training stays."""
        refuse_in_trace("reset", _RUNS_ONCE)
        self._lists.clear()
        self._next_id = 0
        self._numbered = True

    def save(self, file: File) -> None:
        """Save the index in a .safetensors file, as a whole or not at all.

        Args:
            file: A path, to which .safetensors is added if it is missing, or an open file.
        """
        refuse_in_trace("save", _RUNS_ONCE)
        save_coded(self, file)

    @classmethod
    def load(cls, file: File) -> Self:
        """The index that was saved in a file; its searches give the same results."""
        made: Self = load_coded(cls, file)
        return made

    # Implementation

    @property
    def _residual(self) -> bool:
        """Whether codes are of residuals to centroids."""
        return self._has_centroids and self._codec.by_residual

    @property
    def _compared(self) -> MetricType:
        """The metric for stored vectors: cosines are inner products of vectors of length 1."""
        cosine = self.metric_type is MetricType.COSINE
        return MetricType.INNER_PRODUCT if cosine else self.metric_type

    def _require_training(self, name: str) -> None:
        if not self.is_trained:
            raise RuntimeError(
                f"[{name}] this {self._name} is not trained: call train(x) with vectors like "
                "those to be added first."
            )

    def _vectors(self, name: str, x: Any) -> np.ndarray:
        vectors = as_rows(name, "vectors", x, self.d)
        if self.metric_type is MetricType.COSINE:
            return unit_vectors(vectors)
        return np.array(vectors, order="C")  # a copy: the user may change theirs

    def _nearest_centroid(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The list that each vector belongs to, and the centroids of those lists."""
        assert self._centroids is not None
        lists = nearest_centroid(vectors[None], self._centroids[None], self._compared)[0]
        return lists, self._centroids[lists]

    def _probes(self, name: str, x: Any, nprobe: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Queries, and the indices of the lists that each scans."""
        queries = np.ascontiguousarray(as_vectors(name, "queries", x, self.d)._data)
        if self.metric_type is MetricType.COSINE:
            queries = unit_vectors(queries)
        count = as_count(name, "nprobe", self.nprobe if nprobe is None else nprobe)
        if self._centroids is None:
            return queries, np.zeros((len(queries), 1), np.int64)
        shape = (len(queries), min(count, self.nlist))
        distances, lists = np.empty(shape, np.float32), np.empty(shape, np.int64)
        metric = self._compared.value
        nearest_rows(queries, self._centroids, self.nlist, metric, distances, lists)
        return queries, lists

    def _decode(self, number: int, codes: np.ndarray) -> np.ndarray:
        """Decode codes of a list."""
        vectors = self._codec.decode(codes)
        if self._residual:
            assert self._centroids is not None
            vectors += self._centroids[number]
        return vectors


class IVFFlatIndex(CodedIndex):
    """Inverted lists of uncompressed vectors.

    Args:
        d: The length of vectors.
        nlist: The number of lists.
        metric_type: "l2", "inner_product", "cosine", a MetricType, or faiss's number.
    """

    def __init__(
        self, d: int, nlist: int, metric_type: MetricType | str | int = MetricType.L2
    ) -> None:
        length = as_count(self._name, "d", d)
        super().__init__(length, metric_type, nlist, WholeVectors(length))

    def _settings(self) -> dict[str, Any]:
        return {"d": self.d, "nlist": self.nlist, "metric_type": self.metric_type.value}


class PQIndex(CodedIndex):
    """Codes of a product quantizer.

    Args:
        d: The length of vectors.
        M: The number of subvectors that a vector is cut into; it must divide `d`.
        nbits: Each subvector is replaced by one of 2**nbits entries; from 1 to 8.
        metric_type: "l2", "inner_product", "cosine", a MetricType, or faiss's number.
    """

    def __init__(
        self, d: int, M: int, nbits: int = 8, metric_type: MetricType | str | int = MetricType.L2
    ) -> None:
        length = as_count(self._name, "d", d)
        self.pq = ProductQuantizer(self._name, length, M, nbits)
        super().__init__(length, metric_type, None, self.pq)

    def _settings(self) -> dict[str, Any]:
        return {
            "d": self.d,
            "M": self.pq.code_size,
            "nbits": self.pq.nbits,
            "metric_type": self.metric_type.value,
        }


class IVFPQIndex(CodedIndex):
    """Inverted lists of product quantizer codes of residuals to the lists' centroids.

    Args:
        d: The length of vectors.
        nlist: The number of lists.
        M: The number of subvectors that a vector is cut into; it must divide `d`.
        nbits: Each subvector is replaced by one of 2**nbits entries; from 1 to 8.
        metric_type: "l2", "inner_product", "cosine", a MetricType, or faiss's number.
    """

    def __init__(
        self,
        d: int,
        nlist: int,
        M: int,
        nbits: int = 8,
        metric_type: MetricType | str | int = MetricType.L2,
    ) -> None:
        length = as_count(self._name, "d", d)
        self.pq = ProductQuantizer(self._name, length, M, nbits)
        super().__init__(length, metric_type, nlist, self.pq)

    def _settings(self) -> dict[str, Any]:
        return {
            "d": self.d,
            "nlist": self.nlist,
            "M": self.pq.code_size,
            "nbits": self.pq.nbits,
            "metric_type": self.metric_type.value,
        }


class ScalarQuantizerIndex(CodedIndex):
    """Codes of 8, 4 or 16 bits for each component of a vector.

    Args:
        d: The length of vectors.
        qtype: "8bit", "4bit" or "fp16".
        metric_type: "l2", "inner_product", "cosine", a MetricType, or faiss's number.
    """

    def __init__(
        self, d: int, qtype: str = "8bit", metric_type: MetricType | str | int = MetricType.L2
    ) -> None:
        length = as_count(self._name, "d", d)
        self.sq = ScalarQuantizer(self._name, length, qtype)
        super().__init__(length, metric_type, None, self.sq)

    def _settings(self) -> dict[str, Any]:
        return {"d": self.d, "qtype": self.sq.qtype, "metric_type": self.metric_type.value}


class IVFScalarQuantizerIndex(CodedIndex):
    """Inverted lists of codes of 8, 4 or 16 bits for each component of the difference to the
    list's centroid.

    Args:
        d: The length of vectors.
        nlist: The number of lists.
        qtype: "8bit", "4bit" or "fp16".
        metric_type: "l2", "inner_product", "cosine", a MetricType, or faiss's number.
    """

    def __init__(
        self,
        d: int,
        nlist: int,
        qtype: str = "8bit",
        metric_type: MetricType | str | int = MetricType.L2,
    ) -> None:
        length = as_count(self._name, "d", d)
        self.sq = ScalarQuantizer(self._name, length, qtype)
        super().__init__(length, metric_type, nlist, self.sq)

    def _settings(self) -> dict[str, Any]:
        return {
            "d": self.d,
            "nlist": self.nlist,
            "qtype": self.sq.qtype,
            "metric_type": self.metric_type.value,
        }
