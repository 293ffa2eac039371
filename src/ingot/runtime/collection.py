"""Suspends garbage collection while the compiler runs.

The forms of a large program are hundreds of thousands of objects that all live until the program is
complete. Python's collector traverses them again and again as their number grows and frees nothing:
that took a fifth of the time of compiling a training step of 24 transformer blocks.
"""

from __future__ import annotations

import gc
import os
import threading
from types import TracebackType

__all__ = ["collection_put_off"]


class _PutOff:
    """Disables the collector inside a `with` block; re-enabled when no thread is in one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may compile
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
            self._depth = max(0, self._depth - 1)  # 0 if the block itself has forked
            if self._depth == 0 and self._was_enabled:
                gc.enable()

    def after_fork(self) -> None:
        """Resets the state in a forked process, which has no other threads to leave blocks."""
        self._lock = threading.RLock()
        if self._depth > 0 and self._was_enabled:
            gc.enable()
        self._depth = 0


collection_put_off = _PutOff()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=collection_put_off.after_fork)
