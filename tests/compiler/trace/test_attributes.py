"""Plain attributes of modules and objects: the key holds those that the trace read."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.compiler.compiled_calls import check

import ingot.core as mx
import ingot.nn as nn
from ingot.runtime import watched

X = mx.array([1.0, 2.0])


@dataclass
class Settings:
    scale: float = 2.0
    unused: Any = None


class Loose:
    """An ordinary object, with an ordinary object inside."""

    def __init__(self) -> None:
        self.bias = 1.0
        self.deep = Settings(5.0)


def double(x: Any) -> Any:
    return x * 2


class Model(nn.Module):
    level = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.weight = mx.array(2.0)
        self.dropout = nn.Dropout(0.5)
        self.gain = 1.0
        self.flag = False
        self.mode = "sum"
        self.function = double
        self.settings = Settings()
        self.loose = Loose()
        self.mean = np.array([1.0, 2.0])
        self.names = {"a", "b"}

    def forward(self, x: Any) -> Any:
        y = self.function(x * self.weight * self.gain * self.level * self.settings.scale)
        if self.flag:
            y = y + self.loose.bias + self.loose.deep.scale
        if not hasattr(self, "absent"):
            y = y + 100
        return (y.sum() if self.mode == "sum" else y.mean()) + mx.array(self.mean) + len(self.names)


CHANGES: dict[str, Any] = {
    "a number": lambda m: setattr(m, "gain", 3.0),
    "back": lambda m: setattr(m, "gain", 1.0),
    "a flag": lambda m: setattr(m, "flag", True),
    "an attribute of an object": lambda m: setattr(m.loose, "bias", 7.0),
    "an attribute two objects away": lambda m: setattr(m.loose.deep, "scale", 1.5),
    "a string": lambda m: setattr(m, "mode", "mean"),
    "a function": lambda m: setattr(m, "function", mx.square),
    "a dataclass's attribute": lambda m: setattr(m.settings, "scale", 0.5),
    "another dataclass": lambda m: setattr(m, "settings", Settings(0.25)),
    "another object": lambda m: setattr(m, "loose", Loose()),
    "what was missing": lambda m: setattr(m, "absent", 1),
    "gone again": lambda m: delattr(m, "absent"),
    "in front of the class": lambda m: setattr(m, "level", 4.0),
    "NumPy's numbers": lambda m: m.mean.__setitem__(0, 50.0),
    "a set": lambda m: m.names.add("c"),
    "a method on the object": lambda m: object.__setattr__(m, "helper", 1),
}


def ways(model: Any) -> dict[str, Any]:
    as_argument = mx.compile(lambda m, x: m.forward(x))
    listed = mx.compile(lambda tree, x: tree["model"][0].forward(x))
    return {
        "closed over": mx.compile(lambda x: model.forward(x)),
        "argument": lambda x: as_argument(model, x),
        "in a tree": lambda x: listed({"model": [model]}, x),
        "inputs": mx.compile(lambda x: model.forward(x), inputs=[model]),
        "state": mx.compile(
            lambda x: model.forward(x), inputs=[model.state], outputs=[model.state]
        ),
        "bound": mx.compile(model.forward),
        "shapeless": mx.compile(lambda x: model.forward(x), shapeless=True),
    }


@pytest.mark.parametrize("way", ways(Model()))
def test_changes_of_plain_attributes_are_noticed(way: str) -> None:
    model = Model()
    compiled = ways(model)[way]
    for name, change in {"nothing": lambda m: None, **CHANGES}.items():
        change(model)
        for _ in range(2):
            np.testing.assert_allclose(
                np.array(compiled(X)), np.array(model.forward(X)), rtol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("way", ways(Model()))
def test_only_what_is_read_matters_and_values_that_come_back_hit(way: str) -> None:
    model = Model()
    compiled = ways(model)[way]
    compiled(X)
    traces = []
    model.function = lambda x: (traces.append(1), x * 2)[1]  # type: ignore[func-returns-value]
    compiled(X)
    assert len(traces) == 1
    model.settings.unused = 5
    model.loose.bias = 9.0  # the flag is not set
    model.train(False)  # nothing reads it
    compiled(X)
    assert len(traces) == 1
    model.gain = 4.0
    compiled(X)
    assert len(traces) == 2
    for gain in (1.0, 4.0, 1.0, 4.0):
        model.gain = gain
        for _ in range(2):
            compiled(X)
    assert len(traces) == 2


def test_eval_of_a_model_that_is_only_closed_over() -> None:
    model = Model()
    compiled = mx.compile(lambda x: model.dropout(x) * model.weight)
    x = mx.ones((200,))
    assert 0.0 in compiled(x).tolist()
    model.eval()
    check(compiled(x), mx.full((200,), 2.0))
    model.train()
    assert 0.0 in compiled(x).tolist()
    info = compiled.cache_info()
    assert info.misses == 2
    assert info.reasons[-1].reason == "`Model.dropout._training` True → False"


def test_the_remedy_for_opaque_objects() -> None:
    """A model that is closed over already cannot be told to be closed over."""
    model = Model()
    model.waiting = deque([3.0])
    with pytest.raises(ValueError, match=r"reads `Model\.waiting`, which is a deque.* variable"):
        mx.compile(lambda x: x * model.waiting[0])(X)
    waiting = model.waiting
    check(mx.compile(lambda x: x * waiting[0])(X), X * 3.0)


class Nested(nn.Module):
    """Everything that a module keeps as items: containers with plain values, layers, lists."""

    def __init__(self) -> None:
        super().__init__()
        self.table = {"w": mx.ones(2), "k": 2}
        self.pair = (1, 2)
        self.settings = {"a": [1, {"b": 2}]}
        self.layers = [nn.Linear(2, 2), nn.ReLU()]
        self.last = nn.Linear(2, 2)

    def __call__(self, x: mx.array) -> mx.array:
        for layer in self.layers:
            x = layer(x)
        scale = self.table["k"] * self.pair[1]
        return self.last(x) * scale * self.table["w"] + self.settings["a"][1]["b"]


def test_items_of_a_model_that_is_only_closed_over() -> None:
    model = Nested()
    compiled = mx.compile(lambda x: model(x))

    def check_once_more() -> None:
        np.testing.assert_allclose(np.array(compiled(X)), np.array(model(X)), rtol=1e-6)

    def change(number: int) -> None:
        if number == 0:
            model.table["k"] = 5
        elif number == 1:
            model.pair = (1, 7)
        elif number == 2:
            model.settings["a"][1]["b"] = 9
        elif number == 3:
            model.layers.append(nn.Linear(2, 2))
        elif number == 4:
            model.layers[0] = nn.Linear(2, 2)
        else:
            model.last = nn.Linear(2, 2)

    check_once_more()
    for number in range(6):
        change(number)
        check_once_more()
        misses = compiled.cache_info().misses
        check_once_more()
        assert compiled.cache_info().misses == misses == number + 2
    reasons = [miss.reason for miss in compiled.cache_info().reasons]
    assert reasons[1] == "`Nested.table` {'k': 2, 'w': float32(2)} → {'k': 5, 'w': float32(2)}"
    assert reasons[5] == ("`Nested.layers` [Linear, ReLU, Linear] → [Linear, ReLU, Linear]")


def test_reasons_name_the_attribute() -> None:
    model = Model()
    compiled = mx.compile(lambda model, x: model.forward(x))
    compiled(model, X)
    model.gain = 2.0
    compiled(model, X)
    model.settings.scale = 3.0
    compiled(model, X)
    model.absent = None
    compiled(model, X)
    reasons = [miss.reason for miss in compiled.cache_info().reasons]
    assert reasons[1:] == [
        "`model.gain` 1.0 → 2.0",
        "`model.settings.scale` 2.0 → 3.0",
        "`model.absent` nothing → None",
    ]


def test_class_attributes_and_methods() -> None:
    class Layer(nn.Module):
        factor = 2.0
        table: ClassVar = {"k": 3.0}

        def step(self, x: Any) -> Any:
            return x * self.factor * self.table["k"] + self.shift()

        def shift(self) -> float:
            return 1.0

    layer = Layer()
    compiled = mx.compile(lambda x: layer.step(x))
    for change in (
        lambda: None,
        lambda: setattr(Layer, "factor", 4.0),
        lambda: Layer.table.update(k=5.0),
        lambda: setattr(Layer, "shift", lambda self: 2.0),
        lambda: object.__setattr__(layer, "shift", lambda: 3.0),
    ):
        change()
        check(compiled(X), layer.step(X))


def test_whole_dicts_of_attributes() -> None:
    class Bag:
        def __init__(self) -> None:
            self.a, self.b = 1.0, 2.0

        @mx.compile
        def total(self, x: Any) -> Any:
            return x * sum(vars(self).values())

    bag = Bag()
    check(bag.total(X), [3.0, 6.0])
    bag.b = 3.0
    check(bag.total(X), [4.0, 8.0])
    bag.c = 1.0  # type: ignore[attr-defined]
    check(bag.total(X), [5.0, 10.0])


def test_modules_that_the_function_makes_are_no_reason_to_compile_again() -> None:
    @mx.compile
    def function(x: Any) -> Any:
        layer = nn.Linear(2, 2)
        layer.weight, layer.bias = mx.ones((2, 2)), mx.zeros((2,))
        return layer(x) * Settings(3.0).scale

    for _ in range(3):
        check(function(X), [9.0, 9.0])
    assert function.cache_info().misses == 1


def test_guards_do_not_keep_models() -> None:
    model = Model()
    holder = [model]
    compiled = mx.compile(lambda x: holder[0].dropout(x) * holder[0].gain)
    compiled(X)
    reference = weakref.ref(model)
    holder[0] = Model()
    del model
    gc.collect()
    assert reference() is None
    holder[0].eval()
    check(compiled(X), [1.0, 2.0])


def test_classes_are_watched_only_while_something_is_traced() -> None:
    seen = []

    class Own(Settings):
        def __setattr__(self, name: str, value: Any) -> None:
            seen.append(name)
            super().__setattr__(name, value)

    own = Own.__dict__["__setattr__"]
    during = []

    @mx.compile
    def function(item: Any, x: Any) -> Any:
        during.append("__getattribute__" in nn.Module.__dict__)
        item.scale = item.scale * 2
        return x * item.scale

    item = Own()
    check(function(item, X), [4.0, 8.0])
    assert during == [True]
    assert seen.count("scale") == 2  # when it was made and in the trace
    assert Own.__dict__["__setattr__"] is own
    assert "__getattribute__" not in Own.__dict__
    assert "__getattribute__" not in nn.Module.__dict__
    assert not watched._counts
    with pytest.raises(ZeroDivisionError):
        mx.compile(lambda item: 1 / 0)(item)
    assert not watched._counts


def test_other_threads_are_not_recorded() -> None:
    model = Model()
    go, done = threading.Event(), threading.Event()

    def elsewhere() -> None:
        go.wait()
        assert model.loose.bias == 1.0
        done.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()

    @mx.compile
    def function(x: Any) -> Any:
        go.set()
        done.wait()
        return x * model.gain

    function(X)
    thread.join()
    model.loose.bias = 8.0
    function(X)
    assert function.cache_info().misses == 1


def test_transforms_around_and_inside() -> None:
    model = Model()
    compiled = mx.compile(lambda x: model.forward(x).sum())
    for gain in (1.0, 3.0, 1.0):
        model.gain = gain
        expected = mx.grad(lambda x: model.forward(x).sum())(X)
        check(mx.grad(compiled)(X), expected)
        check(mx.compile(mx.grad(compiled))(X), expected)
        check(mx.compile(lambda x: compiled(x) * 2)(X), model.forward(X).sum() * 2)
        batch = mx.stack([X, X + 1])
        check(mx.vmap(compiled)(batch), mx.vmap(lambda x: model.forward(x).sum())(batch))
