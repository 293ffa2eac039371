"""The process-wide state of `compile`: a cache per owner, and the lock for captured state."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["PerOwnerCache", "capture_lock", "per_owner_cache"]

T = TypeVar("T")

# Held while captured containers are read, replaced by placeholders for a trace, or updated. Lock
# order: this one before the lock of a cache.
capture_lock = threading.RLock()


class PerOwnerCache:
    """One value per owner, keyed by the owner's identity and dropped when the owner dies."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # garbage collection may run user code that compiles
        self._kept: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def of(self, owner: Any, make: Callable[[], T]) -> T:
        """The value of `owner`, made on first use; TypeError if it cannot be weakly referenced."""
        number = id(owner)
        with self._lock:
            found = self._kept.get(number)
            if found is None or found[0]() is not owner:
                found = (weakref.ref(owner, lambda gone: self._forget(number, gone)), make())
                self._kept[number] = found
            kept: T = found[1]
            return kept

    def _forget(self, number: int, gone: weakref.ref[Any]) -> None:
        found = self._kept.get(number)
        if found is not None and found[0] is gone:
            self._kept.pop(number, None)

    def __len__(self) -> int:
        return len(self._kept)


per_owner_cache = PerOwnerCache()
