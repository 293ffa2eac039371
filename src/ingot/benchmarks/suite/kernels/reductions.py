"""Compiled reductions: sums and maxima over rows, columns and all."""

from __future__ import annotations

from functools import partial

from ingot.benchmarks.benchmark import Contenders, Setup, benchmark
from ingot.benchmarks.suite.contenders import Input, jax, lazy, numpy, torch
from ingot.benchmarks.suite.functions import reduction

__all__ = ["WITHIN", "reducers"]

SQUARE = Input((4096, 4096))
WITHIN = {"numpy": 1.3, "jax jit": 1.3, "torch": 1.3}


def reducers(name: str, axis: int | None, of: Input) -> dict[str, Setup]:
    """The contenders of a reduction."""
    function = reduction(name, axis)
    return {
        "ingot": partial(lazy, "ingot", function, of, True),
        "numpy": partial(numpy, function, of),
        "jax jit": partial(jax, function, of, True),
        "torch": partial(torch, function, of, False),
    }


@benchmark("compiled sum over rows, 4096 x 4096", targets=WITHIN)
def sum_rows() -> Contenders:
    return reducers("sum", 1, SQUARE)


@benchmark("compiled sum over columns, 4096 x 4096", targets=WITHIN)
def sum_columns() -> Contenders:
    return reducers("sum", 0, SQUARE)


@benchmark("compiled sum of all, 4096 x 4096", targets=WITHIN)
def sum_all() -> Contenders:
    return reducers("sum", None, SQUARE)


@benchmark("compiled max over rows, 4096 x 4096", targets=WITHIN)
def max_rows() -> Contenders:
    return reducers("max", 1, SQUARE)


@benchmark("compiled max over columns, 4096 x 4096", targets=WITHIN)
def max_columns() -> Contenders:
    return reducers("max", 0, SQUARE)


@benchmark("compiled max of all, 4096 x 4096", targets=WITHIN)
def max_all() -> Contenders:
    return reducers("max", None, SQUARE)
