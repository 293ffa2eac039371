"""Random numbers, which should be generated at memory speed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import memcpy

COUNT = 10_000_000


def _lazy(library: str) -> Callable[[], Any]:
    mx = load(library)
    key = mx.random.key(0)
    run = mx.compile(lambda key: mx.random.uniform(shape=(COUNT,), key=key))
    return lambda: mx.eval(run(key))


def _jax() -> Callable[[], Any]:
    jax = load("jax")
    key = jax.random.key(0)
    run = jax.jit(lambda key: jax.random.uniform(key, (COUNT,)))
    return lambda: run(key).block_until_ready()


def _torch() -> Callable[[], Any]:
    torch = load("torch")
    return lambda: torch.rand(COUNT)


def _numpy() -> Callable[[], Any]:
    np = load("numpy")
    generator = np.random.default_rng(0)
    return lambda: generator.random(COUNT, np.float32)


@benchmark("compiled random.uniform of 10,000,000", targets={"numpy memcpy": 1.25})
def random_uniform() -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot"),
        "mlx compile": partial(_lazy, "mlx"),
        "jax jit": _jax,
        "torch": _torch,
        "numpy": _numpy,
        "numpy memcpy": partial(memcpy, (COUNT,)),
    }
