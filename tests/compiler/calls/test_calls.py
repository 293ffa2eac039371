"""Calls of compiled functions: what they take and give, and what may happen inside."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.compiler.compiled_calls import X, Y, check

import ingot.core as mx


def test_nested_containers_and_constants_as_arguments_and_results() -> None:
    Point = namedtuple("Point", "x y")

    def function(tree: Any, *, scale: float, mode: str, nothing: None, point: Any) -> Any:
        total = tree["a"][0] * scale + tree["b"]["c"] - point.x
        if mode == "twice":
            total = total * 2
        return {
            "total": total,
            "rest": [point.y, (None, "text", 3, total)],
            "point": Point(total, 1),
            "ordered": OrderedDict(z=total, a=2.5),
            "default": defaultdict(list, q=total),
            "nothing": nothing,
        }

    arguments: dict[str, Any] = {
        "tree": {"a": (X, 5), "b": {"c": Y}},
        "scale": 2.5,
        "mode": "twice",
        "nothing": None,
        "point": Point(mx.array(1.0), Y),
    }
    compiled = mx.compile(function)
    for _ in range(2):
        expected = function(**arguments)
        found = compiled(**arguments)
        assert list(found) == list(expected)
        check(found["total"], expected["total"])
        check(found["rest"][0], Y)
        assert found["rest"][1][:3] == (None, "text", 3)
        assert type(found["point"]) is Point
        assert found["point"].y == 1
        assert type(found["ordered"]) is OrderedDict
        assert list(found["ordered"]) == ["z", "a"]
        assert found["default"].default_factory is list
        assert found["nothing"] is None
    check(compiled(**{**arguments, "mode": "once"})["total"], np.array(found["total"]) / 2)
    info = compiled.cache_info()
    assert (info.misses, info.hits) == (2, 1)


def test_results_are_fresh_containers() -> None:
    compiled = mx.compile(lambda x: {"list": [x], "constant": [1]})
    first = compiled(X)
    first["list"].append(0)
    first["constant"].append(0)
    second = compiled(X)
    assert len(second["list"]) == 1
    assert second["constant"] == [1]


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, 2), (1, True), (1, 1.0), (0.0, -0.0), ("a", "b"), (None, 0), ((1, 2), [1, 2]), (0j, -0j)],
)
def test_constants_are_part_of_the_signature(first: Any, second: Any) -> None:
    seen = []

    def function(x: Any, constant: Any) -> Any:
        seen.append(constant)
        return x

    compiled = mx.compile(function)
    for _ in range(2):
        compiled(X, first)
        compiled(X, second)
    assert [repr(value) for value in seen] == [repr(first), repr(second)]


def test_nan_equals_itself_as_a_constant() -> None:
    compiled = mx.compile(lambda x, k: x * k)
    for _ in range(3):
        compiled(X, float("nan"))
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("zero", [np.float64(0.0), np.float32(0.0), np.float16(0.0)])
def test_signs_of_numpys_zeros_matter(zero: Any) -> None:
    compiled = mx.compile(lambda x, k: x / float(k) if k else x * float(np.copysign(1.0, k)))
    check(compiled(X, zero), [1.0, 2.0])
    check(compiled(X, -zero), [-1.0, -2.0])


def test_numpy_arrays_are_inputs() -> None:
    compiled = mx.compile(lambda tree, y: mx.exp(tree["x"]) + y)
    for factor in (1.0, 2.0, 3.0):
        x = np.array([0.5, 0.25]) * factor
        check(compiled({"x": x}, Y), np.exp(x) + np.array(Y))
    assert compiled.cache_info().misses == 1


def test_numpy_arrays_cannot_be_captured() -> None:
    state = [np.zeros(2)]
    with pytest.raises(ValueError, match=r"inputs= holds a NumPy array of shape \(2,\)"):
        mx.compile(lambda x: x + state[0], inputs=state)(X)


@pytest.mark.parametrize("argument", [{1, 2}, bytearray(b"x"), iter([1]), (i for i in range(2))])
def test_arguments_that_are_neither_trees_nor_constants(argument: Any) -> None:
    with pytest.raises(
        ValueError, match=r"\[compile\] arguments are trees of arrays and constants"
    ):
        mx.compile(lambda x, k: x)(X, argument)


def test_hashable_objects_are_constants() -> None:
    @dataclass(frozen=True)
    class Config:
        factor: int

    compiled = mx.compile(lambda x, config, dtype: (x * config.factor).astype(dtype))
    for factor in (1, 2, 1, 2):
        result = compiled(X, Config(factor), mx.float16)
        assert result.dtype == mx.float16
        check(result, np.array(X) * factor)
    assert compiled.cache_info().misses == 2


def test_default_arguments_and_the_order_of_keywords() -> None:
    def function(x: Any, scale: float = 2.0, shift: float = 1.0) -> Any:
        return x * scale + shift

    compiled = mx.compile(function)
    check(compiled(X), [3.0, 5.0])
    check(compiled(X, scale=3.0, shift=0.0), [3.0, 6.0])
    check(compiled(X, shift=0.0, scale=3.0), [3.0, 6.0])
    check(compiled(shift=0.0, scale=3.0, x=X), [3.0, 6.0])
    check(compiled(scale=3.0, x=X, shift=0.0), [3.0, 6.0])
    assert compiled.cache_info().misses == 3


def test_the_order_of_keywords_shows_where_a_function_can_see_it() -> None:
    compiled = mx.compile(lambda **arrays: mx.concatenate(list(arrays.values())))
    for _ in range(2):
        check(compiled(a=X, b=Y), [1.0, 2.0, 3.0, 4.0])
        check(compiled(b=Y, a=X), [3.0, 4.0, 1.0, 2.0])


def test_any_number_of_arguments() -> None:
    compiled = mx.compile(lambda *arrays, **others: sum(arrays) + sum(others.values()))
    check(compiled(X), X)
    check(compiled(X, X, X), np.array(X) * 3)
    check(compiled(X, X, a=Y, b=Y), 2 * np.array(X) + 2 * np.array(Y))
    assert compiled.cache_info().misses == 3
    assert mx.compile(lambda: mx.ones(2))().tolist() == [1.0, 1.0]


def test_functions_without_arrays() -> None:
    assert mx.compile(lambda x: (3, None, "a"))(X) == (3, None, "a")
    assert mx.compile(lambda x: None)(X) is None
    assert mx.compile(lambda k: k + 1)(3) == 4
    assert mx.compile(lambda: [])() == []


def test_arrays_that_go_straight_through() -> None:
    x, same, twice = mx.compile(lambda x: (x, [x], x + 0))(X)
    check(x, X)
    check(same[0], X)
    check(twice, X)
    closed_over = mx.array([7.0])
    compiled = mx.compile(lambda x: closed_over)
    check(compiled(X), [7.0])
    check(compiled(X), [7.0])


def test_the_caller_sees_no_changes_of_arguments() -> None:
    def function(x: Any) -> Any:
        x += 1
        x[0] = 5.0
        return x * 2

    x = mx.array([1.0, 2.0])
    check(mx.compile(function)(x), [10.0, 6.0])
    check(x, [1.0, 2.0])


def test_in_place_updates_inside() -> None:
    def function(x: Any, index: Any) -> Any:
        y = x * 1
        y[index] = 3.0
        y[0] += 1
        y *= 2
        return y

    x = mx.array([1.0, 2.0, 3.0])
    for index in (mx.array([1]), mx.array([2])):
        check(mx.compile(function)(x, index), function(x, index))


def test_exceptions_leave_everything_as_it_was() -> None:
    state = [mx.array(1.0)]
    fails = True

    @functools.partial(mx.compile, inputs=state, outputs=state)
    def function(x: Any) -> Any:
        state[0] = state[0] + x
        state.append(x)
        if fails:
            raise KeyError("inside")
        return state[0]

    for _ in range(2):
        with pytest.raises(KeyError, match="inside"):
            function(mx.array(2.0))
        assert len(state) == 1
        assert state[0].item() == 1.0
        assert function.cache_info().misses == 0
    assert mx.exp(mx.array(0.0)).item() == 1.0
    fails = False
    assert function(mx.array(2.0)).item() == 3.0
    assert len(state) == 2


def test_recursion() -> None:
    @mx.compile
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    check(power(X, 5), np.array(X) ** 5)
    check(power(X, 5), np.array(X) ** 5)
    assert power.cache_info().misses == 1


def test_values_that_are_known_may_be_used_inside() -> None:
    @mx.compile
    def function(x: Any) -> Any:
        threshold = mx.array([1.0, 2.0]).sum()
        if threshold.item() > 2:
            return x * threshold
        return x

    check(function(X), np.array(X) * 3)


def test_uncaptured_inputs_are_refused_by_name() -> None:
    x = mx.array(1.0)

    def function(first: Any, second: Any) -> Any:
        return first * x

    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.compile(function)(Y, x)
    assert str(caught.value) == (
        "[compile] argument `second` is passed to the function and also used inside it under "
        "another name, so it would be an input and a constant at once. Use the parameter inside "
        "the function, or capture the array with inputs=."
    )
    other = mlx.array(1.0)
    mlx.enable_compile()  # `make test-arm` disables it before each test
    with pytest.raises(ValueError, match="uncaptured inputs"):
        mlx.compile(lambda first: first * other)(other)
    assert mx.compile(lambda first: first * mx.ones(()))(mx.ones(())).item() == 1.0


def test_a_hundred_results() -> None:
    compiled = mx.compile(lambda x: [x + number for number in range(100)])
    for _ in range(2):
        assert [y.item() for y in compiled(mx.array(1.0))] == [1.0 + n for n in range(100)]
    assert len(mx.split(mx.arange(200), 100)) == 100
