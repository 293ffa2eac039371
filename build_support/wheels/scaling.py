"""How calls scale with threads: two threads against two processes, and against one thread.

    python build_support/wheels/scaling.py

Two processes share nothing, so they show what the machine can do at the moment, busy or not. Rounds
of all contenders alternate, and the best of each counts. Kernels use one thread each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ["INGOT_NUM_THREADS"] = "1"

import numpy as np

import ingot.core as mx

ROUNDS = 7
SECONDS = 0.25  # of a round on one thread


def compiled_calls(size: int) -> Callable[[], None]:
    """A compiled function of an array of one's own."""
    x = mx.array(np.linspace(-1, 1, size, dtype=np.float32))
    return lambda: mx.eval(FUNCTION(x))


def own_graphs(size: int) -> Callable[[], None]:
    """A graph that is built op by op, then evaluated."""
    x = mx.array(np.linspace(-1, 1, size, dtype=np.float32))

    def build() -> None:
        y = x
        for _ in range(8):
            y = mx.sin(y) * 2 + x
        mx.eval(y)

    return build


def products(size: int) -> Callable[[], None]:
    """A product of matrices."""
    a = mx.array(np.linspace(-1, 1, size * size, dtype=np.float32).reshape(size, size))
    return lambda: mx.eval(MULTIPLY(a, a))


FUNCTION = mx.compile(lambda x: mx.exp(-x * x) * 2 + mx.tanh(x))
MULTIPLY = mx.compile(lambda a, b: a @ b)
WORK: dict[str, tuple[Callable[[int], Callable[[], None]], tuple[int, ...]]] = {
    "compiled calls": (compiled_calls, (16, 1_000, 20_000, 200_000)),
    "graphs": (own_graphs, (16, 20_000)),
    "products": (products, (64, 256)),
}


def made(name: str, size: int) -> Callable[[], None]:
    """Something to call, compiled."""
    call = WORK[name][0](size)
    for _ in range(300):  # graphs that recur are compiled, too
        call()
    return call


def repeat(call: Callable[[], None], times: int) -> None:
    """Calls something."""
    for _ in range(times):
        call()


def seconds(run: Callable[[], object]) -> float:
    """How long something takes."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def in_threads(calls: list[Callable[[], None]], times: int) -> None:
    """Each call in a thread of its own."""
    threads = [threading.Thread(target=repeat, args=(call, times)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def serve(name: str, size: int) -> None:
    """A process that calls as often as it is asked to."""
    call = made(name, size)
    for line in sys.stdin:
        repeat(call, int(line))
        print("done", flush=True)


def in_processes(processes: list[Any], times: int) -> None:
    """The calls in each of the processes."""
    for process in processes:
        process.stdin.write(f"{times}\n")
        process.stdin.flush()
    for process in processes:
        process.stdout.readline()


def compare(name: str, size: int) -> str:
    """A line about one kind of work."""
    command = [sys.executable, __file__, name, str(size)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    calls = [made(name, size) for _ in range(2)]
    times = max(1, int(SECONDS / (seconds(lambda: repeat(calls[0], 200)) / 200)))
    in_processes(processes, 1)  # they have started
    contenders: dict[str, Callable[[], None]] = {
        "one": lambda: repeat(calls[0], times),
        "threads": lambda: in_threads(calls, times),
        "processes": lambda: in_processes(processes, times),
    }
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for key, run in contenders.items():
            best[key] = min(best[key], seconds(run))
    for process in processes:
        process.communicate()
    rate, threads, both = (
        times / best["one"],
        best["one"] / best["threads"],
        best["one"] / best["processes"],
    )
    return (
        f"{name} of {size}: {rate:.0f} a second; two threads {2 * threads:.2f} times as many,"
        f" two processes {2 * both:.2f} times: {threads / both:.2f} of what is possible"
    )


def main() -> None:
    """Prints a line for each kind of work and size."""
    if len(sys.argv) > 1:
        serve(sys.argv[1], int(sys.argv[2]))
        return
    gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    print(f"CPython {sys.version.split()[0]}, {'with' if gil else 'without'} a GIL")
    for name, (_, sizes) in WORK.items():
        for size in sizes:
            print(f"    {compare(name, size)}", flush=True)


if __name__ == "__main__":
    main()
