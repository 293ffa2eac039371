"""Selection: the largest of many numbers, by position and by value, medians, and a search that is
written with plain ops."""

from __future__ import annotations

from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.suite.contenders import numbers, own_words

ROWS, WIDTH, LARGEST = 64, 50_000, 10
QUERIES, VECTORS, LENGTH = 100, 100_000, 128
TARGETS = {"jax jit": 0.7, "torch": 0.7}


def _rows() -> tuple[Any, ...]:
    return (numbers((ROWS, WIDTH)),)


@benchmark("positions of the 10 largest in 64 rows of 50,000", targets=TARGETS)
def top_k() -> Contenders:
    return own_words(
        _rows,
        lambda mx, x: mx.argpartition(x, -LARGEST, axis=-1)[:, -LARGEST:],
        lambda jax, x: jax.lax.top_k(x, LARGEST)[1],
        lambda torch, x: torch.topk(x, LARGEST, sorted=False)[1],
    )


@benchmark("the 1000 largest in 64 rows of 50,000", targets=TARGETS)
def top_k_values() -> Contenders:
    return own_words(
        _rows,
        lambda mx, x: mx.topk(x, 1000),
        lambda jax, x: jax.lax.top_k(x, 1000)[0],
        lambda torch, x: torch.topk(x, 1000, sorted=False)[0],
    )


@benchmark("medians of 64 rows of 50,000", targets=TARGETS)
def median_rows() -> Contenders:
    return own_words(
        _rows,
        lambda mx, x: mx.median(x, axis=-1),
        lambda jax, x: jax.numpy.median(x, axis=-1),
        lambda torch, x: torch.median(x, dim=-1)[0],
    )


@benchmark("64 rows of 50,000 sorted", targets=TARGETS)
def sort_rows() -> Contenders:
    return own_words(
        _rows,
        lambda mx, x: mx.sort(x),
        lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0],
    )


@benchmark("3,200,000 numbers sorted", targets=TARGETS)
def sort_long() -> Contenders:
    return own_words(
        lambda: (numbers((ROWS * WIDTH,)),),
        lambda mx, x: mx.sort(x),
        lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0],
    )


def _vectors() -> tuple[Any, ...]:
    database = numbers((VECTORS, LENGTH))
    return numbers((QUERIES, LENGTH), 1), database, (database * database).sum(1)


def _nearest(mx: Any, queries: Any, database: Any, squares: Any) -> Any:
    keys = squares - 2 * queries @ database.T
    found = mx.argpartition(keys, LARGEST - 1, axis=-1)[:, :LARGEST]
    return mx.take_along_axis(keys, found, axis=-1), found


def _nearest_of_jax(jax: Any, queries: Any, database: Any, squares: Any) -> Any:
    return jax.lax.top_k(2 * queries @ database.T - squares, LARGEST)


def _nearest_of_torch(torch: Any, queries: Any, database: Any, squares: Any) -> Any:
    keys = torch.addmm(squares, queries, database.T, alpha=-2)
    return torch.topk(keys, LARGEST, largest=False)


@benchmark("flat search with plain ops, 100 queries in 100,000 x 128, 10 nearest", targets=TARGETS)
def search_plain() -> Contenders:
    return own_words(_vectors, _nearest, _nearest_of_jax, _nearest_of_torch)
