"""`FlatIndex`: exact search among all vectors, with the conventions of faiss's flat indexes."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

import ingot.core as mx
from ingot._native import constant
from ingot.graph.errors import type_name, value_text
from ingot.graph.shape import shape_text
from ingot.runtime.files.access import File
from ingot.search.metrics import MetricType, as_metric
from ingot.search.nearest_evaluation import rows_within
from ingot.search.storage import VectorStorage, refuse_in_trace
from ingot.search.storage_files import ArraySpec, load_index, save_index
from ingot.search.top_k import as_count, as_rows, as_vectors, nearest_of

__all__ = ["FlatIndex", "as_ids", "as_new_ids", "as_number"]

_RUNS_ONCE = "tracing runs it once, and later calls would not see it; do it outside"


class FlatIndex:
    """Uncompressed vectors; a search compares each query with each of them.

    `search` on arrays builds a lazy result like any operation: it can be part of a compiled
    function, of which the vectors are an input. A call of the compiled function finds what is in
    the index then, also what was added after the compilation.

    Vectors have the positions 0, 1, 2... as ids, unless they were added with ids. As in faiss,
    removing a vector without an explicit id renumbers those after it. Threads may search while
    another adds or removes: they see the vectors before or after that.

    Args:
        d: The length of the vectors.
        metric_type: A MetricType, its name ("l2", "inner_product", "cosine", "l1", "linf"), or
            faiss's number for it.
    """

    is_trained = True  # there is nothing to train; for code that handles all indexes alike

    def __init__(self, d: int, metric_type: MetricType | str | int = MetricType.L2) -> None:
        self.d = as_count("FlatIndex", "d", d)
        self.metric_type = as_metric("FlatIndex", metric_type)
        self._storage = VectorStorage(self.d)

    def __repr__(self) -> str:
        return (
            f"FlatIndex(d={self.d}, metric_type={self.metric_type.value!r}) "
            f"with {self._storage.count} vectors"
        )

    @property
    def ntotal(self) -> int:
        """The number of vectors."""
        refuse_in_trace("ntotal", "it is a number that would stay what it is while tracing")
        return self._storage.count

    def train(self, x: Any, progress: bool | None = None) -> None:
        """Check vectors as other indexes do; there is nothing to learn from them.

        Args:
            x: Vectors (number, d): an array, a NumPy array or a list of lists.
            progress: Taken by all indexes, for code that handles them alike.
        """
        refuse_in_trace("train", _RUNS_ONCE)
        as_rows("train", "vectors", x, self.d)

    def add(self, x: Any) -> None:
        """Add vectors, whose ids are their positions.

        Args:
            x: Vectors (number, d) of finite numbers: an array, a NumPy array or a list of lists.
        """
        refuse_in_trace("add", _RUNS_ONCE)
        vectors = as_rows("add", "vectors", x, self.d)
        self._storage.append("add", vectors, None)

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Add vectors with explicit ids.

        As in faiss's IndexIDMap, ids may occur several times: a search finds each of the vectors,
        `remove_ids` removes them all, and `reconstruct` gives the one that was added last.

        Args:
            x: Vectors (number, d) of finite numbers: an array, a NumPy array or a list of lists.
            ids: As many integers. -1 is reserved: searches return it where there is no vector.
        """
        refuse_in_trace("add_with_ids", _RUNS_ONCE)
        vectors = as_rows("add_with_ids", "vectors", x, self.d)
        numbers = as_new_ids(ids, len(vectors))
        self._storage.append("add_with_ids", vectors, numbers)

    def search(self, x: Any, k: int) -> tuple[mx.array, mx.array]:
        """The `k` nearest vectors of each query.

        Args:
            x: Queries (number, d): an array, a NumPy array or a list of lists.
            k: How many vectors to find, 1 or more.

        Returns:
            Distances (float32) and ids (int64), both (number, k), the nearest first. L2 distances
            are squared; inner products and cosines are large for near vectors. Where there are
            fewer than `k` vectors, none at all for instance, the id is -1 and the distance infinite
            (minus infinity for inner products and cosines); so it is for a query with NaN, which is
            near to nothing.
        """
        queries = as_vectors("search", "queries", x, self.d)
        rows, count, ids = self._storage.current()
        k = as_count("search", "k", k)
        distances, positions = nearest_of(queries, rows, count, k, self.metric_type)
        if ids.shape[0] == 0:
            return distances, positions
        # -1 indexes the last id, which is replaced afterwards.
        return distances, mx.where(positions < 0, positions, mx.take(ids, positions, 0))

    def range_search(self, x: Any, radius: float) -> tuple[mx.array, mx.array, mx.array]:
        """All vectors that are nearer to a query than `radius`.

        How many there are depends on values, so this cannot be part of a compiled function.

        Args:
            x: Queries (number, d): an array, a NumPy array or a list of lists.
            radius: Vectors are found whose distance is less (for L2: squared), or whose inner
                product or cosine is more.

        Returns:
            Limits (int64, number + 1), distances (float32) and ids (int64): those of query i are
            from limits[i] to limits[i + 1] - 1, in the order in which they were added.
        """
        refuse_in_trace("range_search", "how many vectors it finds depends on values")
        queries = as_vectors("range_search", "queries", x, self.d)._data
        rows, ids = self._storage.values()
        limit = as_number("range_search", "radius", radius)
        limits, distances, positions = rows_within(queries, rows, limit, self.metric_type.value)
        return (
            constant(limits, mx.int64),
            constant(distances, mx.float32),
            constant(ids[positions], mx.int64),
        )

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors.

        Args:
            ids: Integers, in a list or an array. Those that no vector has are ignored.

        Returns:
            How many vectors were removed.
        """
        refuse_in_trace("remove_ids", _RUNS_ONCE)
        unwanted = as_ids("remove_ids", ids)
        return self._storage.remove(unwanted)

    def reconstruct(self, key: int) -> mx.array:
        """The vector with an id; if there are several, the one that was added last."""
        refuse_in_trace("reconstruct", _RUNS_ONCE)
        rows, ids = self._storage.values()
        try:
            number = index(key)
        except TypeError:
            raise TypeError(f"[reconstruct] an id must be an int, got {type_name(key)}.") from None
        found = np.flatnonzero(ids == number)
        if len(found) == 0:
            raise ValueError(f"[reconstruct] none of the {len(rows)} vectors has the id {key}.")
        return constant(rows[found[-1]].copy(), mx.float32)

    def reset(self) -> None:
        """Remove all vectors."""
        refuse_in_trace("reset", _RUNS_ONCE)
        self._storage.clear()

    def save(self, file: File) -> None:
        """Save the index in a .safetensors file, as a whole or not at all.

        Args:
            file: A path, to which .safetensors is added if it is missing, or an open file.
        """
        refuse_in_trace("save", _RUNS_ONCE)
        rows, ids = self._storage.values()
        arrays = {"vectors": constant(rows, mx.float32)}
        if self._storage.has_ids:
            arrays["ids"] = constant(ids, mx.int64)
        save_index(file, "FlatIndex", {"d": self.d, "metric": self.metric_type.value}, arrays)

    @classmethod
    def load(cls, file: File) -> FlatIndex:
        """The index that was saved in a file; its searches give the same results."""
        found = load_index(file, "FlatIndex")
        found.require(set(found.settings) == {"d", "metric"}, "its settings are not d and metric")
        arguments = {"d": found.settings["d"], "metric_type": found.settings["metric"]}
        made: FlatIndex = found.make(cls, arguments)
        rows = ArraySpec(np.dtype(np.float32), ("vectors", made.d))
        found.check(
            {"vectors": rows, "ids": ArraySpec(np.dtype(np.int64), ("vectors",), optional=True)}
        )
        ids = found.arrays.get("ids")
        found.require(ids is None or not (ids == -1).any(), "-1 is among the ids, and is none")
        made._storage.append("load", found.arrays["vectors"], ids)
        return made


def as_ids(name: str, ids: Any) -> np.ndarray:
    """Validate ids from the user."""
    try:
        numbers = ids._data if isinstance(ids, mx.array) else np.asarray(ids)
    except (TypeError, ValueError):
        raise TypeError(f"[{name}] ids must be integers, got {value_text(ids)}.") from None
    if numbers.size == 0:
        numbers = numbers.astype(np.int64)
    if numbers.dtype.kind not in "iu":
        raise TypeError(
            f"[{name}] ids must be integers, got {type_name(ids)} of dtype {numbers.dtype}."
        )
    if numbers.ndim != 1:
        raise ValueError(f"[{name}] ids have 1 axis, got shape {shape_text(numbers.shape)}.")
    return numbers.astype(np.int64)


def as_new_ids(ids: Any, count: int) -> np.ndarray:
    """Validate ids from the user for vectors that are added."""
    numbers = as_ids("add_with_ids", ids)
    if len(numbers) != count:
        raise ValueError(f"[add_with_ids] {count} vectors need as many ids, got {len(numbers)}.")
    if (numbers == -1).any():
        raise ValueError("[add_with_ids] -1 cannot be an id: it stands for no vector.")
    return numbers


def as_number(name: str, what: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"[{name}] {what} must be a number, got {type_name(value)}.") from None
