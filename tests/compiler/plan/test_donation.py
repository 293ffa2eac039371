"""Inputs that nothing else refers to give their memory to outputs; all others stay as they are."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

DTYPES = ["float32", "float16", "bfloat16", "int32", "uint8", "complex64"]


def _address(x: mx.array) -> int:
    mx.eval(x)
    data = np.asarray(x.view(mx.uint8)) if x.dtype == mx.bfloat16 else np.asarray(x)
    return data.ctypes.data


def _numbers(shape: Any, seed: int = 0) -> mx.array:
    found = mx.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    mx.eval(found)
    return found


@mx.compile
def _step(x: mx.array, y: mx.array) -> mx.array:
    return x - 0.1 * y


def test_a_dropped_input_is_updated_in_place() -> None:
    x, y = _numbers(1000), _numbers(1000, 1)
    expected = np.array(x) - np.float32(0.1) * np.array(y)
    before = _address(x)
    for _ in range(2):  # the first call compiles
        x, kept = _step(x, y), np.array(y)
        mx.eval(x)
    assert _address(x) == before
    np.testing.assert_array_equal(np.array(y), kept)
    np.testing.assert_allclose(np.array(x), expected - np.float32(0.1) * kept, rtol=1e-6, atol=1e-6)


def test_an_input_with_other_references_is_not() -> None:
    x, y = _numbers(1000), _numbers(1000, 1)
    old = np.array(x)
    mx.eval(_step(x, y))

    def hold_part(x: mx.array) -> mx.array:
        part = x[10:]
        mx.eval(part)
        return part

    for hold in (lambda x: x, np.asarray, memoryview, hold_part):
        current = _numbers(1000)
        kept = hold(current)
        result = _step(current, y)
        del current
        mx.eval(result)
        np.testing.assert_array_equal(np.array(kept), old[-len(kept) :])


def test_other_graphs_keep_their_inputs() -> None:
    x, y = _numbers(5000), _numbers(5000, 1)
    mx.eval(_step(x, y))
    doubled = x * 2  # not evaluated yet
    old = np.array(x)
    result = _step(x, y)
    del x
    mx.eval(result)
    np.testing.assert_array_equal(np.array(doubled), old * 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 1023, 4097, 70001])
def test_all_is_read_before_it_is_overwritten(size: int, dtype: str) -> None:
    def function(a: mx.array, b: mx.array) -> tuple[mx.array, ...]:
        total = a + b
        return total, a * b + total, b * total

    values = np.random.default_rng(size).integers(0, 5, (2, size))
    compiled = mx.compile(function)
    arrays = [mx.array(row).astype(getattr(mx, dtype)) for row in values]
    expected = [np.array(x.astype(mx.complex64)) for x in function(*arrays)]
    for _ in range(2):
        inputs = [mx.array(np.array(row)).astype(getattr(mx, dtype)) for row in values]
        mx.eval(inputs)
        results = compiled(*inputs)
        del inputs
        mx.eval(results)
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.array(found.astype(mx.complex64)), wanted)


def test_an_input_that_is_read_elsewhere_too() -> None:
    def function(a: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        return a + 1, a[::-1] * 2, mx.sum(a.reshape(100, 100).T * a.reshape(100, 100), axis=0)

    compiled = mx.compile(function)
    for _ in range(3):
        a = _numbers(10000)
        expected = [np.array(x) for x in function(a)]
        results = compiled(a)
        del a
        mx.eval(results)
        for found, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(np.array(found), wanted, rtol=1e-5, atol=1e-4)


def test_an_input_of_which_a_view_is_returned() -> None:
    @mx.compile
    def function(x: mx.array) -> tuple[mx.array, mx.array]:
        return x.reshape(100, 100), x * 2

    for _ in range(3):
        x = _numbers(10000)
        old = np.array(x)
        results = function(x)
        del x
        mx.eval(results)
        np.testing.assert_array_equal(np.array(results[0]).reshape(-1), old)
        np.testing.assert_array_equal(np.array(results[1]), old * 2)


def test_a_later_failure_leaves_inputs_as_they_were() -> None:
    @mx.compile
    def function(x: mx.array, index: mx.array) -> tuple[mx.array, mx.array]:
        return x * 3, mx.sort(x)[index]

    good, bad = mx.array([1, 2]), mx.array([1, 20000])
    mx.eval(function(_numbers(10000), good))
    x = _numbers(10000)
    old = np.array(x)
    results = function(x, bad)
    del x
    for _ in range(2):
        with pytest.raises(IndexError, match="20000"):
            mx.eval(results)
    graph = results[0] - 0  # still to be had: the inputs were not touched
    with pytest.raises(IndexError, match="20000"):
        mx.eval(graph)
    good_results = function(_numbers(10000), good)
    np.testing.assert_allclose(np.array(good_results[0]), old * 3, rtol=1e-6)


def test_threads_that_want_the_same_result() -> None:
    @mx.compile
    def function(x: mx.array) -> mx.array:
        for _ in range(30):
            x = mx.sin(x) + x
        return x

    start = _numbers(300_000)
    expected = np.array(function(start))
    for _ in range(10):
        x = _numbers(300_000)
        result = function(x)
        del x
        seen: list[np.ndarray] = []
        barrier = threading.Barrier(4)

        def look(
            result: mx.array = result,
            seen: list[np.ndarray] = seen,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait()
            mx.eval(result)
            seen.append(np.array(result))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(seen) == 4
        for found in seen:
            np.testing.assert_array_equal(found, expected)


def _train(compiled: bool) -> tuple[list[float], list[set[int]]]:
    """Losses of a few steps, and where parameters and moments were after each."""
    mx.random.seed(3)
    model = nn.Linear(300, 200)
    optimizer = optim.Adam(learning_rate=0.01)
    state = [model.state, optimizer.state]
    x, y = _numbers((16, 300)), _numbers((16, 200), 1)

    def loss(model: nn.Module, x: mx.array, y: mx.array) -> mx.array:
        return mx.mean((model(x) - y) ** 2)

    def step(x: mx.array, y: mx.array) -> mx.array:
        value, gradients = nn.value_and_grad(model, loss)(model, x, y)
        optimizer.update(model, gradients)
        return value

    if compiled:
        step = partial(mx.compile, inputs=state, outputs=state)(step)
    losses, places = [], []
    for _ in range(6):
        losses.append(step(x, y).item())
        mx.eval(state)
        moments = optimizer.state["weight"]
        places.append({_address(x) for x in (model.weight, moments["m"], moments["v"])})
    return losses, places


def test_training_updates_parameters_in_place() -> None:
    losses, places = _train(compiled=True)
    assert places[2] == places[3] == places[4] == places[5]  # in whatever order
    np.testing.assert_allclose(losses, _train(compiled=False)[0], rtol=1e-5)


@pytest.mark.parametrize("place", [(slice(None), 3), [3, 5], -1], ids=str)
def test_assigning_to_a_part_changes_it_in_place(place: Any) -> None:
    x = _numbers((200, 100))
    expected = np.array(x)
    before = _address(x)
    for number in range(3):
        x[mx.array(place) if isinstance(place, list) else place] = float(number)
        expected[place] = number
        mx.eval(x)
    assert _address(x) == before
    np.testing.assert_array_equal(np.array(x), expected)


def test_assigning_leaves_other_holders_alone() -> None:
    x = _numbers((200, 100))
    old, view, window = np.array(x), np.asarray(x), x[2:4]
    mx.eval(window)
    other = mx.array(x)
    x[3] = 0.0
    mx.eval(x)
    np.testing.assert_array_equal(view, old)
    np.testing.assert_array_equal(np.array(window), old[2:4])
    np.testing.assert_array_equal(np.array(other), old)
    assert np.array(x)[3].max() == 0


def test_a_bad_index_leaves_the_array_as_it_was() -> None:
    x = _numbers((200, 100))
    old = np.array(x)
    broken = mx.array(old)
    broken[mx.array([0, 500])] = 1.0
    with pytest.raises(IndexError, match="500"):
        mx.eval(broken)
    with pytest.raises(IndexError, match="500"):
        mx.eval(broken)
    np.testing.assert_array_equal(np.array(x), old)


def test_derivatives_see_the_values_before() -> None:
    def function(x: mx.array) -> mx.array:
        y = x * 1.0
        mx.eval(y)
        z = y * y
        y[0] = 5.0
        mx.eval(y)
        return mx.sum(z) + mx.sum(y)

    x = _numbers(10_000)
    gradient = np.array(mx.grad(function)(x))
    expected = 2 * np.array(x) + 1
    expected[0] -= 1
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)


def test_an_input_that_a_result_shows_keeps_its_memory() -> None:
    def step(x: mx.array) -> tuple[mx.array, mx.array]:
        return x.T, x * 0.5

    compiled = mx.compile(step)
    for _ in range(3):
        x = _numbers((70, 80))
        values = np.array(x)
        shown, halved = compiled(x)
        del x
        mx.eval(shown, halved)
        np.testing.assert_array_equal(np.array(shown), values.T)
        np.testing.assert_array_equal(np.array(halved), values * np.float32(0.5))


def test_a_scatter_updates_a_dropped_input_in_place() -> None:
    compiled = mx.compile(lambda x, i, y: x.at[i].add(y))
    rows = mx.array([3, -1, 3])
    y = _numbers((3, 80), 1)
    x = _numbers((70, 80))
    expected = np.array(x)
    places = []
    for _ in range(3):  # the first call compiles
        x = compiled(x, rows, y)
        places.append(_address(x))
        np.add.at(expected, np.array(rows), np.array(y))
    assert places[1] == places[2] == places[0]
    np.testing.assert_allclose(np.array(x), expected, rtol=1e-5, atol=1e-6)
