"""The clock: how long one call of a function takes.

A round calls the function often enough to last some milliseconds. Garbage collection stays on, as
it is for users.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

__all__ = ["Stopwatch"]


class Stopwatch:
    """Times rounds of calls of one function, after a warm-up."""

    def __init__(self, function: Callable[[], Any], round_seconds: float, self_timed: bool) -> None:
        self.function = function
        self.self_timed = self_timed
        self.calls = 1
        self.round()  # first calls allocate, compile and start threads
        if self_timed:
            return
        while (seconds := self.round() * self.calls) < round_seconds:
            wanted = 1.2 * round_seconds / max(seconds, 1e-9)
            self.calls = int(self.calls * min(max(wanted, 2), 10))

    def round(self) -> float:
        """The seconds of one call, on average over a round."""
        if self.self_timed:
            return float(self.function())
        function = self.function
        repeats = range(self.calls)
        start = perf_counter()
        for _ in repeats:
            function()
        return (perf_counter() - start) / self.calls
