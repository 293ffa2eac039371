"""Progress of long compilations, shown on a terminal or in a notebook.

The compiler records what it is working on, which costs a few assignments. If there is a terminal or
notebook, a thread polls these records and draws the progress of a compilation that takes longer
than a second, also while LLVM is busy with one large kernel or the user's function is being traced.
The thread ends when nothing has been compiled for a while. Otherwise, in pipes and files, there is
no thread and nothing is written, unless INGOT_PROGRESS is "on".
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

__all__ = ["compiling", "reporter", "set_compile_progress", "working", "write_line"]

DELAY = 1.0  # seconds of compiling before anything is shown
INTERVAL = 0.1  # between updates in place
INTERVAL_OF_LINES = 5.0  # where every update is a new line
IDLE = 10.0  # seconds after which the thread ends
BAR = 24  # characters

MODES = ("off", "auto", "on")


class _Thread(threading.local):
    """Per-thread state: the current compilation."""

    task: compiling | None = None


_thread = _Thread()


class compiling:
    """Mark this thread as compiling: `with compiling("step"): ...`.

    Args:
        name: What is compiled.
        spent: Seconds that were spent on it before, in the same call.
    """

    __slots__ = ("_outer", "_spent", "began", "done", "name", "total", "what")

    def __init__(self, name: str, spent: float = 0.0) -> None:
        self.name = name
        self._spent = spent
        self.what = ""
        self.done = self.total = 0

    def __enter__(self) -> None:
        self._outer = _thread.task
        if self._outer is None:  # otherwise it is part of an outer compilation
            self.began = time.perf_counter() - self._spent
            _thread.task = self
            _watcher.add(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._outer is None:
            _thread.task = None
            _watcher.remove(self)

    @property
    def text(self) -> str:
        """The current activity in one line."""
        if self.total:
            return f"compiling {self.name}: {self.done} of {self.total} {self.what}"
        return f"compiling {self.name}" + (f": {self.what}" if self.what else "")


def working(what: str, done: int = 0, total: int = 0) -> None:
    """Record the current activity of this thread's compilation, with a count if there
    is a total.
    """
    reporter()(what, done, total)


def reporter() -> Callable[[str, int, int], None]:
    """A function by which any thread records the activity of this thread's compilation."""
    task = _thread.task

    def report(what: str, done: int, total: int) -> None:
        if task is not None:
            task.what, task.done, task.total = what, done, total

    return report


class _Display(Protocol):
    """Where progress is displayed."""

    interval: float

    def show(self, task: compiling, others: int) -> None:
        """Show a compilation, and the number of `others`, in place of the previous text."""

    def clear(self) -> None:
        """Erases the displayed text."""


def _bar(task: compiling) -> str:
    filled = BAR * task.done // task.total if task.total else 0
    return f" [{'#' * filled}{'.' * (BAR - filled)}]" if task.total else ""


def _line(task: compiling, others: int) -> str:
    return task.text + (f" (and {others} more)" if others else "")


def _flush_output() -> None:
    """Writes the output of the program so far, which comes before what is said about it."""
    flush = getattr(sys.stdout, "flush", None)
    if flush is not None:
        flush()


class _Terminal:
    """A line drawn in place: the cursor returns to where it was, so that the program's own output
    is unaffected.
    """

    interval = INTERVAL

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def show(self, task: compiling, others: int) -> None:
        # Save and restore the cursor, and turn off line wrapping meanwhile.
        self._write(f"\x1b7\x1b[?7l{_line(task, others)}{_bar(task)}\x1b[K\x1b[?7h\x1b8")

    def clear(self) -> None:
        self._write("\x1b[K")

    def _write(self, text: str) -> None:
        _flush_output()
        self._stream.write(text)
        self._stream.flush()


class _Notebook:
    """An output of the cell that is updated, and cleared at the end."""

    interval = 5 * INTERVAL

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, task: compiling, others: int) -> None:
        bundle = {"text/plain": _line(task, others) + _bar(task)}
        if self._handle is None:
            self._handle = self._display.display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
            self._handle = None


class _Lines:
    """Consecutive lines, for logs."""

    interval = INTERVAL_OF_LINES

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def show(self, task: compiling, others: int) -> None:
        self._stream.write(f"{_line(task, others)}\n")
        self._stream.flush()

    def clear(self) -> None:
        """Nothing to erase in a log."""


