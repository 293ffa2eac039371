"""Compiled functions: what can be compiled, what calls take and give, modes, transforms."""

from __future__ import annotations

import copy
import functools
import os
import pickle
import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.program import Compiled
from ingot.compiler.verify import VerificationError


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    mx.enable_compile()
    yield
    mx.enable_compile()


def exp_plus(x: Any, y: Any) -> Any:
    return mx.exp(-x) + y


X = mx.array([1.0, 2.0])
Y = mx.array([3.0, 4.0])
EXPECTED = np.exp(-np.array(X)) + np.array(Y)


def check(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


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
    assert first.decorated.cache_info().misses == 1
    assert first.decorated.cache_info().hits == 2
    check(Callable(2.0).shapeless(X), [0.5, 1.0])
    check(mx.compile(first.method)(X), [2.0, 3.0])
    assert mx.compile(first.method).cache_info().misses == 1
    mx.compile(first.method)(X)
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
    with pytest.raises(ValueError, match="uncaptured inputs"):
        mlx.compile(lambda first: first * other)(other)
    assert mx.compile(lambda first: first * mx.ones(()))(mx.ones(())).item() == 1.0


# Transforms and nesting


def test_transforms_of_compiled_functions() -> None:
    compiled = mx.compile(lambda x: (x * mx.sin(x)).sum())
    plain = lambda x: (x * mx.sin(x)).sum()  # noqa: E731
    check(mx.grad(compiled)(X), mx.grad(plain)(X))
    check(mx.value_and_grad(compiled)(X)[1], mx.grad(plain)(X))
    check(mx.vmap(compiled)(mx.stack([X, Y])), mx.vmap(plain)(mx.stack([X, Y])))
    check(mx.vjp(compiled, [X], [mx.array(2.0)])[1][0], mx.grad(plain)(X) * 2)
    check(mx.jvp(compiled, [X], [Y])[1][0], (mx.grad(plain)(X) * Y).sum())
    check(
        mx.grad(lambda x: mx.grad(compiled)(x).sum())(X),
        mx.grad(lambda x: mx.grad(plain)(x).sum())(X),
    )
    assert compiled.cache_info().misses == 0


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: mx.grad(f),
        lambda f: mx.value_and_grad(f),
        lambda f: mx.vmap(f),
        lambda f: lambda x: mx.jvp(f, [x], [x]),
        lambda f: lambda x: mx.vjp(f, [x], [mx.array(1.0)]),
        lambda f: mx.grad(lambda x: mx.grad(f)(x).sum()),
        lambda f: mx.vmap(mx.grad(lambda x: f(x) * 1)),
        lambda f: mx.checkpoint(f),
        lambda f: mx.grad(mx.checkpoint(f)),
    ],
)
def test_transforms_can_be_compiled_again(transformed: Any) -> None:
    function = lambda x: (x * mx.sin(x)).sum()  # noqa: E731
    expected = transformed(function)(X)
    compiled = mx.compile(transformed(mx.compile(function)))
    for _ in range(3):
        found = compiled(X)
        leaves = zip(_leaves(found), _leaves(expected), strict=True)
        for one, other in leaves:
            check(one, other)
    assert compiled.cache_info().misses == 1


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [tree]


def test_the_outermost_compiled_function_sees_the_whole_graph() -> None:
    inner = mx.compile(lambda x: mx.exp(-mx.abs(x)))
    outer = mx.compile(lambda x: inner(inner(x)) + inner(x))
    check(outer(X), inner(inner(X)) + inner(X))
    explanation = outer.explain(X)
    assert "Compiled" not in explanation.stages.traced.text()
    assert len(explanation.kernels) == 1
    assert [type(step.op).__name__ for step in explanation.stages.simplified.steps].count(
        "Exp"
    ) == 2


def test_a_compiled_function_that_closes_over_what_a_transform_follows() -> None:
    def function(x: Any) -> Any:
        compiled = mx.compile(lambda y: (x * y).sum())
        return compiled(Y)

    check(mx.grad(function)(X), Y)
    check(mx.vmap(lambda x: mx.compile(lambda y: x * y)(Y))(X), np.outer(np.array(X), np.array(Y)))

    constant = mx.compile(lambda y: (x0 * y).sum())
    x0 = X
    check(mx.grad(lambda x: constant(Y) * x.sum())(X), [11.0, 11.0])


