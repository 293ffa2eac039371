"""Ctrl-C during an update: it waits until the update is finished or undone.

Python runs the handler of SIGINT between any two instructions of the main thread, also in a
`finally` block. Code that puts placeholders into a user's model and removes them again, or that
writes back the results of a call, therefore runs `uninterrupted`: a handler of its own records the
signal, and the user's is called when everything is consistent. Users' functions in between, which
may take long, are interruptible: their handler raises in them; what follows is cleaning up, so the
next Ctrl-C waits again.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # without the enums of `signal`: 0.3 and not 4 us
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["uninterrupted"]

_SIGINT: int = _signal.SIGINT


class uninterrupted:
    """A context in which Ctrl-C waits for its end. Only the main thread has to do with signals."""

    __slots__ = ("_is_open", "_noted", "_usual")

    def __enter__(self) -> uninterrupted:
        self._is_open = False
        self._noted: list[Any] = []  # the interrupted frame
        usual = None
        if threading.get_ident() == threading.main_thread().ident:
            usual = _signal.getsignal(_SIGINT)
        # First this, as the handler may be called at once. SIG_IGN and SIG_DFL are no functions.
        self._usual: Any = usual if callable(usual) else None
        if self._usual is not None:
            _signal.signal(_SIGINT, self)
        return self

    def __call__(self, number: int, frame: Any) -> None:
        """Handles the signal."""
        if not self._is_open:
            self._noted = [frame]
            return
        self._is_open = False  # what follows if this raises is cleaning up
        self._usual(number, frame)
        self._is_open = True

    def let_through(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """The result of a function that Ctrl-C may interrupt."""
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
        if _signal.getsignal(_SIGINT) is self:  # the user's function may have set another
            _signal.signal(_SIGINT, self._usual)
        if self._noted:
            self._usual(_SIGINT, self._noted.pop())
