"""Scatters: rows added to a table at indices that repeat, and the gradient of an embedding."""

from __future__ import annotations

from typing import Any

from ingot.benchmarks.benchmark import Contenders, benchmark
from ingot.benchmarks.libraries import load
from ingot.benchmarks.suite.contenders import numbers, own_words

UPDATES, TABLE, WIDTH = 100_000, 10_000, 64
WORDS, TOKENS, FEATURES = 32_000, (16, 512), 256
TARGETS = {"jax jit": 0.8, "torch": 0.8}


def _indices(length: int, shape: int | tuple[int, ...]) -> Any:
    np = load("numpy")
    return np.random.default_rng(0).integers(0, length, shape, np.int32)


def _updates() -> tuple[Any, ...]:
    return numbers((TABLE, WIDTH)), _indices(TABLE, UPDATES), numbers((UPDATES, WIDTH), 1)


@benchmark("100,000 rows of 64 added to a table of 10,000", targets=TARGETS)
def scatter_add() -> Contenders:
    return own_words(
        _updates,
        lambda mx, table, rows, updates: table.at[rows].add(updates),
        lambda jax, table, rows, updates: table.at[rows].add(updates),
        lambda torch, table, rows, updates: table.index_add(0, rows, updates),
    )


@benchmark("100,000 rows of 64 and a table of 10,000: maxima", targets=TARGETS)
def scatter_max() -> Contenders:
    return own_words(
        _updates,
        lambda mx, table, rows, updates: table.at[rows].maximum(updates),
        lambda jax, table, rows, updates: table.at[rows].max(updates),
        lambda torch, table, rows, updates: table.index_reduce(0, rows.long(), updates, "amax"),
    )


@benchmark("100,000 numbers added to 10,000 bins", targets=TARGETS)
def scatter_bins() -> Contenders:
    return own_words(
        lambda: (numbers((TABLE,)), _indices(TABLE, UPDATES), numbers((UPDATES,), 1)),
        lambda mx, table, rows, updates: table.at[rows].add(updates),
        lambda jax, table, rows, updates: table.at[rows].add(updates),
        lambda torch, table, rows, updates: table.index_add(0, rows, updates),
    )


def _words() -> tuple[Any, ...]:
    return numbers((WORDS, FEATURES)), _indices(WORDS, TOKENS), numbers((*TOKENS, FEATURES), 1)


def _gradient(mx: Any, table: Any, words: Any, weights: Any) -> Any:
    return mx.grad(lambda table: (table[words] * weights).sum())(table)


def _gradient_of_torch(torch: Any, table: Any, words: Any, weights: Any) -> Any:
    parameter = table.detach().requires_grad_()
    found = torch.nn.functional.embedding(words, parameter)
    return torch.autograd.grad((found * weights).sum(), parameter)


@benchmark("gradient of an embedding, 8192 tokens of 32,000 words, 256 features", targets=TARGETS)
def embedding_gradient() -> Contenders:
    return own_words(_words, _gradient, _gradient, _gradient_of_torch)
