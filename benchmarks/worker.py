"""Processes that time contenders: one for each library.

In one process the libraries' idle threads, which spin for a while before they sleep, would slow
each other down. Here the contenders still take turns, round by round, so that whatever else the
machine does hits all of them; but only one process is busy at a time.
"""

from __future__ import annotations

import multiprocessing
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from benchmarks import suite  # noqa: F401  (enters the benchmarks into the table)
from benchmarks.benchmark import named
from benchmarks.libraries import NotInstalledError
from benchmarks.measure import Stopwatch

__all__ = ["Answer", "Worker"]

PATIENCE = 600.0  # seconds after which a contender that does not answer is given up


@dataclass(frozen=True)
class Answer:
    """What a worker says: seconds, or why there are none."""

    seconds: float = 0.0
    missing: str | None = None


class Worker:
    """The parent's side of one process."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(other_end,), daemon=True)
        self.process.start()
        other_end.close()

    def prepare(self, benchmark: str, contender: str, round_seconds: float) -> Answer:
        """Sets a contender up and warms it up."""
        return self._ask("prepare", benchmark, contender, round_seconds)

    def round(self, contender: str) -> Answer:
        """Times one round of a contender that is prepared."""
        return self._ask("round", contender)

    def finish(self) -> None:
        """Lets the contenders of a benchmark go, with their memory."""
        self._ask("finish")

    def stop(self) -> None:
        """Ends the process."""
        if self.process.is_alive():
            self.process.terminate()
        self.process.join()
        self.connection.close()

    def _ask(self, *request: Any) -> Answer:
        try:
            self.connection.send(request)
            if not self.connection.poll(PATIENCE):
                self.process.kill()
                return Answer(missing=f"failed: no answer within {PATIENCE:.0f} s")
            answer: Answer = self.connection.recv()
            return answer
        except (EOFError, OSError):
            self.process.join()
            return Answer(missing=f"failed: its process ended ({self.process.exitcode})")


def _serve(connection: Connection) -> None:
    """The worker's side: answers requests until the parent is gone."""
    stopwatches: dict[str, Stopwatch] = {}
    while True:
        try:
            command, *arguments = connection.recv()
        except EOFError:
            return
        connection.send(_answer(stopwatches, command, arguments))


def _answer(stopwatches: dict[str, Stopwatch], command: str, arguments: list[Any]) -> Answer:
    if command == "finish":
        stopwatches.clear()
        return Answer()
    try:
        if command == "round":
            return Answer(stopwatches[arguments[0]].round())
        name, contender, round_seconds = arguments
        benchmark = named(name)
        function = benchmark.contenders()[contender]()
        stopwatches[contender] = Stopwatch(function, round_seconds, benchmark.self_timed)
    except NotInstalledError:
        return Answer(missing="not installed")
    except Exception as error:  # whatever a library raises belongs into the report
        traceback.print_exc()
        return Answer(missing=f"failed: {type(error).__name__}: {error}")
    return Answer()
