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

__all__ = ["collection_paused", "objects_stay"]


class _Blocks:
    """Counts the `with` blocks in which the collector is disabled, in all threads."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may compile
        self._depth = 0
        self._was_enabled = False

    def begin(self) -> None:
        """Enters a block."""
        with self._lock:
            if self._depth == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._depth += 1

    def end(self) -> None:
        """Leaves a block: the collector is enabled again when no thread is in one."""
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


_blocks = _Blocks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blocks.after_fork)


class collection_paused:
    """Disables the collector inside a `with` block. Ctrl-C may arrive while the block is entered,
    before Python knows that it has to be left: then the end of this object leaves it.
    """

    def __init__(self) -> None:
        self._is_inside = False

    def __enter__(self) -> None:
        self._is_inside = True
        _blocks.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self._is_inside:
            self._is_inside = False
            _blocks.end()


class objects_stay(collection_paused):
    """Disables the collector inside a `with` block that makes objects to stay, such as modules:
    they join the oldest generation at once, without being traversed in the younger ones. An import
    of ingot and NumPy makes 60,000 of them, which took 5 of 75 ms.
    """

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not gc.get_freeze_count():  # else what the program has frozen would thaw
            gc.freeze()
            gc.unfreeze()
        super().__exit__(kind, error, traceback)
