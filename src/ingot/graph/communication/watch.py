"""The watch: a thread of each rank that reports communication that has waited too long.

A rank that waits longer than INGOT_COLLECTIVE_TIMEOUT seconds (60; 0 turns it off) asks the others
of its group where they are. Their watches answer, whatever their main threads do, and it prints
which ranks are missing and at which line of the user's program each is. It goes on waiting: the
others may just be slow.
"""

from __future__ import annotations

import linecache
import os
import platform
import sys
import threading
import time
from typing import Any, NamedTuple

from ingot._native import small_wait

__all__ = ["Watch"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_ASK, _ANSWER = 1, 2  # tags of messages
_PERIOD = 0.25  # seconds between looks
_PATIENCE = 2.0  # seconds in which answers are awaited


class Waiting(NamedTuple):
    """The communication that the main thread waits for."""

    since: float
    what: str
    ranks: tuple[int, ...]  # of the group, as numbered in the world


class Watch:
    """The watch of this rank.

    Args:
        mpi: The module of mpi4py.
        world: A communicator of all ranks that nothing else uses.
    """

    def __init__(self, mpi: Any, world: Any) -> None:
        self.mpi = mpi
        self.world = world
        self.rank: int = world.Get_rank()
        self.waiting: Waiting | None = None
        self.told: Waiting | None = None
        self.limit = float(os.environ.get("INGOT_COLLECTIVE_TIMEOUT", "60"))
        self.stopped = threading.Event()
        self.answers: dict[int, tuple[str, str, str | None]] = {}
        self.main = threading.get_ident()
        self.thread: threading.Thread | None = None

    def start(self) -> None:
        """Starts the thread, if MPI may be called by two at a time."""
        if self.limit <= 0 or self.mpi.Query_thread() != self.mpi.THREAD_MULTIPLE:
            return
        self.thread = threading.Thread(target=self.run, name="ingot-watch", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """Ends the thread, before MPI ends."""
        self.stopped.set()
        if self.thread is not None:
            self.thread.join()

    def run(self) -> None:
        """Answers questions, and asks when it is time."""
        while not self.stopped.wait(_PERIOD):
            self.read_messages()
            waiting = self.current()
            if waiting is None or waiting == self.told:
                continue
            if time.monotonic() - waiting.since > self.limit:
                self.told = waiting
                self.tell(waiting)

    def current(self) -> Waiting | None:
        """The communication that is waited for, in Python or in the extension."""
        if self.waiting is not None:
            return self.waiting
        small = small_wait()
        return None if small is None else Waiting(small[0], *small[1])

    def read_messages(self) -> None:
        """Answers the questions, and keeps the answers, that have arrived."""
        status = self.mpi.Status()
        while self.world.Iprobe(self.mpi.ANY_SOURCE, self.mpi.ANY_TAG, status):
            source, tag = status.Get_source(), status.Get_tag()
            found = self.world.recv(source=source, tag=tag)
            if tag == _ANSWER:
                self.answers[source] = found
            else:
                waiting = self.current()
                answer = (platform.node(), self.line(), waiting and waiting.what)
                self.world.isend(answer, source, _ANSWER).Free()

    def line(self) -> str:
        """Where the user's program is: the innermost line of the main thread outside ingot."""
        frame = sys._current_frames().get(self.main)
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        if frame is None:
            return "a line that is not known"
        path, number = frame.f_code.co_filename, frame.f_lineno
        text = linecache.getline(path, number).strip()
        return f"{os.path.basename(path)}:{number}{': ' + text if text else ''}"

    def tell(self, waiting: Waiting) -> None:
        """Asks the others where they are and prints who is missing."""
        self.answers = {}
        others = [rank for rank in waiting.ranks if rank != self.rank]
        for rank in others:
            self.world.isend(None, rank, _ASK).Free()
        end = time.monotonic() + _PATIENCE
        while len(self.answers) < len(others) and time.monotonic() < end:
            if self.stopped.wait(0.02) or self.current() != waiting:
                return
            self.read_messages()
        print(self.report(waiting, others), file=sys.stderr, flush=True)

    def report(self, waiting: Waiting, others: list[int]) -> str:
        """The sentence that says who is missing and where."""
        missing, also = [], []
        for rank in others:
            host, line, what = self.answers.get(rank, ("", "", None))
            if not host:
                missing.append(f"rank {rank} does not answer")
            elif what is None:
                missing.append(f"rank {rank} on {host} is at {line}")
            else:
                also.append(f"rank {rank} on {host} waits in {what} at {line}")
        seconds = time.monotonic() - waiting.since
        return (
            f"ingot: rank {self.rank} on {platform.node()} has waited {seconds:.0f} s in "
            f"{waiting.what} at {self.line()}. "
            + (f"Missing: {'; '.join(missing)}. " if missing else "")
            + (f"{'; '.join(also)}. " if also else "")
            + "It goes on waiting; INGOT_COLLECTIVE_TIMEOUT sets after how many seconds this is "
            "said."
        )
