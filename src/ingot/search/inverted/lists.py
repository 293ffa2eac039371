"""Inverted lists: codes and ids of vectors, contiguous per list.

Additions are buffered in order and sorted into their lists by the next read. The arrays of lists
are never modified but replaced, so readers can keep using the ones they have.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np

__all__ = ["InvertedLists", "Lists"]


class Lists(NamedTuple):
    """All codes and ids, grouped by list: list i is limits[i] to limits[i + 1] - 1."""

    codes: np.ndarray
    ids: np.ndarray
    limits: np.ndarray

    def list_of(self, positions: np.ndarray) -> np.ndarray:
        """The indices of the lists that positions belong to."""
        return np.searchsorted(self.limits, positions, side="right") - 1


class InvertedLists:
    """Codes of `code_size` numbers of `dtype` with ids, in `count` lists."""

    def __init__(self, count: int, code_size: int, dtype: np.dtype[Any]) -> None:
        self.count = count
        self._lock = threading.RLock()
        limits = np.zeros(count + 1, np.int64)
        self._none = Lists(np.empty((0, code_size), dtype), np.empty(0, np.int64), limits)
        self._lists = self._none
        self._waiting: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    @property
    def total(self) -> int:
        """The number of codes in all lists."""
        with self._lock:
            return len(self._lists.ids) + sum(len(ids) for _, ids, _ in self._waiting)

    def append(self, codes: np.ndarray, ids: np.ndarray, lists: np.ndarray) -> None:
        """Add codes, each to one of the lists."""
        with self._lock:
            self._waiting.append((codes, ids, lists))

    def read(self) -> Lists:
        """The current lists."""
        with self._lock:
            if self._waiting:
                there = np.repeat(np.arange(self.count), np.diff(self._lists.limits))
                batches = [(self._lists.codes, self._lists.ids, there), *self._waiting]
                codes, ids, lists = (
                    np.concatenate(arrays) for arrays in zip(*batches, strict=True)
                )
                self._lists = self._sorted(codes, ids, lists)
                self._waiting = []
            return self._lists

    def replace(self, lists: Lists) -> None:
        """Replace all codes."""
        with self._lock:
            self._lists = lists
            self._waiting = []

    def remove(self, unwanted: np.ndarray) -> int:
        """Remove the codes with these ids. Returns how many there were."""
        with self._lock:
            codes, ids, limits = self.read()
            kept = ~np.isin(ids, unwanted)
            before = np.concatenate([[0], np.cumsum(kept)])
            self._lists = Lists(codes[kept], ids[kept], before[limits])
            return int(len(ids) - before[-1])

    def clear(self) -> None:
        """Remove everything."""
        self.replace(self._none)

    def _sorted(self, codes: np.ndarray, ids: np.ndarray, lists: np.ndarray) -> Lists:
        limits = np.zeros(self.count + 1, np.int64)
        np.cumsum(np.bincount(lists, minlength=self.count), out=limits[1:])
        if self.count == 1:
            return Lists(codes, ids, limits)
        order = np.argsort(lists, kind="stable")
        return Lists(codes[order], ids[order], limits)
