"""Measures whether odd sizes are slow: `python -m ingot.benchmarks.sizes [--steps N] [NAME ...]`.

Matrices of about as many elements but with rows of different lengths take about as long, so a row
length whose time per element is much above that of the best within 5 percent of it has a slow tail
or misses vectors. Lengths from 1 to 5000 are sampled in bands of neighbours; those of a band are
measured in turns, on one thread in its own CPU time, so that a busy machine disturbs little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import ingot.core as mx
from ingot import nn

__all__ = ["Size", "bands", "main", "nanoseconds_by_size", "ratios"]

ELEMENTS = 1 << 16  # of a matrix, which stays in L2
LIMIT = 1.15  # times the time per element of the best neighbour
NEAR = 0.05  # what a neighbour is
LARGEST = 5000
IN_A_BAND = 9
ROUNDS = 12


def _layer_norm(x: mx.array) -> mx.array:
    return mx.fast.layer_norm(x, None, None, 1e-5)


FUNCTIONS: dict[str, Callable[[mx.array], mx.array]] = {
    "gelu": nn.gelu,
    "softmax": lambda x: mx.softmax(x, axis=-1),
    "sum": lambda x: mx.sum(x, axis=-1),
    "layer_norm": _layer_norm,
}


class Size(NamedTuple):
    """A size, its time per element over that of its best neighbour, and that neighbour."""

    size: int
    ratio: float
    best: int


def bands(steps: int) -> list[list[int]]:
    """Bands of neighbouring sizes around so many sizes from 1 to 5000, evenly spaced in their
    logarithms.
    """
    centres = np.unique(np.geomspace(1, LARGEST / (1 + NEAR), steps).round().astype(int))
    found = []
    for centre in centres.tolist():
        low, high = centre * (1 - NEAR / 2), centre * (1 + NEAR / 2)
        sizes = np.unique(np.linspace(np.ceil(low), np.floor(high), IN_A_BAND).round())
        found.append([int(size) for size in sizes])
    return found


def _applied(function: Callable[[mx.array], mx.array], x: mx.array) -> mx.array:
    return function(x)


def _run(function: Callable[[mx.array], mx.array], x: mx.array) -> None:
    mx.eval(function(x))


def nanoseconds_by_size(
    function: Callable[[mx.array], mx.array], sizes: Sequence[int]
) -> dict[int, float]:
    """The nanoseconds per element of a function of rows of these lengths."""
    runs: dict[int, Callable[[], Any]] = {}
    for size in sizes:
        rows = max(1, ELEMENTS // size)
        x = mx.array(np.random.default_rng(size).normal(size=(rows, size)).astype(np.float32))
        # a function of its own, whose lengths are numbers: they become symbols when several came
        runs[size] = partial(_run, mx.compile(partial(_applied, function)), x)
        runs[size]()
    best = dict.fromkeys(sizes, float("inf"))
    for _ in range(ROUNDS):
        for size, run in runs.items():
            begin = time.thread_time_ns()
            run()
            run()
            best[size] = min(best[size], (time.thread_time_ns() - begin) / 2)
    return {size: best[size] / (max(1, ELEMENTS // size) * size) for size in sizes}


def ratios(times: dict[int, float]) -> list[Size]:
    """Each size with its time per element over that of its best neighbour, the slowest first."""
    found = []
    for size, time_here in times.items():
        near = [other for other in times if abs(other - size) <= NEAR * size]
        best = min(near, key=times.__getitem__)
        found.append(Size(size, time_here / times[best], best))
    return sorted(found, key=lambda each: -each.ratio)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what is slow; the exit status is 1 if anything is."""
    parser = argparse.ArgumentParser(prog="python -m ingot.benchmarks.sizes")
    parser.add_argument("functions", nargs="*", choices=[[], *FUNCTIONS], metavar="FUNCTION")
    parser.add_argument("--steps", type=int, default=24, help="sizes, each with its neighbours")
    given = parser.parse_args(arguments)
    mx.set_num_threads(1)
    slow = 0
    for name in given.functions or FUNCTIONS:
        times: dict[int, float] = {}
        for band in bands(given.steps):
            times.update(nanoseconds_by_size(FUNCTIONS[name], band))
        every = ratios(times)
        found = [each for each in every if each.ratio > LIMIT]
        slow += len(found)
        worst = every[0].ratio
        print(f"{name}: {len(times)} sizes, {len(found)} above {LIMIT}, worst {worst:.2f}")
        for size, ratio, best in found:
            print(f"  {size}: {ratio:.2f} of {best} ({times[size]:.3f} ns for each element)")
    return 1 if slow else 0


if __name__ == "__main__":
    raise SystemExit(main())