def _is_terminal(stream: Any) -> bool:
    try:
        return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    except (AttributeError, ValueError):  # no stream, or a closed one
        return False


def _notebook_display() -> Any:
    """IPython's display functions if this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return sys.modules.get("IPython.display") if hasattr(shell, "kernel") else None


def _display(mode: str) -> _Display | None:
    """The display to use; None without a terminal or notebook."""
    if mode == "off" or sys.stderr is None or getattr(sys.stderr, "closed", False):
        return None
    notebook = _notebook_display()
    if notebook is not None:
        return _Notebook(notebook)
    if _is_terminal(sys.stderr):
        return _Terminal(sys.stderr)
    return _Lines(sys.stderr) if mode == "on" else None


def _mode_from_environment() -> str:
    mode = os.environ.get("INGOT_PROGRESS", "auto").lower()
    return {"0": "off", "false": "off", "no": "off", "1": "on", "true": "on", "yes": "on"}.get(
        mode, mode if mode in MODES else "auto"
    )


class _Watcher:
    """The running compilations, and the thread that shows the one that began first."""

    def __init__(self) -> None:
        self.mode = _mode_from_environment()
        self._start()

    def _start(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._tasks: list[compiling] = []
        self._displayed: compiling | None = None
        self._display: _Display | None = None
        self._thread: threading.Thread | None = None

    after_fork = _start  # neither the thread nor the compilations exist in the child

    def add(self, task: compiling) -> None:
        """Track a compilation if there is a display."""
        display = _display(self.mode)
        if display is None:
            return
        with self._changed:
            if self._displayed is None:
                self._display = display
            self._tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._watch, name="ingot: progress", daemon=True
                )
                self._thread.start()
            elif len(self._tasks) == 1:
                self._changed.notify()

    def remove(self, task: compiling) -> None:
        """Stop tracking; the text is erased when this returns."""
        if not self._tasks:
            return
        with self._changed:
            if task in self._tasks:
                self._tasks.remove(task)
            if self._displayed is task:
                self._clear()

    def _clear(self) -> None:
        self._displayed = None
        if self._display is not None:
            self._say(self._display.clear)

    def _say(self, say: Any, *arguments: Any) -> None:
        """Write to the display. Streams and front ends may fail in any way: an error turns the
        display off and never reaches the code that compiles.
        """
        try:
            say(*arguments)
        except Exception:
            self._display = None

    def _watch(self) -> None:
        with self._changed:
            while True:
                if not self._tasks and not self._changed.wait(IDLE) and not self._tasks:
                    self._thread = None
                    return
                if self._tasks:
                    self._changed.wait(self._step())

    def _step(self) -> float:
        """Show what is due; returns the seconds until the next update."""
        now = time.perf_counter()
        task = min(self._tasks, key=lambda task: task.began)
        rest = task.began + DELAY - now
        if rest > 0:
            return rest
        display = self._display
        if display is None:
            return IDLE
        self._displayed = task
        self._say(display.show, task, len(self._tasks) - 1)
        return display.interval

    def stop(self) -> None:
        """Stop showing anything: the interpreter is exiting, and its streams with it."""
        with self._changed:
            self.mode = "off"
            self._tasks.clear()
            self._display = None

    def write_line(self, text: str) -> None:
        """Write a line on stderr, after erasing the displayed text."""
        with self._changed:
            if self._displayed is not None:
                self._clear()
            _flush_output()
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


_watcher = _Watcher()
atexit.register(_watcher.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_watcher.after_fork)


def write_line(text: str) -> None:
    """Write a line on stderr without disturbing the progress displayed there."""
    _watcher.write_line(text)


def set_compile_progress(mode: str) -> str:
    """Choose where compilations that take longer than a second show their progress.

    Args:
        mode: "auto", on terminals and in notebooks; "on", also elsewhere, as lines on stderr; or
            "off". It begins as INGOT_PROGRESS says, or as "auto".

    Returns:
        The mode before.
    """
    if mode not in MODES:
        raise ValueError(
            f'[set_compile_progress] the modes are "off", "auto" and "on", got {mode!r}.'
        )
    before, _watcher.mode = _watcher.mode, mode
    return before
