"""Compiled functions: what can be compiled, and what it is afterwards."""

from __future__ import annotations

import copy
import functools
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import EXPECTED, X, Y, check, exp_plus

import ingot.core as mx


class Callable:
    """An object that can be called, without a name."""

    def __init__(self, factor: float) -> None:
        self.factor = mx.array(factor)

    def __call__(self, x: Any) -> Any:
        return x * self.factor

    def method(self, x: Any) -> Any:
        return x + self.factor

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return x * 5

    @staticmethod
    def static(x: Any) -> Any:
        return x * 6

    @mx.compile
    def decorated(self, x: Any) -> Any:
        return x - self.factor

    @functools.partial(mx.compile, shapeless=True)
    def shapeless(self, x: Any) -> Any:
        return x / self.factor


@dataclass
class Unhashable:
    factor: float

    def __call__(self, x: Any) -> Any:
        return x * self.factor

    @mx.compile
    def decorated(self, x: Any) -> Any:
        return x + self.factor


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @mx.compile
    def decorated(self, x: Any) -> Any:
        return x * self.factor


def test_as_a_call_a_decorator_and_through_partial() -> None:
    @mx.compile
    def decorated(x: Any, y: Any) -> Any:
        return mx.exp(-x) + y

    @functools.partial(mx.compile, shapeless=True)
    def partly(x: Any, y: Any) -> Any:
        return mx.exp(-x) + y

    for compiled in (mx.compile(exp_plus), decorated, partly):
        for _ in range(3):
            check(compiled(X, Y), EXPECTED)
        assert compiled.cache_info().misses == 1


def test_it_keeps_name_and_documentation() -> None:
    def named(x: Any) -> Any:
        """What it does."""
        return x

    compiled = mx.compile(named)
    assert compiled.__name__ == "named"
    assert compiled.__doc__ == "What it does."
    assert compiled.__wrapped__ is named
    assert repr(compiled).startswith("<compiled test_it_keeps_name")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (Callable(3.0), 6.0),
        (Callable(3.0).method, 5.0),
        (Callable.of_class, 10.0),
        (Callable.static, 12.0),
        (Unhashable(4.0), 8.0),
        (functools.partial(lambda a, x: a * x, 7.0), 14.0),
        (functools.partial(exp_plus, y=mx.array(1.0)), np.exp(-2.0) + 1),
        (mx.negative, -2.0),
        (mx.grad(mx.square), 4.0),
        (mx.compile(mx.square), 4.0),
        (lambda x: x + 1, 3.0),
        (mx.array, 2.0),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_callable(function: Any, expected: float) -> None:
    compiled = mx.compile(function)
    for _ in range(3):
        check(compiled(mx.array(2.0)), expected)
    assert compiled.cache_info().misses <= 1
    assert "compiled" in repr(compiled)


def scaled(scale: float, x: Any, shift: float = 0.0) -> Any:
    return x * scale + shift


@pytest.mark.parametrize("bound", [(2.0,), ()], ids=["constants", "nothing"])
def test_a_partial_that_changes_later(bound: tuple[Any, ...]) -> None:
    function = functools.partial(scaled, *bound)
    rest = () if bound else (2.0,)
    compiled = mx.compile(function)
    for _ in range(3):
        check(compiled(*rest, mx.array(3.0)), 6.0)
    function.keywords["shift"] = 1.0
    for _ in range(3):
        check(compiled(*rest, mx.array(3.0)), 7.0)
    function.keywords["shift"] = mx.array(5.0)
    for _ in range(3):
        check(compiled(*rest, mx.array(3.0)), 11.0)
    function.keywords.clear()
    check(compiled(*rest, mx.array(3.0)), 6.0)
    function.__setstate__((lambda *args: -scaled(*args), bound, {}, None))
    for _ in range(3):
        check(compiled(*rest, mx.array(3.0)), -6.0)
    if bound:
        function.__setstate__((scaled, (4.0,), {}, None))
        for _ in range(3):
            check(compiled(mx.array(3.0)), 12.0)


def test_what_is_not_callable_is_refused() -> None:
    with pytest.raises(TypeError) as caught:
        mx.compile(3)
    assert str(caught.value) == (
        "[compile] fun must be callable, got int: 3. Pass the function itself, not its result."
    )


def test_captured_state_must_be_a_tree() -> None:
    with pytest.raises(TypeError) as caught:
        mx.compile(exp_plus, inputs="state")
    assert str(caught.value) == (
        "[compile] inputs must be a list, dict or tuple of arrays or an array, got str: 'state'."
    )


def test_methods_of_several_objects() -> None:
    first, second = Callable(1.0), Callable(10.0)
    for _ in range(3):
        check(first.decorated(X), [0.0, 1.0])
        check(second.decorated(X), [-9.0, -8.0])
    assert first.decorated.cache_info().misses == 1  # objects of one structure share it
    assert second.decorated.cache_info().hits == 5
    check(Callable(2.0).shapeless(X), [0.5, 1.0])
    kept = mx.compile(first.method)
    check(mx.compile(first.method)(X), [2.0, 3.0])
    assert kept.cache_info().misses == 1
    check(mx.compile(second.method)(X), [11.0, 12.0])
    assert mx.compile(first.method).cache_info().hits == 1


def double(x: Any) -> Any:
    return x * 2


def test_functions_that_are_kept_in_a_class_are_no_methods() -> None:
    class Layer:
        activation = mx.compile(double)
        other = mx.compile(lambda x: x * 3)
        transformed = mx.compile(mx.grad(double))

    layer = Layer()
    check(layer.activation(X), [2.0, 4.0])  # as in MLX
    check(layer.other(X), [3.0, 6.0])
    check(layer.transformed(mx.array(1.0)), 2.0)
    Layer.later = mx.compile(double)
    check(layer.later(X), [2.0, 4.0])


@mx.compile
def triple(x: Any) -> Any:
    return x * 3


def test_copies_and_pickles_are_the_function_itself() -> None:
    layer = {"function": triple, "weight": mx.array(1.0)}
    assert copy.deepcopy(layer)["function"] is triple
    assert copy.copy(triple) is triple
    assert pickle.loads(pickle.dumps(triple)) is triple
    with pytest.raises(pickle.PicklingError):
        pickle.dumps(mx.compile(double))


def test_methods_of_objects_that_cannot_be_hashed_or_weakly_referenced() -> None:
    one, two = Unhashable(1.0), Unhashable(1.0)
    two.factor = 2.0
    check(one.decorated(X), [2.0, 3.0])
    check(two.decorated(X), [3.0, 4.0])
    slotted = Slotted(3.0)
    check(slotted.decorated(X), [3.0, 6.0])
    check(slotted.decorated(X), [3.0, 6.0])
    check(Slotted(4.0).decorated(X), [4.0, 8.0])
    assert Slotted.decorated.cache_info().misses == 2
