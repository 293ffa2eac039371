"""Scans: running sums and extremes along rows, along columns and of one long row."""

from __future__ import annotations

from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.suite.contenders import numbers, own_words

SHAPE = (2000, 4001)
LENGTH = 8_000_000
TARGETS = {"jax jit": 0.7, "torch": 0.7}


def _sums(shape: tuple[int, ...], axis: int) -> Contenders:
    return own_words(
        lambda: (numbers(shape),),
        lambda mx, x: mx.cumsum(x, axis=axis),
        lambda jax, x: jax.numpy.cumsum(x, axis=axis),
        lambda torch, x: torch.cumsum(x, dim=axis),
    )


@benchmark("cumulative sums along rows, 2000 x 4001", targets=TARGETS)
def cumsum_rows() -> Contenders:
    return _sums(SHAPE, 1)


@benchmark("cumulative sums along columns, 2000 x 4001", targets=TARGETS)
def cumsum_columns() -> Contenders:
    return _sums(SHAPE, 0)


@benchmark("cumulative sum of 8,000,000", targets=TARGETS)
def cumsum_long() -> Contenders:
    return _sums((LENGTH,), 0)


@benchmark("cumulative maxima along rows, 2000 x 4001", targets=TARGETS)
def cummax_rows() -> Contenders:
    return own_words(
        lambda: (numbers(SHAPE),),
        lambda mx, x: mx.cummax(x, axis=1),
        lambda jax, x: jax.lax.cummax(x, axis=1),
        lambda torch, x: torch.cummax(x, dim=1)[0],
    )


def _between_maps(m: Any, x: Any) -> Any:
    return m.exp(-m.cumsum(m.square(x), -1) * 1e-4) * x


@benchmark("a chain of ops around cumulative sums, 2000 x 4001", targets=TARGETS)
def cumsum_chain() -> Contenders:
    return own_words(
        lambda: (numbers(SHAPE),),
        _between_maps,
        lambda jax, x: _between_maps(jax.numpy, x),
        _between_maps,
    )