def test_functions_with_rules_of_their_own_are_fused_away() -> None:
    @mx.custom_function
    def halved(x: Any) -> Any:
        return x * 0.5

    @halved.vjp
    def _(primals: Any, cotangents: Any, outputs: Any) -> Any:
        return cotangents * 100.0

    compiled = mx.compile(lambda x: mx.exp(halved(x)) + 1)
    check(compiled(X), np.exp(np.array(X) * 0.5) + 1)
    explanation = compiled.explain(X)
    assert "CustomFunction" not in str(explanation)
    assert len(explanation.kernels) == 1
    check(mx.compile(mx.grad(lambda x: halved(x).sum()))(X), [100.0, 100.0])


@pytest.mark.parametrize("rule", ["vjp", "jvp", "vmap"])
def test_the_compiled_op_refuses_transforms(rule: str) -> None:
    op = Compiled(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\[") as caught:
        getattr(op, rule)()
    assert str(caught.value) == (
        f"[Compiled] has no {rule} rule: a compiled function called under another transform is "
        "traced through instead; transform the function first and compile the result."
    )


def test_results_are_lazy_and_can_be_used_by_eager_code() -> None:
    compiled = mx.compile(lambda x: (x + 1, x * 2))
    first, second = compiled(X)
    assert not first._node.evaluated
    check(first + second + compiled(first)[0], np.array([1 + 1 + 2, 2 + 1 + 4]) + [3, 4])


# Modes


def test_disabling_and_enabling() -> None:
    calls = []

    @mx.compile
    def function(x: Any) -> Any:
        calls.append(type(x).__name__)
        return x + 1

    mx.disable_compile()
    for _ in range(3):
        function(X)
    assert len(calls) == 3
    mx.enable_compile()
    for _ in range(3):
        function(X)
    assert len(calls) == 4
    mx.disable_compile()
    function(X)
    assert len(calls) == 5


@pytest.mark.parametrize("mode", ["no_fuse", "no_simplify", "enabled"])
def test_modes(mode: str) -> None:
    def function(x: Any) -> Any:
        return (x * 2 + mx.stop_gradient(x) * 2, mx.softmax(x, axis=-1))

    x = mx.array(np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32))
    mx.set_compile_mode(mode)
    compiled = mx.compile(function)
    for one, other in zip(compiled(x), function(x), strict=True):
        check(one, other)
    explanation = compiled.explain(x).to_dict()
    kinds = {group["kind"] for group in explanation["groups"]}
    assert ("fused" in kinds) == (mode != "no_fuse")
    assert bool(explanation["merged"]) == (mode != "no_simplify")
    mx.set_compile_mode(mx.CompileMode.enabled)
    compiled(x)
    assert compiled.cache_info().misses == (1 if mode == "enabled" else 2)


def test_unknown_modes() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.set_compile_mode("fast")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "[set_compile_mode] there is no mode 'fast'; the modes are disabled, no_simplify, no_fuse, "
        "enabled."
    )


@pytest.mark.parametrize("variable", ["MLX_DISABLE_COMPILE", "INGOT_DISABLE_COMPILE"])
def test_environment_variables(variable: str) -> None:
    program = (
        "import ingot.core as mx\n"
        "f = mx.compile(lambda x: print('run') or x + 1)\n"
        "f(mx.array(1.0)); f(mx.array(1.0))\n"
        "mx.enable_compile()\n"
        "f(mx.array(1.0)); f(mx.array(1.0))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, variable: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["run"] * 3


# Verification


def test_verified_calls() -> None:
    state = [mx.array(0.0)]

    @functools.partial(mx.compile, inputs=state, outputs=state, verify=True)
    def function(x: Any) -> Any:
        state[0] = state[0] + x.sum()
        return mx.exp(x), {"half": x.astype(mx.float16), "count": (x > 1).sum(), "text": "a"}

    for _ in range(3):
        function(X)
    assert state[0].item() == 9.0


def test_verification_notices_side_effects() -> None:
    counter = [0]

    def function(x: Any) -> Any:
        counter[0] += 1
        return x * counter[0]

    with pytest.raises(VerificationError) as caught:
        mx.compile(function, verify=True)(X)
    assert str(caught.value) == (
        "[compile] result 0 of test_verification_notices_side_effects.<locals>.function differs: "
        "2 of 2 elements are off, by up to 2."
    )
