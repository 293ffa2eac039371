"""A layer of experts: a token and the matrices of those chosen for it, as mlx-lm multiplies them.

The stack has 32 matrices of 1408 x 2048, of which a token takes 6. The lower bound is the time to
read these, which is measured alongside. MLX has no such products of bfloat16 on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.models.decoding import BYTES, GROUP, read_of

__all__ = ["experts", "experts_bfloat16"]

EXPERTS, CHOSEN, WIDTH, HIDDEN = 32, 6, 2048, 1408


def _chosen(library: str, weights: str) -> Callable[[], None]:
    mx = load(library)
    mx.random.seed(0)
    w = mx.random.normal((EXPERTS, HIDDEN, WIDTH)) * 0.02
    x = mx.random.normal((1, 1, 1, 1, WIDTH))
    index = mx.arange(0, EXPERTS, EXPERTS // CHOSEN)[None, None, :CHOSEN]
    if weights == "4 bits":
        parts = mx.quantize(w, GROUP, 4)
        options = {"transpose": True, "group_size": GROUP, "bits": 4}
        multiply = partial(mx.gather_qmm, x, *parts, rhs_indices=index, **options)
        mx.eval(x, index, *parts)
    else:
        matrices = w.astype(mx.bfloat16)
        x = x.astype(mx.bfloat16)
        multiply = partial(mx.gather_mm, x, matrices.swapaxes(-1, -2), rhs_indices=index)
        mx.eval(x, index, matrices)
    return lambda: mx.eval(multiply())


def _ours(weights: str) -> Contenders:
    nbytes = int(CHOSEN * WIDTH * HIDDEN * BYTES[weights])
    return {"ingot": partial(_chosen, "ingot", weights), "ingot read": partial(read_of, nbytes)}


@benchmark("a token and 6 of 32 experts, 4 bits; reading these", targets={"mlx": 0.3})
def experts() -> Contenders:
    return {**_ours("4 bits"), "mlx": partial(_chosen, "mlx", "4 bits")}


@benchmark("a token and 6 of 32 experts, bfloat16; reading these", targets={"ingot read": 2.0})
def experts_bfloat16() -> Contenders:
    return _ours("bfloat16")
