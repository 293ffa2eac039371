"""Suspends garbage collection while the compiler runs.

The forms of a large program are hundreds of thousands of objects that all live until the program is
complete. Python's collector traverses them again and again as their number grows and frees nothing:
that took a fifth of the time of compiling a training step of 24 transformer blocks.
"""

from __future__ import annotations

import gc
import threading
from types import TracebackType

__all__ = ["collection_put_off"]


class _PutOff:
    """Disables the collector for a `with` block, and enables it when no thread is in one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may compile
        self._depth = 0
        self._was_enabled = False

    def __enter__(self) -> None:
        with self._lock:
            if self._depth == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and self._was_enabled:
                gc.enable()


collection_put_off = _PutOff()
