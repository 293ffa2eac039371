"""Vector storage of an index: rows that grow in place, with snapshots that stay valid.

The rows are in one array with spare capacity, and a count says how many of them are in use. New
rows are written after the last one, and then the count is replaced. A reader that took rows and
count before, such as a search that is not evaluated yet, still sees that snapshot. The capacity
doubles when it is exhausted, so that compiled functions, which take the rows as an input, are
retraced only then. Removal copies the remaining rows.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array, constant
from ingot.graph.dtype import float32, int64
from ingot.graph.state import State, current_state, state_lock

__all__ = ["VectorStorage", "refuse_in_trace"]

LEAST_ROOM = 64  # minimum capacity in rows


def refuse_in_trace(name: str, why: str) -> None:
    """ValueError while compile traces this thread's function, which runs only once."""
    if _native.recording():
        raise ValueError(f"[{name}] cannot be used inside a compiled function: {why}.")


def _room(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Memory from ingot's allocator; pages that are not written yet take none."""
    token = _native.enter_numpy_memory()
    try:
        return np.empty(shape, dtype)
    finally:
        _native.leave_numpy_memory(token)


class VectorStorage:
    """float32 vectors of one length, with explicit ids or numbered from 0.

    Threads may read while one adds: they see the vectors before or after.
    """

    def __init__(self, d: int) -> None:
        self._d = d
        self._lock = threading.RLock()  # one writer at a time
        self._rows = _room((0, d), np.float32)
        self._ids: np.ndarray | None = None  # None: numbered by position
        self._count = 0
        self._state: State = []
        self._publish(0)

    @property
    def count(self) -> int:
        """The number of vectors."""
        return self._count

    @property
    def has_ids(self) -> bool:
        """Whether the vectors have explicit ids."""
        return self._ids is not None

    def current(self) -> tuple[array, array, array]:
        """The rows, of which only the first ones are vectors, how many those are, and their ids.

        Ids have length 0 if vectors are numbered by position. While compile traces, the three are
        inputs of the compiled function.
        """
        rows, count, ids = current_state(self._state, "an index")
        return rows, count, ids

    def values(self) -> tuple[np.ndarray, np.ndarray]:
        """The current vectors and their ids: views that stay valid."""
        with self._lock:
            count = self._count
            ids = np.arange(count) if self._ids is None else self._ids[:count]
            return self._rows[:count], ids

    def append(self, name: str, vectors: np.ndarray, ids: np.ndarray | None) -> None:
        """Add vectors; either all vectors of a storage have ids or none has."""
        with self._lock:
            if self._count > 0 and (ids is None) != (self._ids is None):
                there = "numbered by position" if ids is not None else "with ids of their own"
                raise ValueError(
                    f"[{name}] the index has vectors {there}: add all vectors with add_with_ids or "
                    "all with add, or reset the index first."
                )
            count = self._count + len(vectors)
            if count > len(self._rows):
                self._grow(max(count, 2 * len(self._rows), LEAST_ROOM))
            if ids is None:
                self._ids = None
            else:
                if self._ids is None:
                    self._ids = _room((len(self._rows),), np.int64)
                self._ids[self._count : count] = ids
            self._rows[self._count : count] = vectors
            self._publish(count)

    def remove(self, unwanted: np.ndarray) -> int:
        """Remove the vectors with these ids; returns how many there were.

        The others move to new memory of the same capacity: readers of the old memory still see all.
        """
        with self._lock:
            rows, ids = self.values()
            kept = np.flatnonzero(~np.isin(ids, unwanted))
            removed = self._count - len(kept)
            if removed == 0:
                return 0
            self._rows = _room(self._rows.shape, np.float32)
            np.take(rows, kept, 0, out=self._rows[: len(kept)], mode="clip")
            if self._ids is not None:
                self._ids = _room(self._ids.shape, np.int64)
                self._ids[: len(kept)] = ids[kept]
            self._publish(len(kept))
            return removed

    def clear(self) -> None:
        """Remove all vectors and their ids."""
        with self._lock:
            self._rows = _room((0, self._d), np.float32)
            self._ids = None
            self._publish(0)

    def _grow(self, length: int) -> None:
        rows = _room((length, self._d), np.float32)
        rows[: self._count] = self._rows[: self._count]
        self._rows = rows
        if self._ids is not None:
            ids = _room((length,), np.int64)
            ids[: self._count] = self._ids[: self._count]
            self._ids = ids

    def _publish(self, count: int) -> None:
        """Publish the new state to readers; the count comes last, so that a reader that sees a new
        count finds the vectors.
        """
        ids = np.empty(0, np.int64) if self._ids is None else self._ids
        with state_lock:
            if not self._state or self._state[0]._data is not self._rows:
                rows = constant(self._rows, float32)
            else:
                rows = self._state[0]
            self._state[:] = [
                rows,
                constant(np.array(count, np.int64), int64),
                constant(ids, int64),
            ]
            self._count = count
