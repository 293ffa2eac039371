"""The first call of a compiled function in a new process: what users wait for."""

from __future__ import annotations

from functools import partial

from ingot.benchmarks.benchmark import Contenders, Measure, benchmark
from ingot.benchmarks.suite.contenders import COMPILERS, Input, compilers
from ingot.benchmarks.suite.functions import gelu
from ingot.benchmarks.suite.models.transformer import (
    compile_jax,
    compile_lazy,
    jax,
    lazy,
    torch,
)

SMALL = Input((64, 1024))


@benchmark(
    "first call of compiled gelu in a new process, cold cache",
    targets={"jax jit": 1.0},
    limits={"limit 50 ms": 0.05},
    measure=Measure.FIRST_CALL_COLD,
)
def first_call_cold() -> Contenders:
    return compilers(gelu, SMALL, *COMPILERS)


@benchmark(
    "first call of compiled gelu in a new process, warm disk cache",
    targets={"jax jit": 0.5},
    measure=Measure.FIRST_CALL_WARM,
)
def first_call_warm() -> Contenders:
    return compilers(gelu, SMALL, *COMPILERS)


@benchmark(
    "first training step of a transformer block, new process, cold cache",
    limits={"limit 3 s": 3.0},
    measure=Measure.FIRST_CALL_COLD,
)
def first_step_block() -> Contenders:
    return {
        "ingot": partial(lazy, "ingot", 1),
        "mlx compile": partial(lazy, "mlx", 1),
        "jax jit": partial(jax, 1),
        "torch compile": partial(torch, 1),
    }


# Sub-linear: eight layers take less than eight times as long as one.
@benchmark(
    "first training step of 8 transformer blocks, new process, cold cache",
    targets={"ingot 1 block": 8.0, "ingot 2 blocks": 4.0, "ingot 4 blocks": 2.0},
    measure=Measure.FIRST_CALL_COLD,
)
def first_step_blocks() -> Contenders:
    return {
        "ingot": partial(lazy, "ingot", 8),
        "ingot 1 block": partial(lazy, "ingot", 1),
        "ingot 2 blocks": partial(lazy, "ingot", 2),
        "ingot 4 blocks": partial(lazy, "ingot", 4),
        "jax jit": partial(jax, 8),
    }


# Layers that are alike are compiled once.
@benchmark(
    "compiling a training step of 24 transformer blocks, cold cache",
    targets={"ingot 2 blocks": 1.5, "jax jit": 0.3},
    measure=Measure.COMPILE_COLD,
)
def compile_blocks() -> Contenders:
    return {
        "ingot": partial(compile_lazy, 24),
        "ingot 2 blocks": partial(compile_lazy, 2),
        "jax jit": partial(compile_jax, 24),
    }
