"""Attention: sequences as prompts have them and longer ones, forward and backward, and decoding."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers

TARGETS = {"torch": 0.8, "jax jit": 0.8}


class _Case(NamedTuple):
    """Queries and keys of several heads, and whether attention is causal."""

    heads: int
    queries: int
    keys: int
    features: int = 64
    causal: bool = False
    shared: int = 0  # heads of keys and values, if fewer
    backward: bool = False

    def arrays(self) -> list[Any]:
        shape = (1, self.shared or self.heads, self.keys, self.features)
        queries = (1, self.heads, self.queries, self.features)
        return [numbers(queries), numbers(shape, 1), numbers(shape, 2), numbers(queries, 3)]

    @property
    def scale(self) -> float:
        return 1 / math.sqrt(self.features)


def _lazy(library: str, case: _Case) -> Callable[[], Any]:
    mx = load(library)
    *inputs, cotangent = map(mx.array, case.arrays())
    mx.eval(inputs, cotangent)
    mask = "causal" if case.causal else None

    def attend(*x: Any) -> Any:
        return mx.fast.scaled_dot_product_attention(*x, scale=case.scale, mask=mask)

    def gradients(*x: Any) -> Any:
        return mx.vjp(attend, list(x), [cotangent])

    run = mx.compile(gradients if case.backward else attend)
    return lambda: mx.eval(run(*inputs))


def _torch(case: _Case) -> Callable[[], Any]:
    torch = load("torch")
    *inputs, cotangent = (torch.from_numpy(x) for x in case.arrays())
    attend = partial(
        torch.nn.functional.scaled_dot_product_attention,
        is_causal=case.causal,
        enable_gqa=bool(case.shared),
    )
    if not case.backward:
        return lambda: attend(*inputs)
    for x in inputs:
        x.requires_grad_()
    return lambda: torch.autograd.grad(attend(*inputs), inputs, cotangent)


def _jax(case: _Case) -> Callable[[], Any]:
    jax = load("jax")
    *inputs, cotangent = (jax.numpy.asarray(x.swapaxes(1, 2)) for x in case.arrays())

    def attend(*x: Any) -> Any:
        return jax.nn.dot_product_attention(*x, is_causal=case.causal)

    def gradients(*x: Any) -> Any:
        value, pull = jax.vjp(attend, *x)
        return value, pull(cotangent)

    run = jax.jit(gradients if case.backward else attend)
    return lambda: jax.block_until_ready(run(*inputs))


def _contenders(case: _Case) -> Contenders:
    return {
        "ingot": partial(_lazy, "ingot", case),
        "mlx compile": partial(_lazy, "mlx", case),
        "jax jit": partial(_jax, case),
        "torch": partial(_torch, case),
    }


@benchmark("compiled attention of 777 positions, 8 heads of 64", targets=TARGETS)
def attention_777() -> Contenders:
    return _contenders(_Case(8, 777, 777))


@benchmark("compiled causal attention of 4096 positions, 8 heads of 64", targets=TARGETS)
def attention_4096() -> Contenders:
    return _contenders(_Case(8, 4096, 4096, causal=True))


@benchmark("attention of 777 positions, 8 heads of 64, and its gradients", targets=TARGETS)
def attention_gradients_777() -> Contenders:
    return _contenders(_Case(8, 777, 777, backward=True))


@benchmark("causal attention of 4096 positions, 8 heads of 64, and its gradients", targets=TARGETS)
def attention_gradients_4096() -> Contenders:
    return _contenders(_Case(8, 4096, 4096, causal=True, backward=True))


@benchmark("attention of one position to 4096, 32 heads of 128 that share 8 of keys")
def attention_decode() -> Contenders:
    return _contenders(_Case(32, 1, 4096, features=128, shared=8))
