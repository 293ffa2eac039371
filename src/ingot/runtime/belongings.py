"""What `compile` keeps for the whole process: what belongs to functions, and a lock."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["Belongings", "belongings", "capture_lock"]

T = TypeVar("T")

# Held while captured containers are read, replaced by placeholders for a trace, or updated. Whoever
# needs the lock of a cache as well takes this one first.
capture_lock = threading.RLock()


class Belongings:
    """Something for each owner, found by the owner's identity and gone with it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # garbage collection may run code of users that compiles
        self._kept: dict[int, tuple[weakref.ref[Any], Any]] = {}

    def of(self, owner: Any, make: Callable[[], T]) -> T:
        """What belongs to `owner`, made at first; TypeError if it cannot be weakly referenced."""
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


belongings = Belongings()
