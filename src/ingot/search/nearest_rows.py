"""The nearest rows of a database for each query: distances and selection in one op.

The matrix of all distances is never stored. Positions have no derivative; the derivative of a
distance is that between the query and the row that was found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.dtype import int64
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, size_of
from ingot.ops.elementwise.arithmetic import abs, sign
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.extremes import maximum
from ingot.ops.elementwise.powers import sqrt, square
from ingot.ops.index.indexing import Put, Take
from ingot.ops.reduce.extremes import max
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import arange, zeros_like
from ingot.ops.shape.movement import broadcast_to, expand_dims, reshape
from ingot.ops.shape.slicing import broadcast_batch
from ingot.search.nearest_evaluation import METRICS, nearest_rows

__all__ = ["METRICS", "Nearest"]


@dataclass(frozen=True)
class Nearest(Host):
    """Distances and positions of the `k` rows of a database that are nearest to each query.

    The inputs are queries (..., queries, d), a database (..., rows, d) and, of shape (...), how
    many of its rows count. Both results are (..., queries, k), the nearest first and equal
    distances in the order of rows; where there are fewer than `k` rows, and for rows whose distance
    is not finite, the position is -1 and the distance infinite (for similarities: minus
    infinity).
    """

    k: int
    metric: str

    several_outputs = True
    why_host = "it selects rows while it computes distances"

    def infer(self, queries: array, database: array, count: array) -> tuple[Any, ...]:
        shape: Shape = (*queries.shape[:-1], self.k)
        dtype: Dtype = queries.dtype
        return (shape, dtype), (shape, int64)

    def evaluate(
        self, queries: np.ndarray, database: np.ndarray, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        shape = (*queries.shape[:-1], self.k)
        distances, positions = np.empty(shape, queries.dtype), np.empty(shape, np.int64)
        if queries.ndim == 2:
            nearest_rows(queries, database, int(count), self.metric, distances, positions)
            return distances, positions
        for index in np.ndindex(*queries.shape[:-2]):
            nearest_rows(
                queries[index],
                database[index],
                int(count[index]),
                self.metric,
                distances[index],
                positions[index],
            )
        return distances, positions

    def vjp(
        self,
        cotangents: tuple[array | None, array | None],
        outputs: tuple[array, array],
        queries: array,
        database: array,
        count: array,
    ) -> tuple[array | None, ...]:
        cotangent = cotangents[0]
        if cotangent is None:
            return None, None, None
        distances, positions = outputs
        rows = _absolute_rows(positions, database.shape)
        found = positions >= 0
        distances = where(found, distances, 0)  # infinity times 0 is NaN
        by_query, by_row = self._partials(queries, _table(database), rows, distances)
        weight = expand_dims(where(found, cotangent, 0), -1)

        def of_database() -> array:
            shares = weight * by_row
            empty = zeros_like(_table(database))
            return reshape(apply(Put((0,), "add"), empty, shares, rows), database.shape)

        return sum(weight * by_query, -2), of_database, None  # type: ignore[return-value]

    def jvp(
        self,
        tangents: tuple[array | None, ...],
        outputs: tuple[array, array],
        queries: array,
        database: array,
        count: array,
    ) -> tuple[array | None, array | None]:
        distances, positions = outputs
        rows = _absolute_rows(positions, database.shape)
        found = positions >= 0
        distances = where(found, distances, 0)
        partials = self._partials(queries, _table(database), rows, distances)
        change = zeros_like(distances)
        if tangents[0] is not None:
            change = change + sum(partials[0] * expand_dims(tangents[0], -2), -1)
        if tangents[1] is not None:
            along = apply(Take((0,)), _table(tangents[1]), rows)
            change = change + sum(partials[1] * along, -1)
        return where(found, change, 0), None

    def _partials(
        self, queries: array, table: array, rows: array, distances: array
    ) -> tuple[array, array]:
        """The derivatives of each distance with respect to its query and its row, (..., queries, k,
        d).
        """
        x = expand_dims(queries, -2)
        y = apply(Take((0,)), table, rows)
        x = broadcast_to(x, y.shape)
        if self.metric == "inner_product":
            return y, x
        if self.metric == "cosine":
            similarity = expand_dims(distances, -1)
            x_unit, x_inverse = _unit(x)
            y_unit, y_inverse = _unit(y)
            return (
                (y_unit - similarity * x_unit) * x_inverse,
                (x_unit - similarity * y_unit) * y_inverse,
            )
        difference = x - y
        if self.metric == "l2":
            partial = 2 * difference
        elif self.metric == "l1":
            partial = sign(difference)
        else:
            size = abs(difference)
            largest = size == max(size, -1, keepdims=True)
            partial = where(largest, sign(difference), 0)
            partial = partial / sum(largest.astype(partial.dtype), -1, keepdims=True)
        return partial, -partial

    def vmap(
        self,
        size: int,
        batched: tuple[bool, bool, bool],
        queries: array,
        database: array,
        count: array,
    ) -> tuple[array, ...]:
        if database.ndim == 2 and not batched[1] and not batched[2]:
            # One database for all: the queries of the batch form one longer list.
            together = reshape(queries, (-1, queries.shape[-1]))
            outputs = apply_multiple(self, together, database, count)
            return tuple(reshape(x, (*queries.shape[:-1], self.k)) for x in outputs)
        return apply_multiple(
            self,
            broadcast_batch(queries, size, batched[0]),
            broadcast_batch(database, size, batched[1]),
            broadcast_batch(count, size, batched[2]),
        )


def _table(database: array) -> array:
    """The databases of a stack, concatenated."""
    return reshape(database, (-1, database.shape[-1]))


def _absolute_rows(positions: array, shape: Shape) -> array:
    """Row indices in the concatenated databases; 0 for rows that were not found."""
    rows = maximum(positions, 0)
    stack = shape[:-2]
    if not stack:
        return rows
    first = arange(size_of(stack), dtype=int64) * shape[-2]
    return rows + reshape(first, (*stack, 1, 1))


def _unit(x: array) -> tuple[array, array]:
    """x scaled to length 1, and the inverse of its length; 0 for both where x is 0."""
    length = sqrt(sum(square(x), -1, keepdims=True))
    is_zero = length == 0
    inverse = where(is_zero, 0, 1 / where(is_zero, 1, length))
    return x * inverse, inverse
