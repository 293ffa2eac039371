"""New shapes of shapeless functions: nothing is compiled where a program serves them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call.cache import MAX_INSTANCES


def function(x: mx.array) -> mx.array:
    return mx.exp(x - x.max(axis=-1, keepdims=True)) * x.shape[0]


def test_new_shapes_need_no_compilation() -> None:
    compiled = mx.compile(function, shapeless=True)
    mx.eval(compiled(mx.zeros((40, 50))))
    before = compiled.cache_info()
    for shape in ((41, 52), (60, 70), (33, 64)):
        x = np.random.default_rng(9).uniform(size=shape).astype(np.float32)
        expected = np.exp(x - x.max(axis=-1, keepdims=True)) * shape[0]
        np.testing.assert_allclose(np.array(compiled(mx.array(x))), expected, rtol=1e-5)
    after = compiled.cache_info()
    assert after.new_shapes == before.new_shapes + 3
    assert after.phases["machine code"] == before.phases["machine code"]


def test_shapes_of_another_class_are_right_too() -> None:
    compiled = mx.compile(function, shapeless=True)
    for shape in ((40, 50), (1, 50), (40, 1), (0, 3), (3, 5000)):
        x = np.random.default_rng(9).uniform(size=shape).astype(np.float32)
        if x.size:
            expected = np.exp(x - x.max(axis=-1, keepdims=True)) * shape[0]
            np.testing.assert_allclose(np.array(compiled(mx.array(x))), expected, rtol=1e-5)


def python_calls(run: Callable[[], Any]) -> list[str]:
    """The names of Python functions that run meanwhile."""
    found: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


SHAPED: dict[str, tuple[Callable[..., Any], Callable[[int, int], list[tuple[int, ...]]]]] = {
    "function": (function, lambda m, n: [(m, n)]),
    "two inputs": (lambda x, y: mx.tanh(x * y) + 1, lambda m, n: [(m, n), (m, n)]),
    "guards": (
        lambda x: x[: x.shape[0] // 2] * 2 if x.shape[0] % 2 == 0 and x.shape[1] > 3 else x + 1,
        lambda m, n: [(2 * m, n)],
    ),
    "floats": (lambda x: x * (1 / x.shape[1]) + x.shape[0] ** 0.5, lambda m, n: [(m, n)]),
}


@pytest.mark.parametrize("name", SHAPED)
def test_new_shapes_run_no_python(name: str) -> None:
    traced, shapes = SHAPED[name]
    compiled = mx.compile(traced, shapeless=True)
    compiled.cache_clear()
    for m, n in ((40, 50), (30, 60), (32, 70)):
        mx.eval(compiled(*map(mx.zeros, shapes(m, n))))
    before = compiled.cache_info()
    for number, (m, n) in enumerate(((41, 52), (60, 70), (33, 64)), 1):
        x = [mx.random.uniform(shape=shape) for shape in shapes(m, n)]
        mx.eval(x)
        held: list[Any] = []
        calls = python_calls(lambda x=x, held=held: held.append(compiled(*x)))  # type: ignore[misc]
        expected = np.array(traced(*x))
        assert [each for each in calls if each != "<lambda>"] == []
        np.testing.assert_allclose(np.array(held[0]), expected, rtol=1e-5)
        assert compiled.cache_info().new_shapes == before.new_shapes + number
    assert compiled.cache_info().misses == before.misses
    assert compiled.cache_info().phases == before.phases


def test_guards_of_sizes_are_checked_for_new_shapes() -> None:
    compiled = mx.compile(SHAPED["guards"][0], shapeless=True)
    compiled.cache_clear()
    for shape in ((4, 5), (6, 9), (5, 5), (7, 9), (4, 3), (8, 4), (8, 3), (2, 5)):
        x = np.random.default_rng(3).uniform(size=shape).astype(np.float32)
        halves = shape[0] % 2 == 0 and shape[1] > 3
        expected = x[: shape[0] // 2] * 2 if halves else x + 1
        np.testing.assert_array_equal(np.array(compiled(mx.array(x))), expected)
    assert compiled.cache_info().misses == 3


def test_sizes_beyond_64_bits_are_left_to_python() -> None:
    compiled = mx.compile(lambda x: x * float(x.shape[0] ** 13 % 7), shapeless=True)
    for length in (3, 5, 20, 40, 41):
        assert compiled(mx.ones(length))[0].item() == length**13 % 7


def test_the_least_recently_used_shapes_go() -> None:
    compiled = mx.compile(lambda x: x * 3 + 1, shapeless=True)
    compiled.cache_clear()
    for length in range(2, 2 + 2 * MAX_INSTANCES):
        assert compiled(mx.ones(length)).shape == (length,)
        mx.eval(compiled(mx.ones(2)))  # always in use
    info = compiled.cache_info()
    assert info.entries <= MAX_INSTANCES
    assert info.entries + info.evictions == 2 * MAX_INSTANCES
    assert info.new_shapes + info.misses == 2 * MAX_INSTANCES
    assert "(513,)" in info.compilations[-1].reason


def test_profiles_and_errors_know_programs_that_native_code_made() -> None:
    compiled = mx.compile(lambda x: mx.exp(x) + 1, shapeless=True)
    for length in (10, 20):
        mx.eval(compiled(mx.ones(length)))
    result = compiled(mx.ones(30))
    program = result._node.inputs[0].op.program
    assert program.results == (((30,), mx.float32),)
    assert [step.shape for step in program.native.about.work[0].writes] == [(30,)]
    assert program.traced.outputs[0].shape == (30,)
