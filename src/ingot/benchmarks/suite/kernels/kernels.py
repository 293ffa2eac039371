"""Compiled functions, as ratios to the peers' compilers and to the limits of the machine."""

from __future__ import annotations

from functools import partial

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.suite.contenders import (
    COMPILERS,
    Input,
    compilers,
    jax,
    lazy,
    memcpy,
    torch,
)
from ingot.benchmarks.suite.functions import gelu, layer_norm, product, softmax

LARGE = Input((32, 1000, 4096))
ROWS = Input((2048, 4096))


@benchmark(
    "compiled gelu, 32 x 1000 x 4096",
    targets={"numpy memcpy": 1.25, "jax jit": 1 / 3, "torch compile": 1 / 3, "mlx compile": 1 / 30},
)
def gelu_large() -> Contenders:
    return {**compilers(gelu, LARGE, *COMPILERS), "numpy memcpy": partial(memcpy, LARGE.shape)}


@benchmark("compiled gelu, 64 x 1024", targets={"jax jit": 0.5})
def gelu_small() -> Contenders:
    return compilers(gelu, Input((64, 1024)), *COMPILERS)


@benchmark("compiled gelu of a scalar", targets={"jax jit": 1 / 3, "mlx compile": 1 / 5})
def gelu_scalar() -> Contenders:
    return compilers(gelu, Input(()), *COMPILERS)


@benchmark("gelu without compile, 32 x 1000 x 4096", targets={"jax": 1 / 3, "torch": 1 / 3})
def gelu_eager() -> Contenders:
    return {
        "ingot": partial(lazy, "ingot", gelu, LARGE, False),
        "mlx": partial(lazy, "mlx", gelu, LARGE, False),
        "jax": partial(jax, gelu, LARGE, False),
        "torch": partial(torch, gelu, LARGE, False),
    }


@benchmark(
    "compiled softmax written out, 2048 x 4096", targets={"jax jit": 0.5, "torch compile": 0.5}
)
def softmax_rows() -> Contenders:
    return compilers(softmax, ROWS, *COMPILERS)


@benchmark(
    "compiled layer norm written out, 2048 x 4096", targets={"jax jit": 0.5, "torch compile": 0.5}
)
def layer_norm_rows() -> Contenders:
    return compilers(layer_norm, ROWS, *COMPILERS)


@benchmark("compiled a @ a, 1024", targets={"jax jit": 0.75})
def product_compiled() -> Contenders:
    return compilers(product, Input((1024, 1024)), "jax jit", "torch compile")
