"""Search beyond one process: each rank of a group holds a part of the vectors.

All ranks call the same methods with the same arguments and get the same results, those of one index
with all vectors. A search runs on every rank's part at the same time; the candidates, `k` from each
rank, are exchanged and merged by distance, equal ones by id.
"""

from __future__ import annotations

import io
from operator import index as as_index
from pathlib import Path
from typing import Any

import numpy as np

import ingot.core as mx
from ingot._native import constant
from ingot.search.flat import FlatIndex, as_new_ids
from ingot.search.inverted.index import CodedIndex
from ingot.search.metrics import MetricType
from ingot.search.top_k import as_count, as_rows

__all__ = ["ShardedIndex"]


class ShardedIndex:
    """An index whose vectors are spread over the ranks of a group.

    Args:
        index: This rank's part: an empty index, made with the same arguments on all ranks.
        group: The ranks, all by default.

    Example:
        >>> index = ingot.search.ShardedIndex(ingot.search.FlatIndex(64))
        >>> index.add(vectors)  # all ranks give all vectors; each keeps its part
        >>> distances, ids = index.search(queries, 10)
    """

    def __init__(
        self, index: FlatIndex | CodedIndex, group: mx.distributed.Group | None = None
    ) -> None:
        if index.ntotal:
            raise ValueError(
                f"[ShardedIndex] begins with an empty index, got one with {index.ntotal} vectors."
            )
        self.index = index
        self.group = group or mx.distributed.init()
        self._next_id = 0

    def __repr__(self) -> str:
        group = self.group
        return f"ShardedIndex({self.index!r}, rank {group.rank()} of {group.size()})"

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.index.d

    @property
    def is_trained(self) -> bool:
        """Whether vectors can be added."""
        return self.index.is_trained

    @property
    def ntotal(self) -> int:
        """The number of vectors of all ranks, which all must ask for."""
        return self._sum(self.index.ntotal)

    def train(self, x: Any, progress: bool | None = None) -> None:
        """Learn centroids and codes on rank 0, and give them to all.

        Args:
            x: Vectors (number, d) like those that will be added; only those of rank 0 count.
            progress: Whether to show a progress bar; by default on terminals.
        """
        if isinstance(self.index, FlatIndex):
            return
        file = io.BytesIO()
        if self.group.rank() == 0:
            self.index.train(x, progress)
            self.index.save(file)
        self.index = type(self.index).load(io.BytesIO(self._from_first(file.getvalue())))

    def add(self, x: Any) -> None:
        """Add vectors, whose ids are their positions among all; each rank keeps an equal share.

        Args:
            x: Vectors (number, d) of finite numbers, the same on all ranks.
        """
        vectors = as_rows("add", "vectors", x, self.d)
        self.add_with_ids(vectors, np.arange(self._next_id, self._next_id + len(vectors)))

    def add_with_ids(self, x: Any, ids: Any) -> None:
        """Add vectors with explicit ids; each rank keeps an equal share.

        Args:
            x: Vectors (number, d) of finite numbers, the same on all ranks.
            ids: As many integers.
        """
        vectors = as_rows("add_with_ids", "vectors", x, self.d)
        numbers = as_new_ids(ids, len(vectors))
        size, rank = self.group.size(), self.group.rank()
        begin, end = (len(vectors) * number // size for number in (rank, rank + 1))
        self.index.add_with_ids(vectors[begin:end], numbers[begin:end])
        self._next_id += len(vectors)

    def add_shard(self, x: Any) -> None:
        """Add vectors that this rank alone has. Their ids continue, in the order of ranks.

        Args:
            x: Vectors (number, d) of finite numbers; the number may differ between ranks.
        """
        vectors = as_rows("add_shard", "vectors", x, self.d)
        counts: Any = mx.distributed.all_gather(
            mx.array([len(vectors)], mx.int64), group=self.group
        ).tolist()
        first = self._next_id + sum(counts[: self.group.rank()])
        self.index.add_with_ids(vectors, np.arange(first, first + len(vectors)))
        self._next_id += sum(counts)

    def search(self, x: Any, k: int, **options: Any) -> tuple[mx.array, mx.array]:
        """The `k` nearest vectors of each query, of all ranks.

        Args:
            x: Queries (number, d), the same on all ranks.
            k: How many vectors to find, 1 or more.
            options: What else the index's own search takes, such as `nprobe`.

        Returns:
            Distances (float32) and ids (int64), both (number, k), the nearest first.
        """
        k = as_count("search", "k", k)
        distances, ids = self.index.search(x, k, **options)
        size = self.group.size()
        if size == 1:
            return distances, ids
        shape = (size, *distances.shape)
        all_distances = mx.distributed.all_gather(distances, group=self.group)._data.reshape(shape)
        all_ids = mx.distributed.all_gather(ids, group=self.group)._data.reshape(shape)
        found = _merged(all_distances, all_ids, k, _is_similarity(self.index.metric_type))
        return constant(found[0], mx.float32), constant(found[1], mx.int64)

    def range_search(
        self, x: Any, radius: float, **options: Any
    ) -> tuple[mx.array, mx.array, mx.array]:
        """All vectors that are nearer to a query than `radius`, of all ranks.

        Args:
            x: Queries (number, d), the same on all ranks.
            radius: Vectors are found whose distance is less, or whose similarity is more.
            options: What else the index's own search takes, such as `nprobe`.

        Returns:
            Limits (int64, number + 1), distances (float32) and ids (int64): those of query i are
            from limits[i] to limits[i + 1] - 1, in the order of ids.
        """
        limits, distances, ids = (
            found._data for found in self.index.range_search(x, radius, **options)
        )
        queries = np.repeat(np.arange(len(limits) - 1), np.diff(limits))
        rows = np.concatenate([self._together(column) for column in (queries, ids)]).reshape(2, -1)
        values = self._together(distances)
        order = np.lexsort((rows[1], rows[0]))
        counts = np.bincount(rows[0], minlength=len(limits) - 1)
        return (
            constant(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), mx.int64),
            constant(values[order], mx.float32),
            constant(rows[1][order], mx.int64),
        )

    def remove_ids(self, ids: Any) -> int:
        """Remove vectors.

        Args:
            ids: Integers, in a list or an array. Those that no vector has are ignored.

        Returns:
            How many vectors of all ranks were removed.
        """
        return self._sum(self.index.remove_ids(ids))

    def reconstruct(self, key: int) -> mx.array:
        """The vector with an id, from the rank that has it."""
        number = as_index(key)
        found = mx.zeros((self.d,))
        owner = -1
        try:
            found, owner = self.index.reconstruct(number), self.group.rank()
        except ValueError as error:
            missing = error
        last = int(mx.distributed.all_max(mx.array(owner), group=self.group).item())
        if last < 0:
            raise ValueError(f"[reconstruct] no vector of any rank has the id {key}.") from missing
        return mx.distributed.broadcast(found, last, group=self.group)

    def reset(self) -> None:
        """Remove all vectors."""
        self.index.reset()
        self._next_id = 0

    def save(self, file: str | Path) -> None:
        """Save each rank's part in a file of its own: index.0-of-2.safetensors and so on.

        Args:
            file: The path without the number of the rank.
        """
        self.index.save(self._own_file(file, self.group))
        self._sum(0)  # all are there when any goes on

    @classmethod
    def load(
        cls, kind: Any, file: str | Path, group: mx.distributed.Group | None = None
    ) -> ShardedIndex:
        """The index that was saved by as many ranks.

        Args:
            kind: The class of the parts, such as `FlatIndex`.
            file: The path that was given to `save`.
            group: The ranks, all by default.
        """
        group = group or mx.distributed.init()
        made = cls.__new__(cls)
        made.group = group
        made.index = kind.load(cls._own_file(file, group))
        made._next_id = made._sum(made.index.ntotal)
        return made

    @staticmethod
    def _own_file(file: str | Path, group: mx.distributed.Group) -> Path:
        path = Path(file)
        name = path.name.removesuffix(".safetensors")
        return path.with_name(f"{name}.{group.rank()}-of-{group.size()}.safetensors")

    def _sum(self, number: int) -> int:
        total = mx.distributed.all_sum(mx.array(number, mx.int64), group=self.group)
        return int(total.item())

    def _from_first(self, content: bytes) -> bytes:
        """Bytes that rank 0 has, on all ranks."""
        length = self._sum(len(content))
        own = np.frombuffer(content, np.uint8) if content else np.zeros(length, np.uint8)
        return mx.distributed.broadcast(mx.array(own), group=self.group)._data.tobytes()

    def _together(self, column: np.ndarray) -> np.ndarray:
        """The elements of all ranks, whose numbers differ, in the order of ranks."""
        counts: Any = mx.distributed.all_gather(
            mx.array([len(column)], mx.int64), group=self.group
        ).tolist()
        padded = np.zeros(max(counts), column.dtype)
        padded[: len(column)] = column
        rows = mx.distributed.all_gather(mx.array(padded), group=self.group)._data
        parts = rows.reshape(len(counts), -1)
        return np.concatenate([row[:count] for row, count in zip(parts, counts, strict=True)])


def _is_similarity(metric: MetricType) -> bool:
    return metric in (MetricType.INNER_PRODUCT, MetricType.COSINE)


def _merged(
    distances: np.ndarray, ids: np.ndarray, k: int, largest: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The best `k` of the candidates (ranks, queries, k) of all ranks."""
    columns = np.moveaxis(distances, 0, 1).reshape(distances.shape[1], -1)
    numbers = np.moveaxis(ids, 0, 1).reshape(columns.shape)
    # Candidates that are none come last, behind equally infinite ones.
    order = np.lexsort((numbers, numbers < 0, -columns if largest else columns))[:, :k]
    return np.take_along_axis(columns, order, 1), np.take_along_axis(numbers, order, 1)
