"""What it costs to spread work over threads and wait for all of them."""

from __future__ import annotations

import concurrent.futures
import os
import time
from collections.abc import Callable

from ingot import _native
from ingot.benchmarks.benchmark import Contenders, Measure, benchmark

# Long enough for threads that spin to have parked.
REST = 0.02


def _nothing() -> None:
    """The work of one thread."""


def _ingot() -> Callable[[], object]:
    threads = _native.get_num_threads()
    return lambda: _native.parallel_for_probe(threads, 1)


def _python() -> Callable[[], object]:
    threads = len(os.sched_getaffinity(0))
    pool = concurrent.futures.ThreadPoolExecutor(threads)

    def run() -> None:
        for done in [pool.submit(_nothing) for _ in range(threads)]:
            done.result()

    return run


def _rested(setup: Callable[[], Callable[[], object]]) -> Callable[[], float]:
    function = setup()

    def seconds() -> float:
        time.sleep(REST)
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    return seconds


@benchmark("a parallel loop with no work", limits={"limit 10 µs": 10e-6})
def fork_join() -> Contenders:
    return {"ingot": _ingot, "python threads": _python}


@benchmark(
    "a parallel loop with no work, after the threads have parked", measure=Measure.SELF_TIMED
)
def fork_join_parked() -> Contenders:
    return {"ingot": lambda: _rested(_ingot), "python threads": lambda: _rested(_python)}
