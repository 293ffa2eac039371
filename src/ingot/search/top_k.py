"""`nearest`: the rows of a database that are nearest to queries. All indexes are built on it."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

import ingot.core as mx
from ingot.graph.device import StreamLike
from ingot.graph.errors import type_name, value_text
from ingot.graph.outputs import apply_multiple
from ingot.graph.shape import shape_text
from ingot.search.metrics import MetricType, as_metric
from ingot.search.nearest_rows import Nearest

__all__ = ["as_count", "as_rows", "as_vectors", "nearest", "nearest_of"]

_CHECKED_AT_ONCE = 4096  # rows checked at a time: few enough that the temporaries stay in cache


def nearest(
    queries: Any,
    database: Any,
    k: int,
    metric: MetricType | str | int = MetricType.L2,
    *,
    count: mx.array | None = None,
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """The `k` rows of a database that are nearest to each query.

    Distances and selection are one operation that never holds the distances of all pairs. It can
    be compiled and vectorised; the distances can be differentiated by queries and database.

    Args:
        queries: Vectors (queries, d): an array, a NumPy array or a list of lists.
        database: Vectors (rows, d).
        k: How many rows to find for each query, 1 or more.
        metric: A MetricType, its name ("l2", "inner_product", "cosine", "l1", "linf") or faiss's
            number.
        count: A 0-d int64 array: only that many first rows are searched.
        stream: The stream or device to run on.

    Returns:
        Distances and positions (int64), both (queries, k). The nearest row comes first, of equally
        near ones that with the smaller position. L2 distances are squared; for inner products and
        cosines, the largest come first. Where fewer than `k` rows have a finite distance, the
        position is -1 and the distance infinite (minus infinity for similarities); so it is for
        queries with NaN.
    """
    name = "nearest"
    kind = as_metric(name, metric)
    x = as_vectors(name, "queries", queries)
    y = as_vectors(name, "the database", database)
    if x.shape[1] != y.shape[1]:
        raise ValueError(
            f"[{name}] queries of shape {shape_text(x.shape)} and a database of shape "
            f"{shape_text(y.shape)} have vectors of different lengths."
        )
    if mx.float64 in (x.dtype, y.dtype):
        x, y = x.astype(mx.float64), y.astype(mx.float64)
    if count is not None and (count.ndim != 0 or not mx.issubdtype(count.dtype, mx.integer)):
        raise ValueError(
            f"[{name}] count must be an integer without axes, got {value_text(count)}."
        )
    limit = mx.array(y.shape[0], mx.int64) if count is None else count
    return nearest_of(x, y, limit, as_count(name, "k", k), kind, stream)


def nearest_of(
    queries: mx.array,
    database: mx.array,
    count: mx.array,
    k: int,
    metric: MetricType,
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """Same as `nearest`, for arrays that are known to fit."""
    distances, positions = apply_multiple(
        Nearest(k, metric.value), queries, database, count, stream=stream
    )
    return distances, positions


MAX_COUNT = 2**31 - 1  # of lists, of coordinates and of neighbours, as in faiss


def as_count(name: str, what: str, value: Any) -> int:
    """Validate a number from the user, which must be 1 or more."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"[{name}] {what} must be an int, got {type_name(value)}.") from None
    if number < 1:
        raise ValueError(f"[{name}] {what} must be 1 or more, got {number}.")
    if number > MAX_COUNT:
        raise ValueError(f"[{name}] {what} must be {MAX_COUNT} or less, got {number}.")
    return number


def as_vectors(name: str, what: str, value: Any, d: int | None = None) -> mx.array:
    """Vectors that a user gave, (number, d), as an array of floating-point numbers.

    Args:
        name: The prefix of error messages.
        what: What they call the vectors.
        value: An array, which may be lazy or a placeholder, a NumPy array or a list of lists.
        d: The length that the vectors must have; they become float32 then.
    """
    x = value if isinstance(value, mx.array) else _array_of(name, what, value)
    _check_shape(name, what, x.shape, d)
    if x.dtype in (mx.complex64, mx.bool_):
        raise ValueError(f"[{name}] {what} must be real numbers, got dtype {x.dtype.name}.")
    if x.dtype is mx.float32 or (x.dtype is mx.float64 and d is None):
        return x
    return x.astype(mx.float32)


def as_rows(name: str, what: str, value: Any, d: int) -> np.ndarray:
    """As `as_vectors`, evaluated: float32 vectors to be read at once, without a copy if possible.

    Raises:
        ValueError: A number is not finite: nothing is near to such a vector.
    """
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        rows = value
        _check_shape(name, what, rows.shape, d)
    else:
        rows = as_vectors(name, what, value, d)._data
    for start in range(0, len(rows), _CHECKED_AT_ONCE):
        is_finite = np.isfinite(rows[start : start + _CHECKED_AT_ONCE])
        if not is_finite.all():
            row = start + int(np.flatnonzero(~is_finite.all(1))[0])
            raise ValueError(
                f"[{name}] {what} are made of finite numbers; vector {row} has NaN or infinity."
            )
    return rows


def _check_shape(name: str, what: str, shape: tuple[int, ...], d: int | None) -> None:
    if len(shape) != 2:
        hint = " A single vector v is v[None]." if len(shape) == 1 else ""
        raise ValueError(
            f"[{name}] {what} have 2 axes (number, length), got shape {shape_text(shape)}.{hint}"
        )
    if d is not None and shape[1] != d:
        raise ValueError(
            f"[{name}] {what} of shape {shape_text(shape)} must have vectors of length {d}, "
            f"not {shape[1]}."
        )


def _array_of(name: str, what: str, value: Any) -> mx.array:
    try:
        return mx.array(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"[{name}] {what} are an array or a list of lists: {error}") from None
