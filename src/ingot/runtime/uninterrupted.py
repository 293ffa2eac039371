"""Defers Ctrl-C during an update until the update is finished or undone.

Python runs the SIGINT handler between any two instructions of the main thread, also in a `finally`
block. Code that puts placeholders into a user's model and removes them again, or that writes back
the results of a call, therefore runs `uninterrupted`: its own handler records the signal, and the
user's handler is called when everything is consistent. User functions in between, which may take
long, are interruptible: the user's handler raises inside them. What follows is cleanup, so the next
Ctrl-C is deferred again.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enums of `signal`: 0.3 and not 4 us
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["uninterrupted"]

_SIGINT: int = _signal.SIGINT


class uninterrupted:
    """A context that defers Ctrl-C to its end. Does nothing outside the main thread."""

    __slots__ = ("_is_open", "_noted", "_usual")

    def __enter__(self) -> uninterrupted:
        self._is_open = False
        self._noted: list[Any] = []  # the interrupted frame
        usual = None
        if threading.get_ident() == threading.main_thread().ident:
            usual = _signal.getsignal(_SIGINT)
        # This first, because the handler may be called at once. SIG_IGN and SIG_DFL are not
        # functions.
        self._usual: Any = usual if callable(usual) else None
        if self._usual is not None:
            _signal.signal(_SIGINT, self)
        return self

    def __call__(self, number: int, frame: Any) -> None:
        """The signal handler."""
        if not self._is_open:
            self._noted = [frame]
            return
        self._is_open = False  # if this raises, what follows is cleanup
        self._usual(number, frame)
        self._is_open = True

    def let_through(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function that Ctrl-C may interrupt."""
        self._is_open = True
        try:
            if self._noted:
                self._usual(_SIGINT, self._noted.pop())
            return function(*args, **kwargs)
        finally:
            self._is_open = False

    def __exit__(self, *_: object) -> None:
        if self._usual is None:
            return
        if _signal.getsignal(_SIGINT) is self:  # the user may have installed another handler
            _signal.signal(_SIGINT, self._usual)
        if self._noted:
            self._usual(_SIGINT, self._noted.pop())
