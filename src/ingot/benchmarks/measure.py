"""The measuring: how long one call of a function takes, and how much memory it needs.

A round calls the function often enough to last some milliseconds. Garbage collection stays on, as
it is for users.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from ingot.benchmarks.benchmark import Setup
from ingot.benchmarks.libraries import load

__all__ = ["Stopwatch", "compile_time", "first_call", "peak_memory"]

# Enough for buffers that are reused to be made and reused.
CALLS_FOR_MEMORY = 3


class Stopwatch:
    """Times rounds of calls of one function, after a warm-up."""

    def __init__(self, function: Callable[[], Any], round_seconds: float, self_timed: bool) -> None:
        self.function = function
        self.self_timed = self_timed
        self.calls = 1
        self.round()  # first calls allocate, compile and start threads
        if self_timed:
            return
        # The second call may compile as well, for the layout of its arguments: a round of one call
        # would then never be longer, and read from memory what longer ones read from caches.
        while (seconds := min(self.round(), self.round()) * self.calls) < round_seconds:
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


def first_call(setup: Setup) -> float:
    """The seconds of the first call, in a process that did nothing before."""
    function = setup()
    start = perf_counter()
    function()
    return perf_counter() - start


def compile_time(setup: Setup) -> float:
    """The seconds of compiling that the function returns, in a process that did nothing before. The
    first call itself takes longer: it touches its memory for the first time.
    """
    return float(setup()())


def peak_memory(library: str, setup: Setup) -> float:
    """The most bytes that were resident while the function ran, inputs and results included, less
    what the process had after the import."""
    load(library)
    before = _bytes_in_status("VmRSS")
    function = setup()
    gc.collect()
    # The peak so far may be that of making the inputs: the kernel forgets it when told to.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    for _ in range(CALLS_FOR_MEMORY):
        function()
    return float(_bytes_in_status("VmHWM") - before)


def _bytes_in_status(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0]) * 1024
    raise RuntimeError(f"/proc/self/status says nothing about {key}.")
