"""Lengths that vary become symbols, unless the function needs their numbers."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot.tuning import MAX_FIXED_LENGTHS, MAX_LENGTH_CLASSES, MAX_REFUSED_TRACES

WIDTH = 8


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def reasons(compiled: Any) -> list[str]:
    return [miss.reason for miss in compiled.cache_info().reasons]


def decoder(core: Any) -> Callable[..., Any]:
    weights = [core.array(numbers(WIDTH, WIDTH + n)[:, :WIDTH]) for n in range(3)]

    def step(token: Any, keys: Any, values: Any) -> Any:
        q, k, v = (token @ w for w in weights)
        keys, values = core.concatenate([keys, k]), core.concatenate([values, v])
        scores = core.softmax(q @ keys.T * WIDTH**-0.5, axis=-1)
        return scores @ values, keys, values

    return step


def test_a_cache_that_grows_is_compiled_a_few_times() -> None:
    ours, theirs = mx.compile(decoder(mx)), mlx.compile(decoder(mlx))
    states: list[Any] = [(core.zeros((1, WIDTH)), core.zeros((1, WIDTH))) for core in (mx, mlx)]
    for number in range(40):
        token = numbers(1, WIDTH) + number
        found, *states[0] = ours(mx.array(token), *states[0])
        expected, *states[1] = theirs(mlx.array(token), *states[1])
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-5)
    info = ours.cache_info()
    assert info.misses == MAX_FIXED_LENGTHS + 1
    assert info.calls == 40
    assert reasons(ours)[-1] == (
        "argument `keys`, axis 0: 3 → 4; argument `values`, axis 0: 3 → 4; argument `keys`, axis "
        "0; argument `values`, axis 0 may have any length from now on"
    )
    made = [each for each in info.compilations if each.kind == "new shapes" and each.seconds > 0]
    assert len(made) <= 2


def test_lengths_that_never_varied_stay_numbers() -> None:
    traced: list[tuple[Any, ...]] = []

    def function(x: Any, w: Any) -> Any:
        traced.append((*map(type, x.shape), *map(type, w.shape)))
        return mx.maximum(x @ w, 0).sum(axis=0)

    compiled = mx.compile(function)
    for length in (2, 3, 5, 7, 11, 13):
        x, w = numbers(length, 4), numbers(4, 6)
        expected = np.maximum(x @ w, 0).sum(axis=0)
        np.testing.assert_allclose(compiled(mx.array(x), mx.array(w)), expected, rtol=1e-5)
    *fixed, last = traced
    assert fixed == [(int,) * 4] * MAX_FIXED_LENGTHS
    assert last[0] is not int
    assert last[1:] == (int, int, int)
    x, w = numbers(13, 4), numbers(4, 7)  # which the trace must not take for (4, 6)
    np.testing.assert_allclose(
        compiled(mx.array(x), mx.array(w)), np.maximum(x @ w, 0).sum(axis=0), rtol=1e-5
    )


def test_known_lengths_keep_their_programs() -> None:
    compiled = mx.compile(lambda x: x * 2)
    arrays = [mx.array(numbers(length)) for length in range(2, 10)]
    mx.eval([compiled(x) for x in arrays])
    before = compiled.cache_info()
    mx.eval([compiled(x) for x in arrays])
    after = compiled.cache_info()
    assert after.hits == before.hits + 8
    assert (after.misses, after.new_shapes) == (before.misses, before.new_shapes)


# Functions that need the number: each must give what it gives uncompiled, for every length.


def reads_the_value(x: Any) -> Any:
    return x * float(x.shape[0])


def loops(x: Any) -> Any:
    total = x[0]
    for row in range(1, x.shape[0]):
        total = total * 0.5 + x[row]
    return total


def through_numpy(x: Any) -> Any:
    return x + mx.array(np.arange(x.shape[0], dtype=np.float32))


def needs_an_int(x: Any) -> Any:
    return x + len(json.dumps([0] * x.shape[0])) + json.loads(json.dumps(x.shape[0]))


def branches(x: Any) -> Any:
    return x + 1 if x.shape[0] > 6 else x - 1


def branches_on_parity(x: Any) -> Any:
    return x * 3 if x.shape[0] % 2 else x * 5


def halves(x: Any) -> Any:
    return x[: x.shape[0] // 2] - x[-(x.shape[0] // 2) :]


def normalised(x: Any) -> Any:
    return x.sum() / x.shape[0] ** 0.5 + mx.arange(x.shape[0]).sum()


NEED_THE_NUMBER = [reads_the_value, loops, through_numpy, needs_an_int]
NEED_NONE = [branches, branches_on_parity, halves, normalised]


@pytest.mark.parametrize("function", NEED_THE_NUMBER + NEED_NONE)
def test_every_length_gives_what_it_gives_uncompiled(function: Callable[[Any], Any]) -> None:
    compiled = mx.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.RecompilationWarning)
        for length in (3, 4, 2, 5, 9, 8, 12, 3, 7, 20, 1, 21):
            x = numbers(length)
            for _ in range(2):  # the second is a hit
                expected = np.array(function(mx.array(x)))
                np.testing.assert_allclose(compiled(mx.array(x)), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", NEED_THE_NUMBER)
def test_functions_that_need_the_number_are_compiled_for_each(
    function: Callable[[Any], Any],
) -> None:
    compiled = mx.compile(function)
    compiled.cache_clear()
    lengths = range(3, 12)
    for length in lengths:
        compiled(mx.zeros(length))
    assert compiled.cache_info().misses == len(lengths)
    tried = [reason for reason in reasons(compiled) if "there is no program for all" in reason]
    assert 1 <= len(tried) <= MAX_REFUSED_TRACES


def test_the_reason_names_the_number() -> None:
    compiled = mx.compile(reads_the_value)
    compiled.cache_clear()
    for length in (2, 3, 4, 5):
        compiled(mx.zeros(length))
    assert reasons(compiled)[-1] == (
        "argument `x`, axis 0: 4 → 5; there is no program for all lengths, because the function "
        "depends on `x`.shape[0] == 5"
    )


def test_classes_of_lengths_are_bounded() -> None:
    def by_class(x: Any) -> Any:
        return x + sum(x.shape[0] > limit for limit in range(0, 400, 4))

    compiled = mx.compile(by_class)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.RecompilationWarning)
        for length in range(1, 120, 4):
            expected = np.array(by_class(mx.zeros(length)))
            np.testing.assert_array_equal(compiled(mx.zeros(length)), expected)
    (entry,) = (x for x in compiled._cache.entries.values() if x.variants[0].is_symbolic)
    assert len(entry.variants) == MAX_LENGTH_CLASSES


def test_errors_are_those_of_the_function() -> None:
    def picky(x: Any, y: Any) -> Any:
        if x.shape[0] == 9:
            raise KeyError("nine")
        return x + y

    compiled = mx.compile(picky)
    for length in (2, 3, 4):
        compiled(mx.zeros(length), mx.zeros(length))
    with pytest.raises(KeyError, match="nine"):
        compiled(mx.zeros(9), mx.zeros(9))
    np.testing.assert_array_equal(compiled(mx.ones(5), mx.ones(5)), np.full(5, 2))
    with pytest.raises(ValueError, match="broadcast"):
        compiled(mx.zeros(6), mx.zeros(7))
    with pytest.raises(KeyError, match="nine"):
        compiled(mx.zeros(9), mx.zeros(9))
    np.testing.assert_array_equal(compiled(mx.ones(12), mx.ones(12)), np.full(12, 2))
    assert compiled.cache_info().misses == 4


def test_a_batch_of_another_size_is_traced_once() -> None:
    compiled = mx.compile(lambda x: mx.softmax(x, axis=-1))
    for batch in (1, 2):
        for length in range(3, 20):
            x = numbers(batch, length)
            expected = np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True)
            np.testing.assert_allclose(compiled(mx.array(x)), expected, rtol=1e-5)
    assert compiled.cache_info().misses == MAX_FIXED_LENGTHS + 2


def test_lengths_in_results_keywords_and_captured_state() -> None:
    state = {"seen": mx.zeros(4)}

    def noted(x: Any, *, factor: float) -> Any:
        state["seen"] = state["seen"] + x.sum(axis=0)
        return {"rows": x.shape[0], "y": x * factor}

    compiled = mx.compile(noted, inputs=state, outputs=state)
    total = np.zeros(4, np.float32)
    for length in range(2, 12):
        x = numbers(length, 4)
        total += x.sum(axis=0)
        found = compiled(mx.array(x), factor=2.0)
        assert found["rows"] == length
        assert type(found["rows"]) is int
        np.testing.assert_allclose(found["y"], x * 2, rtol=1e-6)
    np.testing.assert_allclose(state["seen"], total, rtol=1e-4, atol=1e-5)
    assert compiled.cache_info().misses == MAX_FIXED_LENGTHS + 1


def test_gradients_and_random_numbers() -> None:
    def loss(w: Any, x: Any) -> Any:
        return (mx.tanh(x @ w) ** 2).mean()

    compiled = mx.compile(mx.value_and_grad(loss))
    sample = mx.compile(lambda x: x + mx.random.uniform(shape=x.shape))
    w = numbers(4, 3)
    for length in range(2, 12):
        x = numbers(length, 4)
        value, gradient = compiled(mx.array(w), mx.array(x))
        expected = mlx.value_and_grad(lambda w, x: (mlx.tanh(x @ w) ** 2).mean())(
            mlx.array(w), mlx.array(x)
        )
        np.testing.assert_allclose(value, np.array(expected[0]), rtol=1e-5)
        np.testing.assert_allclose(gradient, np.array(expected[1]), rtol=1e-4, atol=1e-6)
        mx.random.seed(length)
        drawn = np.array(sample(mx.zeros(length)))
        mlx.random.seed(length)
        np.testing.assert_array_equal(drawn, np.array(mlx.random.uniform(shape=(length,))))
    assert compiled.cache_info().misses == MAX_FIXED_LENGTHS + 1
    assert sample.cache_info().misses == MAX_FIXED_LENGTHS + 1


def test_explanations_say_which_lengths_are_symbols() -> None:
    compiled = mx.compile(lambda x: mx.softmax(x, axis=-1))
    for length in range(3, 9):
        mx.eval(compiled(mx.zeros((2, length))))
    assert "guard: `x`.shape[0] == 2" in str(compiled.explain(mx.zeros((2, 30))))
    assert "guard" not in str(compiled.explain(mx.zeros((2, 3))))  # has a program of its own
    assert "may have any length from now on" in str(compiled.cache_info())


def test_clearing_forgets_which_lengths_vary() -> None:
    compiled = mx.compile(lambda x: x + 1)
    for _ in range(2):
        for length in range(2, 9):
            np.testing.assert_array_equal(compiled(mx.zeros(length)), np.ones(length))
        assert compiled.cache_info().misses == MAX_FIXED_LENGTHS + 1
        compiled.cache_clear()
        assert compiled.cache_info().calls == 0
