"""State that was not declared: traced arrays that are left somewhere, and old constants."""

from __future__ import annotations

import gc
import re
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mlx.core as mlx
import mlx.nn as mlx_nn
import mlx.optimizers as mlx_optimizers
import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
from ingot import _native, optimizers

X = mx.ones((4, 2))
HISTORY: list[Any] = []
total = mx.array(1.0)


def warning_of(call: Callable[[], Any]) -> warnings.WarningMessage:
    """The only warning of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert [w.category for w in caught] == [mx.UndeclaredStateWarning]
    return caught[0]


def places_in(message: str) -> list[str]:
    listed = re.search(r"declared it: in (.*?)\. (These have|Calls of)", message)
    assert listed is not None
    return re.split(r", | and (?=\d+ more)", listed[1])


def declared_in(message: str, names: dict[str, Any]) -> dict[str, Any]:
    """The `inputs=` and `outputs=` that a warning proposes, as what they are."""
    found = re.search(r"mx\.compile\(\w+, (inputs=\[.*\]), (outputs=\[.*\])\)", message)
    assert found is not None
    return eval(f"dict({found[1]}, {found[2]})", names)


def trainer(m: Any, nn_: Any, optimizers_: Any) -> tuple[Any, Any, Any]:
    model = nn_.Sequential(nn_.Linear(2, 3), nn_.ReLU(), nn_.Linear(3, 1))
    for number, layer in enumerate(model.layers[::2]):
        size = layer.weight.size
        layer.weight = m.linspace(-1, 1 + number, size).reshape(layer.weight.shape)
        layer.bias = m.zeros(layer.bias.shape)
    optimizer = optimizers_.Adam(learning_rate=0.1)

    def loss(model: Any, x: Any) -> Any:
        return m.square(model(x) - 1).sum()

    loss_and_gradient = nn_.value_and_grad(model, loss)

    def step(x: Any) -> Any:
        value, gradients = loss_and_gradient(model, x)
        optimizer.update(model, gradients)
        return value

    return model, optimizer, step


class TestTrainingSteps:
    def test_a_step_without_declared_state_warns_with_names_and_the_way_out(self) -> None:
        compiled = mx.compile(trainer(mx, nn, optimizers)[2])
        here = sys._getframe().f_lineno + 1
        found = warning_of(lambda: compiled(X))
        message = str(found.message)
        assert found.filename == __file__
        assert found.lineno == here
        places = places_in(message)
        assert "optimizer.state['step']" in places
        assert "model.layers[0].weight" in places
        assert places[-1] == "7 more"
        state = "[optimizer.state, model.state]"
        assert f"mx.compile(step, inputs={state}, outputs={state})" in message

    def test_it_warns_once_and_reading_raises(self) -> None:
        model, _, step = trainer(mx, nn, optimizers)
        compiled = mx.compile(step)
        warning_of(lambda: (compiled(X), compiled(X)))
        with pytest.raises(
            ValueError, match=r"in trainer.<locals>.step has no value: compile only"
        ):
            mx.eval(model.layers[0].weight)

    def test_following_the_advice_trains_as_mlx_does(self) -> None:
        model, optimizer, step = trainer(mx, nn, optimizers)
        message = str(warning_of(lambda: mx.compile(step)(X)).message)
        model, optimizer, step = trainer(mx, nn, optimizers)
        names = {"model": model, "optimizer": optimizer}
        compiled = mx.compile(step, **declared_in(message, names))
        mlx_model, _, mlx_step = trainer(mlx, mlx_nn, mlx_optimizers)
        for _ in range(4):
            found, expected = compiled(X), mlx_step(mlx.ones((4, 2)))
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5)
        np.testing.assert_allclose(
            np.array(model.layers[0].weight), np.array(mlx_model.layers[0].weight), rtol=1e-4
        )

    def test_declared_state_does_not_warn(self) -> None:
        model, optimizer, step = trainer(mx, nn, optimizers)
        state = [model.state, optimizer.state, mx.random.state]
        compiled = mx.compile(step, inputs=state, outputs=state)
        compiled(X)
        compiled(mx.ones((5, 2)))

    def test_half_of_the_state_declared_names_the_other_half(self) -> None:
        model, _, step = trainer(mx, nn, optimizers)
        compiled = mx.compile(step, inputs=model.state, outputs=model.state)
        message = str(warning_of(lambda: compiled(X)).message)
        assert all(place.startswith("optimizer.") for place in places_in(message)[:-1])
        assert "inputs=[optimizer.state]" in message

    def test_running_statistics_are_state(self) -> None:
        norm = nn.BatchNorm(2)
        compiled = mx.compile(lambda x: norm(x))
        message = str(warning_of(lambda: compiled(X)).message)
        assert set(places_in(message)) == {"norm.running_mean", "norm.running_var"}
        assert "inputs=[norm.state]" in message


@dataclass
class Tracker:
    last: Any = None
    seen: Any = None


class Slotted:
    __slots__ = ("value",)


class TestPlaces:
    """Each function stores something; the names of the places, and the containers to declare."""

    def check(
        self, function: Callable[..., Any], places: list[str], containers: str | None
    ) -> None:
        message = str(warning_of(lambda: mx.compile(function)(mx.array(2.0))).message)
        assert places_in(message) == places
        if containers is None:
            assert "Return them from the function" in message
        else:
            assert f"inputs=[{containers}], outputs=[{containers}]" in message

    def test_a_list_and_a_dict_of_the_closure(self) -> None:
        kept: list[Any] = []
        table: dict[str, Any] = {"a": {}}

        def function(x: mx.array) -> mx.array:
            kept.append(x * 2)
            table["a"][3] = x * 3
            return x

        self.check(function, ["kept[0]", "table['a'][3]"], "kept, table")

    def test_a_global_and_a_variable_of_an_outer_function(self) -> None:
        count = mx.array(0.0)

        def function(x: mx.array) -> mx.array:
            nonlocal count
            count = count + x
            HISTORY.append(x + 2)
            return x

        try:
            self.check(function, ["count", "HISTORY[0]"], "HISTORY")
        finally:
            HISTORY.clear()

    def test_only_a_variable(self) -> None:
        count = mx.array(0.0)

        def function(x: mx.array) -> mx.array:
            nonlocal count
            count = count + x
            return x

        self.check(function, ["count"], None)

    def test_attributes_of_objects(self) -> None:
        tracker, slotted = Tracker(), Slotted()

        def function(x: mx.array) -> mx.array:
            tracker.last = x * 2
            tracker.seen = {"x": [x * 3]}
            slotted.value = x * 4
            return x

        self.check(
            function, ["slotted.value", "tracker.last", "tracker.seen['x'][0]"], "vars(tracker)"
        )

    def test_through_other_functions_partials_and_methods(self) -> None:
        kept: list[Any] = []

        class Keeper:
            def keep(self, x: mx.array) -> None:
                kept.append(x)

        def helper(keep: Callable[[mx.array], None], x: mx.array) -> mx.array:
            keep(x * 2)
            return x

        keep = Keeper().keep
        self.check(partial(helper, keep), ["kept[0]"], "kept")
        kept.clear()
        self.check(lambda x: helper(keep, x), ["kept[0]"], "kept")

    def test_defaults(self) -> None:
        def function(x: mx.array, memory: list[Any] = []) -> mx.array:  # noqa: B006
            memory.append(x * 2)
            return x

        self.check(lambda x: function(x), ["memory[0]"], "memory")

    def test_a_counter_that_depends_on_no_argument(self) -> None:
        state = {"step": mx.array(0), "rate": mx.array(0.1)}

        def function(x: mx.array) -> mx.array:
            state["step"] = state["step"] + 1
            state["rate"] *= 0.5
            return x * state["rate"]

        self.check(function, ["state['step']", "state['rate']"], "state")
        assert state["step"].item() == 1

    def test_an_array_that_is_updated_in_place(self) -> None:
        running = {"mean": mx.array(0.0)}

        def function(x: mx.array) -> mx.array:
            running["mean"] += x
            return x

        self.check(function, ["running['mean']"], "running")

    def test_what_no_name_leads_to_is_called_by_its_type(self) -> None:
        found = [Tracker()]
        get = iter([found]).__next__  # a built-in method: its object's inside is out of reach

        def function(x: mx.array) -> mx.array:
            get()[0].last = (x * 2,)
            return x

        message = str(warning_of(lambda: mx.compile(function)(mx.array(2.0))).message)
        assert places_in(message) == [f"an object of type {__name__}.Tracker"]
        assert found[0].last is not None

    def test_what_is_returned_but_kept_elsewhere_too(self) -> None:
        kept = {"last": mx.array(0.0)}

        def function(x: mx.array) -> Any:
            kept["last"] = kept["last"] + x
            return x, kept["last"]

        self.check(function, ["kept['last']"], "kept")


class TestNoWarnings:
    """Warnings are errors in these tests, so each call says that there is none."""

    def test_an_object_that_is_returned(self) -> None:
        class Result:
            def __init__(self, x: mx.array) -> None:
                self.x = x

        compiled = mx.compile(lambda x: [Result(x * 2), x])
        for number in (1.0, 2.0):
            assert compiled(mx.array(number))[0].x.item() == 2 * number

    def test_a_list_that_is_returned_as_in_the_guide(self) -> None:
        def make(m: Any) -> Any:
            state: list[Any] = []

            @m.compile
            def fun(x: Any, y: Any) -> Any:
                z = x + y
                state.append(z)
                return m.exp(z), state

            return fun

        fun = make(mx)
        found, state = fun(mx.array(1.0), mx.array(2.0))
        expected, expected_state = make(mlx)(mlx.array(1.0), mlx.array(2.0))
        np.testing.assert_allclose(found.item(), expected.item(), rtol=1e-6)
        assert [x.item() for x in state] == [x.item() for x in expected_state]
        assert [x.item() for x in fun(mx.array(2.0), mx.array(3.0))[1]] == [5.0]

    def test_garbage_in_cycles(self) -> None:
        gc.disable()
        try:

            @mx.compile
            def function(x: mx.array) -> mx.array:
                ring: list[Any] = [x * 2]
                ring.append(ring)
                tracker = Tracker(last=x * 3)
                tracker.seen = tracker
                return x + 1

            assert function(mx.array(1.0)).item() == 2
        finally:
            gc.enable()

    def test_a_constant_that_is_made_once_and_kept(self) -> None:
        cache: dict[int, mx.array] = {}

        @mx.compile
        def function(x: mx.array) -> mx.array:
            length = x.shape[-1]
            if length not in cache:
                cache[length] = mx.tril(mx.ones((length, length)))
            return x @ cache[length]

        assert function(mx.ones((1, 3))).tolist() == [[3, 2, 1]]
        assert cache[3].sum().item() == 6

    def test_what_is_derived_from_captured_arrays_and_kept(self) -> None:
        weight = mx.array([1.0, 2.0])
        cache: dict[str, mx.array] = {}

        @mx.compile
        def function(x: mx.array) -> mx.array:
            if not cache:
                cache["inverse"] = mx.array([2.0, 4.0]) / weight * 3
                cache["two"] = mx.array(2.0)
            return x * cache["inverse"]

        assert function(mx.array(1.0)).tolist() == [6, 6]

    def test_transforms_custom_functions_and_nested_compilation(self) -> None:
        @mx.custom_function
        def cube(x: mx.array) -> mx.array:
            return x * x * x

        @cube.vjp
        def cube_vjp(x: Any, cotangent: Any, _: Any) -> Any:
            return cotangent * 3 * x * x

        inner = mx.compile(lambda x: mx.vmap(lambda row: (row * 2).sum())(x))

        @mx.compile
        def function(x: mx.array) -> Any:
            gradient = mx.grad(lambda y: mx.checkpoint(cube)(y).sum())(x)
            return inner(gradient), mx.value_and_grad(lambda t: t["a"].sum())({"a": x}), x

        function(mx.ones((2, 3)))
        function(mx.ones((3, 3)))
        mx.compile(lambda x: inner(x) + x.shape[0], shapeless=True)(mx.ones((2, 3)))

    def test_dropout_and_random_numbers(self) -> None:
        dropout = nn.Dropout(0.5)
        mx.compile(lambda x: dropout(x) * mx.random.uniform(shape=x.shape))(X)


class TestUnderTransforms:
    def leaky(self) -> tuple[list[Any], Callable[[mx.array], mx.array]]:
        kept: list[Any] = []

        def function(x: mx.array) -> mx.array:
            kept.append(x * 2)
            return (x * x).sum()

        return kept, function

    def test_under_grad_a_followed_call_stores_values(self) -> None:
        kept, function = self.leaky()
        assert mx.grad(mx.compile(function))(mx.array([3.0])).tolist() == [6]
        assert kept[0].tolist() == [6]

    def test_compiled_gradients_warn(self) -> None:
        _, function = self.leaky()
        compiled = mx.compile(mx.grad(function))
        assert "kept[0]" in str(warning_of(lambda: compiled(mx.array([3.0]))).message)

    def test_compiled_vmaps_warn(self) -> None:
        _, function = self.leaky()
        compiled = mx.compile(mx.vmap(function))
        assert "kept[0]" in str(warning_of(lambda: compiled(mx.ones((2, 3)))).message)

    def test_calls_inside_of_a_gradient_that_does_not_follow_them_warn(self) -> None:
        _, function = self.leaky()
        compiled = mx.compile(function)

        def loss(y: mx.array) -> mx.array:
            return (y * compiled(mx.array([3.0]))).sum()

        assert "kept[0]" in str(warning_of(lambda: mx.grad(loss)(mx.array([1.0]))).message)

    def test_nested_compiled_functions_warn_as_one(self) -> None:
        _, function = self.leaky()
        inner = mx.compile(function)
        outer = mx.compile(lambda x: inner(x) + 1)
        found = warning_of(lambda: outer(mx.array([3.0])))
        assert "outer" not in str(found.message)
        assert "kept[0]" in str(found.message)

    def test_other_threads_do_not_count(self) -> None:
        inside, go_on = threading.Event(), threading.Event()
        kept: list[Any] = []
        found: list[str] = []

        def slow(x: mx.array) -> mx.array:
            kept.append(x * 2)
            inside.set()
            go_on.wait(10)
            return x

        def work() -> None:
            found.append(str(warning_of(lambda: mx.compile(slow)(mx.array(1.0))).message))

        with warnings.catch_warnings():
            thread = threading.Thread(target=work)
            thread.start()
            inside.wait(10)
            # The arrays of the other trace are there, within this function's reach.
            assert mx.compile(lambda x: x * len(kept))(mx.array(3.0)).item() == 3
            go_on.set()
            thread.join()
        assert "kept[0]" in found[0]


def test_a_trace_that_leaves_nothing_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(*_: Any) -> Any:
        raise AssertionError("searched")

    monkeypatch.setattr("ingot.compiler.trace.escapes.reachable", search)
    model, optimizer, step = trainer(mx, nn, optimizers)
    state = [model.state, optimizer.state]
    mx.compile(step, inputs=state, outputs=state)(X)
    mx.compile(lambda x: {"y": mx.softmax(x @ x.T), "n": 3})(X)
    kept: list[Any] = []
    leaky = mx.compile(lambda x: kept.append(x * 2))
    with pytest.raises(AssertionError, match="searched"):
        leaky(X)


def test_arrays_of_a_trace_are_found_in_all_kinds_of_objects() -> None:
    def pairs(y: mx.array, other: mx.array) -> tuple[list[Any], list[Any]]:
        untracked, slotted = (((y,),),), Slotted()
        slotted.value = y
        objects = [[y, other, y], {"a": y}, slotted, untracked, [(1, (y,))], [other], "y"]
        for _ in range(3):  # one level at a time
            gc.collect()
        assert not gc.is_tracked(untracked)
        found = _native.holders(objects, y._node.trace)
        wanted = [(objects[i], y) for i in (0, 0, 1, 2, 3, 4)]
        return [tuple(map(id, pair)) for pair in found], [tuple(map(id, pair)) for pair in wanted]

    def function(x: mx.array) -> mx.array:
        found, wanted = pairs(x + 1, outside)
        assert found == wanted
        return x * 2

    outside = mx.array(1.0)
    assert mx.compile(function)(mx.array(3.0)).item() == 6


def test_tuples_of_any_depth_are_searched() -> None:
    nested: Any = ()
    for _ in range(100_000):
        nested = (nested,)
    gc.collect()
    assert _native.holders([[nested]], object()) == []
