"""Fusion without `compile` where shapes change: one symbolic program serves graphs that differ in
numbers alone, and programs that are not used again are not made.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call import eager, fusion_policy, symbolic_program
from ingot.tuning import MAX_TRIAL_PROGRAMS, MIN_RUNS_PER_PROGRAM

ROWS = 64  # enough numbers for a graph to be offered as a whole


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_structures", eager._Structures())
    _native.forget_programs()


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without symbolic programs."""
    monkeypatch.setattr(eager, "MIN_SYMBOLIC_EXAMPLES", 1 << 30)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are made: "symbolic" or "specialised"."""
    found: list[str] = []
    symbolic, program_of = symbolic_program.SymbolicProgram, eager.program_of

    def make_symbolic(*arguments: Any) -> Any:
        found.append("symbolic")
        return symbolic(*arguments)

    def make_specialised(*arguments: Any) -> Any:
        found.append("specialised")
        return program_of(*arguments)

    patched = SimpleNamespace(SymbolicProgram=make_symbolic)
    monkeypatch.setattr(eager, "symbolic_program", patched)
    monkeypatch.setattr(eager, "program_of", make_specialised)
    return found


def attention(length: int) -> mx.array:
    """What a step of generation does with a cache of this length."""
    keys = mx.ones((ROWS, length)) * mx.arange(length)
    return mx.sum(mx.exp(mx.sin(keys)) * 2 + 1, axis=1)


def chain(length: int) -> mx.array:
    return mx.cos(mx.exp(mx.tanh(mx.ones((ROWS, length)) * mx.arange(length))) - 1)


def programs_after(function: Callable[[int], mx.array], lengths: list[int]) -> int:
    before = mx.eager_fusion_info()["programs"]
    for length in lengths:
        mx.eval(function(length))
    return mx.eager_fusion_info()["programs"] - before


@pytest.mark.usefixtures("one_by_one")
def test_a_growing_length_soon_makes_no_more_programs() -> None:
    lengths = list(range(1000, 1040))
    assert programs_after(attention, lengths) == 0  # each came once
    assert programs_after(attention, lengths) == MAX_TRIAL_PROGRAMS
    assert programs_after(chain, [1100, 1100]) == 1  # other ops are another family


@pytest.mark.usefixtures("one_by_one")
def test_programs_that_are_run_make_room_for_more() -> None:
    lengths = list(range(1000, 1006))
    assert programs_after(attention, lengths * 2) == MAX_TRIAL_PROGRAMS
    enough = MIN_RUNS_PER_PROGRAM * MAX_TRIAL_PROGRAMS
    assert programs_after(attention, [1000] * enough) == 0
    assert programs_after(attention, lengths[-2:]) == 1


def test_results_are_the_same_with_and_without_a_program() -> None:
    for _ in range(3):
        for length in range(1000, 1006):
            expected = np.sum(np.exp(np.sin(np.arange(length))) * 2 + 1)
            np.testing.assert_allclose(attention(length), np.full(ROWS, expected), rtol=1e-4)


@pytest.mark.usefixtures("one_by_one")
def test_a_graph_that_moves_much_memory_is_compiled_whatever_became_of_its_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    programs_after(attention, list(range(1000, 1010)) * 2)
    monkeypatch.setattr(fusion_policy, "MIN_BYTES_TO_FUSE_AT_ONCE", 1)
    assert programs_after(attention, [2000]) == 0  # many nodes for so few bytes
    monkeypatch.setattr(fusion_policy, "MIN_BYTES_TO_FUSE_AT_ONCE_PER_NODE", 1)
    assert programs_after(attention, [2001]) == 1


def test_graphs_that_grow_share_one_program(made: list[str]) -> None:
    for length in range(1000, 1030):
        expected = np.sum(np.exp(np.sin(np.arange(length))) * 2 + 1)
        np.testing.assert_allclose(attention(length), np.full(ROWS, expected), rtol=1e-4)
    assert made == ["symbolic"]
    assert mx.eager_fusion_info()["runs"] == 30 - (eager.MIN_SYMBOLIC_EXAMPLES - 1)


def decode(tokens: int) -> None:
    """Attention with a cache that grows by a token at each step."""
    rng = np.random.default_rng(0)
    heads, width = 8, 64
    keys = rng.standard_normal((heads, 300, width)).astype(np.float32)
    values = rng.standard_normal((heads, 300, width)).astype(np.float32)
    cached = mx.array(keys), mx.array(values)
    for _ in range(tokens):
        q, k, v = (rng.standard_normal((heads, 1, width)).astype(np.float32) for _ in range(3))
        cached = (
            mx.concatenate([cached[0], mx.array(k) * 2], axis=1),
            mx.concatenate([cached[1], mx.tanh(mx.array(v))], axis=1),
        )
        scores = mx.array(q) @ cached[0].swapaxes(-1, -2) / width**0.5
        found = mx.softmax(scores - 1, axis=-1) @ cached[1]
        mx.eval(found, *cached)
        keys = np.concatenate([keys, k * 2], axis=1)
        values = np.concatenate([values, np.tanh(v)], axis=1)
        weights = np.exp(q @ keys.swapaxes(-1, -2) / width**0.5 - 1)
        expected = weights / weights.sum(axis=-1, keepdims=True) @ values
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(cached[0], keys)


def test_a_cache_that_grows_has_one_program(made: list[str]) -> None:
    decode(20)
    assert made.count("specialised") == 0
    assert 1 <= made.count("symbolic") <= 2


def test_another_relation_of_numbers_is_another_program(
    made: list[str],
) -> None:
    """Two lengths grow together at first, and then apart."""

    def graph(m: int, n: int) -> mx.array:
        return mx.sum(mx.exp(mx.sin(mx.ones((m, n)) * mx.arange(n))) * 2 + 1, axis=0)

    pairs = [(300 + k, 400 + k) for k in range(8)] + [(300 + k, 420 + 3 * k) for k in range(8)]
    for m, n in pairs:
        expected = (np.exp(np.sin(np.arange(n))) * 2 + 1) * m
        np.testing.assert_allclose(graph(m, n), expected, rtol=1e-4)
    assert set(made) == {"symbolic"}
    assert len(made) == 2


def test_parameters_of_ops_may_change_too(made: list[str]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 200)).astype(np.float32)
    for start in range(2, 30):
        found = mx.exp(mx.array(x)[start : start + 200] * 2) - mx.array(x)[:200] + start
        np.testing.assert_allclose(
            found, np.exp(x[start : start + 200] * 2) - x[:200] + start, rtol=1e-4, atol=1e-4
        )
    assert "specialised" not in made


@pytest.mark.parametrize("lengths", [(100, 100, 100), (100, 105, 110, 120)])
def test_programs_contain_what_compositions_are_composed_of(
    lengths: tuple[int, ...], made: list[str]
) -> None:
    def model(library: Any, length: int) -> Any:
        q, k, v = np.random.default_rng(length).normal(size=(3, 1, 4, length, 32))
        q, k, v = (library.array(x.astype(np.float32)) for x in (q, k, v))
        found = library.fast.scaled_dot_product_attention(
            library.sin(q), library.cos(k) * 2, v, scale=0.2, mask="causal"
        )
        last = library.fast.rms_norm(found[:, :, -2:], None, 1e-5)  # one node
        return library.exp(found) * 2 + 1, library.tanh(last)

    for length in lengths:
        results = model(mx, length)
        mx.eval(results)
        for found, expected in zip(results, model(mlx, length), strict=True):
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-4)
    assert made == ["specialised" if lengths[0] == lengths[1] else "symbolic"]
