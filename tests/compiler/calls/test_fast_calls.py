"""Calls that the native fast path answers: those that use implicit states too."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call.function import CompiledFunction
from ingot.graph.state import State, current_state, state_lock


@pytest.fixture
def slow_calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The arguments of all calls that reach Python."""
    seen: list[Any] = []
    usual = CompiledFunction.slow_call

    def slow_call(self: CompiledFunction, args: Any, kwargs: Any, known: Any) -> Any:
        seen.append(args)
        return usual(self, args, kwargs, known)

    monkeypatch.setattr(CompiledFunction, "slow_call", slow_call)
    return seen


def draw(library: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        mask = library.random.bernoulli(0.5, x.shape)
        return [x * mask, library.random.normal((3,))]

    return function


def values(arrays: Any) -> list[Any]:
    return [np.array(x) for x in arrays]


def test_random_numbers_are_those_of_mlx_and_never_reach_python_again(slow_calls: Any) -> None:
    compiled, reference = mx.compile(draw(mx)), draw(mlx)
    mx.random.seed(11)
    mlx.random.seed(11)
    ours, theirs = mx.arange(5.0), mlx.arange(5.0)
    for number in range(6):
        for mine, other in zip(values(compiled(ours)), values(reference(theirs)), strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
        if number % 2:  # uncompiled draws in between go on from the same state
            between = mx.random.uniform(shape=(4,)).tolist()
            assert between == mlx.random.uniform(shape=(4,)).tolist()
    assert len(slow_calls) == 1
    assert compiled.cache_info().hits == 5


def test_seeds_are_followed(slow_calls: Any) -> None:
    compiled = mx.compile(lambda: mx.random.uniform(shape=(4,)))
    drawn = []
    for _ in range(3):
        mx.random.seed(5)
        drawn.append([compiled().tolist(), compiled().tolist()])
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0][0] != drawn[0][1]
    assert len(slow_calls) == 1


def test_no_two_threads_draw_the_same() -> None:
    compiled = mx.compile(lambda: mx.random.randint(0, 1 << 30, (4,)))
    compiled()
    drawn: list[Any] = []

    def work() -> None:
        mine = [compiled() for _ in range(200)]
        drawn.extend(tuple(x.tolist()) for x in mine)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == len(set(drawn)) == 800


def test_a_call_waits_while_another_thread_updates_the_state() -> None:
    compiled = mx.compile(lambda: mx.random.uniform(shape=(2,)))
    compiled()
    done: list[Any] = []
    with state_lock:
        thread = threading.Thread(target=lambda: done.append(compiled()))
        thread.start()
        thread.join(0.1)
        assert not done
    thread.join()
    assert len(done) == 1


def test_a_state_of_another_shape_is_traced_again(slow_calls: Any) -> None:
    state: State = [mx.zeros((2,))]

    @mx.compile
    def count(x: mx.array) -> mx.array:
        here = current_state(state, "the counter")
        here[0] = here[0] + x
        return here[0] * 2

    one = mx.array(1.0)
    assert [count(one).tolist() for _ in range(3)] == [[2, 2], [4, 4], [6, 6]]
    state[0] = mx.zeros((3,))
    assert [count(one).tolist() for _ in range(3)] == [[2] * 3, [4] * 3, [6] * 3]
    state[0] = mx.zeros((2,), mx.int32)
    assert [count(mx.array(1.0)).tolist() for _ in range(2)] == [[2, 2], [4, 4]]
    assert state[0].dtype is mx.float32
    state.append(one)
    assert count(one).tolist() == [6, 6]
    assert len(slow_calls) >= 4


def test_a_function_that_only_reads_a_state() -> None:
    state: State = [mx.zeros((2,))]

    @mx.compile
    def length() -> int:
        return len(current_state(state, "the state"))

    assert [length(), length(), length()] == [1, 1, 1]
    state.append(mx.zeros((2,)))
    assert length() == 2


def test_functions_that_change_containers_are_no_fast_calls(slow_calls: Any) -> None:
    @mx.compile
    def step(held: dict[str, mx.array]) -> mx.array:
        held["x"] = held["x"] + mx.random.uniform(shape=())
        return held["x"]

    held = {"x": mx.array(0.0)}
    drawn = [step(held).item() for _ in range(3)]
    assert drawn == sorted(set(drawn))
    assert held["x"].item() == drawn[-1]
    assert len(slow_calls) == 3


def test_the_signature_of_a_miss_is_computed_once(
    monkeypatch: pytest.MonkeyPatch, slow_calls: Any
) -> None:
    again: list[Any] = []
    usual = CompiledFunction.signature

    def signature(self: CompiledFunction, *arguments: Any) -> Any:
        again.append(arguments)
        return usual(self, *arguments)

    monkeypatch.setattr(CompiledFunction, "signature", signature)
    compiled = mx.compile(lambda x, scale: x * scale)
    for scale in (2, 3, 2.0):
        assert compiled(mx.array([1.0]), scale).tolist() == [scale]
    assert len(slow_calls) == 3
    assert [shapes for _, _, shapes in again] == [False] * 3  # only that without shapes is new
    again.clear()
    assert compiled(mx.array([1.0]), scale=3).tolist() == [3]
    assert [shapes for _, _, shapes in again] == [True, False]
    assert compiled.cache_info().misses == 4
    # Without the fast path the same calls have the same keys.
    _native.enable_fast_calls(False)
    try:
        assert compiled(mx.array([1.0]), 3).tolist() == [3]
    finally:
        _native.enable_fast_calls(True)
    assert len(again) == 3
    assert compiled.cache_info().misses == 4


@pytest.mark.parametrize("shapeless", [False, True])
def test_settings_of_numerics_leave_calls_fast(slow_calls: Any, shapeless: bool) -> None:
    # each setting has programs of its own, found again when it returns
    compiled = mx.compile(lambda x: x * x + x, shapeless=shapeless)
    x = mx.linspace(0, 1, 50).astype(mx.bfloat16)
    wide = x.astype(mx.float32)
    rounded, exact = (x * x + x).tolist(), (wide * wide + wide).astype(mx.bfloat16).tolist()
    assert rounded != exact
    settings: list[tuple[Callable[[Any], None], Any, Any]] = [
        (mx.set_excess_precision, True, False),
        (mx.set_quantized_activations, "int8", "float32"),
        (mx.set_product_engine, "blas", "ingot"),
    ]
    compiled(x)
    for change, other, usual in settings:
        wanted = exact if change is mx.set_excess_precision else rounded
        try:
            change(other)
            before = len(slow_calls)
            assert [compiled(x).tolist() for _ in range(3)] == [wanted] * 3
            assert len(slow_calls) == before + 1
        finally:
            change(usual)
        assert compiled(x).tolist() == rounded
        assert len(slow_calls) == before + 1
    assert compiled.cache_info().misses == 4
