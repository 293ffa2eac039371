"""Uncompiled graphs that come again run by a program that C finds: what is the same graph, and what
is not, and that results are those of NumPy in any case.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call import eager
from ingot.ops.internal.adjoints import cached_op
from ingot.tuning import (
    ELEMENTS_PER_CALL,
    MIN_FUSED_ELEMENTS,
    MIN_FUSED_NODE_ELEMENTS,
    MIN_SMALL_GRAPH_RUNS,
)

LENGTH = 10007


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_structures", eager._Structures())
    _native.forget_programs()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def runs_in_c(function: Callable[[], object]) -> int:
    before = _native.graph_runs()
    function()
    return _native.graph_runs() - before


def chain(x: mx.array, scale: float = 2.0) -> mx.array:
    return mx.abs(x * scale - 1.0) + x


def expected_chain(x: np.ndarray, scale: float = 2.0) -> np.ndarray:
    return np.abs(x * np.float32(scale) - np.float32(1)) + x


def prepare(x: mx.array) -> None:
    for _ in range(2):
        mx.eval(chain(x))


def test_the_third_evaluation_does_not_ask_python() -> None:
    x = mx.array(numbers(LENGTH))
    assert runs_in_c(lambda: prepare(x)) == 0
    assert runs_in_c(lambda: mx.eval(chain(x))) == 1
    assert mx.eager_fusion_info()["runs"] == 2


def test_values_are_inputs() -> None:
    prepare(mx.array(numbers(LENGTH)))
    for seed in range(1, 4):
        x = numbers(LENGTH, seed=seed)
        np.testing.assert_array_equal(chain(mx.array(x), seed / 7), expected_chain(x, seed / 7))


@pytest.mark.parametrize("step", [2, -1])
def test_layouts_are_distinguished(step: int) -> None:
    base = numbers(2 * LENGTH)
    prepare(mx.array(base[:LENGTH]))
    strided = mx.array(base)[::step][:LENGTH]
    mx.eval(strided)
    expected = expected_chain(base[::step][:LENGTH])
    for _ in range(4):
        np.testing.assert_array_equal(chain(strided), expected)


@pytest.mark.parametrize("dtype", [mx.float16, mx.int32, mx.complex64])
def test_dtypes_are_distinguished(dtype: mx.Dtype) -> None:
    prepare(mx.array(numbers(LENGTH)))
    x = mx.array(np.arange(LENGTH) % 100).astype(dtype)
    mx.eval(x)
    found = [np.array(chain(x, 2)) for _ in range(4)]
    for each in found[1:]:
        np.testing.assert_array_equal(each, found[0])
    assert chain(x, 2).dtype == (dtype if dtype != mx.int32 else mx.float32)


def test_edges_are_part_of_the_key() -> None:
    x, y = numbers(LENGTH), numbers(LENGTH, seed=1)
    a, b = mx.array(x), mx.array(y)
    for _ in range(4):
        np.testing.assert_array_equal((a - b) * a, (x - y) * x)
        np.testing.assert_array_equal((b - a) * a, (y - x) * x)
        np.testing.assert_array_equal((a - b) * b, (x - y) * y)
        np.testing.assert_array_equal((a - a) * b, (x - x) * y)


def test_nodes_that_are_referred_to_get_values() -> None:
    x = numbers(LENGTH)
    a = mx.array(x)
    prepare(a)
    for _ in range(3):
        inner = a * 2.0 - 1.0
        result = mx.abs(inner) + a
        mx.eval(result)
        assert inner._node.op is None  # it was evaluated with the result
        np.testing.assert_array_equal(inner, x * np.float32(2) - np.float32(1))
        np.testing.assert_array_equal(result, expected_chain(x))


def test_gradients_find_their_programs() -> None:
    x = mx.array(numbers(LENGTH))
    gradient = mx.grad(lambda x: (mx.square(x) * x).sum())
    for _ in range(2):
        mx.eval(gradient(x))
    assert runs_in_c(lambda: mx.eval(gradient(x))) == 1
    np.testing.assert_allclose(gradient(x), 3 * numbers(LENGTH) ** 2, rtol=1e-5)


def test_equal_ops_need_not_be_the_same() -> None:
    x = numbers(LENGTH)
    a = mx.array(x)

    def build(shape: tuple[int, int]) -> mx.array:
        cached_op.cache_clear()  # ops that were made before are forgotten
        return mx.abs(mx.reshape(a * 2.0, shape)) - 1.0

    for _ in range(2):
        mx.eval(build((LENGTH, 1)))
    assert runs_in_c(lambda: mx.eval(build((LENGTH, 1)))) == 1
    assert runs_in_c(lambda: mx.eval(build((1, LENGTH)))) == 0
    np.testing.assert_array_equal(build((1, LENGTH)), np.abs(x * np.float32(2))[None] - 1)


def test_a_small_graph_is_compiled_when_it_has_come_often() -> None:
    x = numbers(5)
    a = mx.array(x)
    for _ in range(MIN_SMALL_GRAPH_RUNS):
        assert mx.eager_fusion_info()["programs"] == 0
        mx.eval(chain(a))
    assert mx.eager_fusion_info()["programs"] == 1
    assert runs_in_c(lambda: np.testing.assert_array_equal(chain(a), expected_chain(x))) == 1


def test_a_larger_graph_is_compiled_earlier() -> None:
    """Several hundred ops, of which each takes a few times as long as one on few elements."""
    x = numbers(3 * ELEMENTS_PER_CALL)
    a = mx.array(x)

    def steps(a: mx.array) -> mx.array:
        for _ in range(100):
            a = mx.abs(a * 0.5 - 1.0)
        return a

    def expected(x: np.ndarray) -> np.ndarray:
        for _ in range(100):
            x = np.abs(x * np.float32(0.5) - np.float32(1))
        return x

    for _ in range(MIN_SMALL_GRAPH_RUNS // 4):
        assert mx.eager_fusion_info()["programs"] == 0
        mx.eval(steps(a))
    assert mx.eager_fusion_info()["programs"] == 1
    assert runs_in_c(lambda: np.testing.assert_array_equal(steps(a), expected(x))) == 1


def test_views_do_not_make_a_graph_small() -> None:
    """A training step has as many reshapes, transposes and broadcasts as ops that compute."""
    x = numbers(2 * MIN_FUSED_NODE_ELEMENTS)
    a = mx.array(x)

    def viewed(a: mx.array) -> mx.array:
        for _ in range(5):
            a = a.reshape(-1, 2).T.reshape(2, -1, 1).transpose(1, 0, 2).reshape(-1, 2).T * 2.0
            a = mx.abs(a).T.reshape(-1)
        return a

    for _ in range(2):
        np.testing.assert_array_equal(viewed(a), np.abs(x) * 32)
    assert mx.eager_fusion_info()["programs"] == 1


def test_settings_forget_programs() -> None:
    x = mx.array(numbers(LENGTH))
    prepare(x)
    mx.set_eager_fusion(False)
    assert runs_in_c(lambda: mx.eval(chain(x))) == 0
    mx.set_eager_fusion(True)
    mx.set_excess_precision(True)
    try:
        assert runs_in_c(lambda: mx.eval(chain(x))) == 0
    finally:
        mx.set_excess_precision(False)


def test_an_error_names_the_line() -> None:
    """A check within the program fails only for some values."""

    def checked(a: mx.array, b: mx.array) -> mx.array:
        return mx.linalg.inv(a * 2.0 - 1.0, stream=mx.cpu) * 2.0 - b  # this line

    length = int(MIN_FUSED_ELEMENTS**0.5) + 1
    regular, singular = mx.eye(length), mx.full((length, length), 0.5)
    b = mx.array(numbers(length, length))
    mx.eval(regular, singular)
    for _ in range(3):
        mx.eval(checked(regular, b))
    with pytest.raises((ValueError, RuntimeError), match=r"test_whole_graph\.py"):
        mx.eval(checked(singular, b))


def test_threads_share_programs() -> None:
    x = numbers(LENGTH)
    a, expected = mx.array(x), expected_chain(x)
    failed: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            if not np.array_equal(np.array(chain(a)), expected):
                failed.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_threads_that_evaluate_the_same_graph() -> None:
    x = numbers(LENGTH)
    a, expected = mx.array(x), expected_chain(x)
    prepare(a)
    for _ in range(20):
        y = chain(a)
        threads = [threading.Thread(target=mx.eval, args=(y,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(y, expected)
