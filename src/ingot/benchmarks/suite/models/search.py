"""Vector search: the ten nearest of 100,000 vectors, the memory that takes, and largest singular
values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.libraries import load, load_submodule
from ingot.benchmarks.suite.contenders import numbers

QUERIES, VECTORS, LENGTH, NEAREST = 100, 100_000, 128, 10
DATABASE_BYTES = 4 * VECTORS * LENGTH
MEGABYTE = 10**6
MATRIX, SINGULAR_VALUES, ITERATIONS = (512, 256), 32, 3


def _queries_and_database() -> tuple[Any, Any]:
    return numbers((QUERIES, LENGTH), 1), numbers((VECTORS, LENGTH))


def _ingot() -> Callable[[], Any]:
    mx, search = load("ingot"), load_submodule("ingot", "search")
    queries, database = _queries_and_database()
    index = search.FlatIndex(LENGTH, search.METRIC_L2)
    index.add(database)
    asked = mx.array(queries)
    return lambda: mx.eval(index.search(asked, NEAREST))


def _faiss() -> Callable[[], Any]:
    queries, database = _queries_and_database()
    index = load("faiss").IndexFlatL2(LENGTH)
    index.add(database)
    return lambda: index.search(queries, NEAREST)


# The others have no index: products and squared lengths of the vectors, computed before.


def _jax() -> Callable[[], Any]:
    jax = load("jax")
    queries, database = map(jax.numpy.asarray, _queries_and_database())
    lengths = (database * database).sum(1)

    def nearest(queries: Any, database: Any, lengths: Any) -> Any:
        found, ids = jax.lax.top_k(2 * queries @ database.T - lengths, NEAREST)
        return (queries * queries).sum(1, keepdims=True) - found, ids

    run = jax.jit(nearest)
    return lambda: jax.block_until_ready(run(queries, database, lengths))


def _torch() -> Callable[[], Any]:
    torch = load("torch")
    queries, database = map(torch.from_numpy, _queries_and_database())
    lengths = (database * database).sum(1)

    def nearest() -> Any:
        scores = torch.addmm(lengths, queries, database.T, alpha=-2)
        found, ids = torch.topk(scores, NEAREST, largest=False)
        return found + (queries * queries).sum(1, keepdim=True), ids

    return nearest


@benchmark(
    "flat search, 100 queries in 100,000 x 128, 10 nearest",
    targets={"faiss": 0.5, "jax jit": 0.5, "torch": 0.5},
)
def search_flat() -> Contenders:
    return {"ingot": _ingot, "faiss": _faiss, "jax jit": _jax, "torch": _torch}


@benchmark(
    "peak memory of flat search in 100,000 x 128, beyond the import",
    limits={"database+64 MB": DATABASE_BYTES + 64 * MEGABYTE},
    measure=Measure.PEAK_MEMORY,
)
def search_memory() -> Contenders:
    return {"ingot": _ingot, "faiss": _faiss, "jax jit": _jax, "torch": _torch}


def _topk_svd(compiled: bool) -> Callable[[], Any]:
    mx, search = load("ingot"), load_submodule("ingot", "search")
    matrix = mx.array(numbers(MATRIX))
    return lambda: mx.eval(
        search.topk_svd(matrix, SINGULAR_VALUES, iters=ITERATIONS, use_compile=compiled)
    )


def _svds() -> Callable[[], Any]:
    linalg = load("scipy")
    matrix = numbers(MATRIX)
    return lambda: linalg.svds(matrix, SINGULAR_VALUES)


@benchmark(
    "compiled topk_svd, 512 x 256, 32 largest, 3 iterations",
    targets={"ingot uncompiled": 0.6, "scipy svds": 1.0},
)
def search_svd() -> Contenders:
    return {
        "ingot": partial(_topk_svd, True),
        "ingot uncompiled": partial(_topk_svd, False),
        "scipy svds": _svds,
    }
