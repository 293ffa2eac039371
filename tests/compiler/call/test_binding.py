"""Compiled methods: the object is an input like any other, and what they change in it stays."""

from __future__ import annotations

import copy
import functools
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import check
from tests.compiler.object_states import check_calls, state_of
from tests.support.processes import run_in_threads

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

X = mx.array([1.0, 2.0])


class Layer(nn.Module):
    def __init__(self, weight: Any = (1.0, 3.0)) -> None:
        super().__init__()
        self.weight = mx.array(weight)
        self.scale = 2.0
        self.parts = [nn.Linear(2, 2), nn.Dropout(0.5)]

    def __call__(self, x: Any) -> Any:
        return self.parts[0](x * self.weight) * self.scale

    def train_mode(self, x: Any) -> Any:
        return x * self.weight if self.training else x

    def parameters_too(self, x: Any) -> Any:
        return {"sum": x + self.weight, "names": list(self.trainable_parameters())}


class Plain:
    """An ordinary class."""

    def __init__(self, weight: Any = (1.0, 3.0)) -> None:
        self.weight = mx.array(weight)
        self.scale = 2.0
        self.calls = 0
        self.history: list[Any] = []
        self.other: Any = None

    def forward(self, x: Any) -> Any:
        return x * self.weight * self.scale

    def count(self, x: Any) -> Any:
        self.calls += 1
        return x + self.calls

    def remember(self, x: Any) -> Any:
        self.last = x * 2
        self.history.append(self.last + self.weight)
        return len(self.history)

    def in_place(self, x: Any) -> Any:
        self.weight += x
        self.weight[0] = 7.0
        return self.weight * 2

    def replace(self, x: Any) -> Any:
        self.other = {"new": [x * 3, self.weight], "tuple": (x, 1)}
        self.scale = "replaced"
        return x

    def delete(self, x: Any) -> Any:
        if hasattr(self, "other"):
            del self.other
        return x * 2

    def reset(self, x: Any) -> Any:
        self.scale = 2.0  # what it is at first
        return x

    def make_objects(self, x: Any) -> Any:
        self.other = Plain()
        self.other.weight = x * self.weight
        self.other.back = self
        return self.other.weight * 1

    def itself(self, x: Any) -> Any:
        self.weight = self.weight + x
        return self, [self.history, x]

    def through_partial(self, x: Any) -> Any:
        return functools.partial(self.forward, x)()


def set_attributes(**values: Any) -> Any:
    def change(item: Any) -> None:
        for name, value in values.items():
            setattr(item, name, copy.deepcopy(value))

    return change


METHODS = [
    Plain.forward,
    Plain.count,
    Plain.remember,
    Plain.in_place,
    Plain.replace,
    Plain.delete,
    Plain.reset,
    Plain.make_objects,
    Plain.itself,
    Plain.through_partial,
]


def ways(method: Any) -> dict[str, Any]:
    """All ways to call a compiled method with an object."""
    name = method.__name__
    bound: dict[int, Any] = {}

    def of_bound(item: Any, *args: Any) -> Any:
        if id(item) not in bound:
            bound[id(item)] = mx.compile(getattr(item, name))
        return bound[id(item)](*args)

    compiled = mx.compile(method)
    compiled.cache_clear()  # misses in a row are counted over all tests of a method
    return {
        "function": compiled,
        "bound": of_bound,
        "as decorated": lambda item, *args: compiled.__get__(item, type(item))(*args),
        "partial": lambda item, *args: mx.compile(functools.partial(method, item))(*args),
        "keyword": lambda item, x: compiled(item, x=x),
        "shapeless": mx.compile(method, shapeless=True),
        "verify": mx.compile(method, verify=True),
    }


@pytest.mark.parametrize("way", ways(Plain.forward))
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__name__)
def test_methods_do_what_uncompiled_ones_do(method: Any, way: str) -> None:
    needs_number = method in (Plain.forward, Plain.through_partial)
    changes = [
        None,
        None,
        set_attributes(scale=3.0),
        set_attributes(scale=2.0, weight=mx.array([5.0, 6.0])),
        set_attributes(calls=10, history=[]),
        None if needs_number else set_attributes(scale="text"),
        None,
    ]
    item = Plain()
    steps = [(change, item, X + number) for number, change in enumerate(changes)]
    check_calls(ways(method)[way], method, steps)


class Decorated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(2, 3), nn.Dropout(0.5)]
        self.weight = mx.array([1.0, 2.0, 3.0])
        self.gain = 2.0

    @mx.compile
    def __call__(self, x: Any) -> Any:
        return self.layers[1](self.layers[0](x)) * self.weight * self.gain

    def uncompiled(self, x: Any) -> Any:
        return self.layers[1](self.layers[0](x)) * self.weight * self.gain


def test_value_and_grad_of_a_compiled_module() -> None:
    model = Decorated().eval()
    for _ in range(3):
        found = nn.value_and_grad(model, lambda x: model(x).sum())(X)
        expected = nn.value_and_grad(model, lambda x: model.uncompiled(x).sum())(X)
        assert state_of(found) == state_of(expected)
        assert np.abs(np.array(found[1]["weight"])).sum() > 0
        model(X)


def test_what_is_done_to_a_module_between_calls() -> None:
    model = Decorated()
    changes = [
        lambda m: m.eval(),
        set_attributes(weight=mx.array([0.0, 1.0, 2.0])),
        set_attributes(gain=5.0),
        lambda m: m.layers.__setitem__(0, nn.Linear(2, 3, bias=False)),
        lambda m: m.update({"weight": mx.array([9.0, 9.0, 9.0])}),
        lambda m: m.freeze(),
        lambda m: m.set_dtype(mx.float16),
        lambda m: m.unfreeze(),
        set_attributes(gain=2.0),
    ]
    for change in changes:
        change(model)
        mx.random.seed(3)
        found = model(X)
        mx.random.seed(3)
        expected = model.uncompiled(X)
        assert found.dtype == expected.dtype
        check(found.astype(mx.float32), expected.astype(mx.float32))


def test_training_mode_is_followed_and_both_entries_stay() -> None:
    model = Decorated()
    model.train()
    outputs = [float(mx.abs(model(mx.ones((50, 2))) == 0).sum()) for _ in range(2)]
    assert all(count > 0 for count in outputs)
    model.eval()
    check(model(X), model.uncompiled(X))
    before = Decorated.__call__.cache_info()
    for mode in (True, False, True, False):
        model.train(mode)
        model(X)
    after = Decorated.__call__.cache_info()
    assert after.misses - before.misses <= 1  # training with this shape
    reasons = [miss.reason for miss in after.reasons]
    assert any("`self.layers[1]._training` " in reason for reason in reasons)


def test_objects_of_one_structure_share_a_compilation() -> None:
    @mx.compile
    def forward(self: Any, x: Any) -> Any:
        return x * self.weight * self.scale

    for k in range(4):
        item = Layer((k, 2 * k))
        check(forward(item, X), [2.0 * k, 8.0 * k])
    assert forward.cache_info().misses == 1
    item.scale = 3.0
    check(forward(item, X), [9.0, 36.0])
    assert forward.cache_info().misses == 2


class Base:
    def __init__(self) -> None:
        self.weight = mx.array(2.0)

    @mx.compile
    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.weight

    def inner(self, x: Any) -> Any:
        return x

    @staticmethod
    @mx.compile
    def static(x: Any) -> Any:
        return x * 3

    @mx.compile
    @staticmethod
    def static_inside(x: Any) -> Any:
        return x * 4

    @classmethod
    @mx.compile
    def of_class(cls, x: Any) -> Any:
        return x * cls.factor()

    @classmethod
    def factor(cls) -> int:
        return 5

    @property
    @mx.compile
    def doubled(self) -> Any:
        return self.weight * 2


class Derived(Base):
    def inner(self, x: Any) -> Any:
        return x + 10

    @classmethod
    def factor(cls) -> int:
        return 6


class Overriding(Base):
    @mx.compile
    def forward(self, x: Any) -> Any:
        return super().forward(x) + 1


def test_inheritance_and_other_decorators() -> None:
    x = mx.array(1.0)
    for _ in range(2):
        check(Base().forward(x), 2.0)
        check(Derived().forward(x), 22.0)
        check(Overriding().forward(x), 3.0)
        for base in (Base, Base()):
            check(base.static(x), 3.0)
            check(base.static_inside(x), 4.0)
            check(base.of_class(x), 5.0)
        check(Derived.of_class(x), 6.0)
    item = Base()
    check(item.doubled, 4.0)
    item.weight = mx.array(5.0)
    check(item.doubled, 10.0)
    with pytest.raises(TypeError, match=r"write @classmethod above @mx\.compile"):
        mx.compile(classmethod(lambda cls: None))


def test_methods_that_are_assigned_later() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = mx.array(2.0)

        def __call__(self, x: Any) -> Any:
            return x * self.w

    Model.__call__ = mx.compile(Model.__call__)
    model = Model()
    check(model(X), [2.0, 4.0])
    model.w = mx.array(3.0)
    check(model(X), [3.0, 6.0])


@pytest.mark.parametrize("make", [lambda m: mx.compile(m), lambda m: mx.compile(m.__call__)])
def test_compiled_models_and_bound_methods(make: Any) -> None:
    model = Layer()
    compiled = make(model)
    for _ in range(2):
        check(compiled(X), model(X))
    model.weight = mx.array([3.0, 4.0])
    model.scale = 7.0
    check(compiled(X), model(X))
    found = nn.value_and_grad(model, lambda x: compiled(x).sum())(X)
    expected = nn.value_and_grad(model, lambda x: model(x).sum())(X)
    assert state_of(found) == state_of(expected)
    other = Layer((0.0, 1.0))
    check(make(other)(X), other(X))
    assert "`self.scale` 2.0 → 7.0" in [miss.reason for miss in compiled.cache_info().reasons]


class Trainer:
    """As people write it: the gradient closes over the model that the object has as well."""

    def __init__(self) -> None:
        self.model = nn.Linear(2, 1)
        self.model.weight = mx.array([[0.5, -0.5]])
        self.model.bias = mx.array([0.0])
        self.optimizer = optim.Adam(learning_rate=0.1)
        self.gradient = nn.value_and_grad(self.model, self.loss)
        self.losses: list[Any] = []

    def loss(self, x: Any, y: Any) -> Any:
        return ((self.model(x) - y) ** 2).mean()

    def step(self, x: Any, y: Any) -> Any:
        loss, gradients = self.gradient(x, y)
        self.optimizer.update(self.model, gradients)
        return loss

    @mx.compile
    def compiled_step(self, x: Any, y: Any) -> Any:
        return self.step(x, y)


def test_training_steps_as_methods() -> None:
    x = mx.array(np.random.default_rng(0).normal(size=(8, 2)).astype(np.float32))
    y = x @ mx.array([[2.0], [3.0]])
    one, two, three = Trainer(), Trainer(), Trainer()
    compiled = mx.compile(three.step)
    for _ in range(5):
        expected = one.step(x, y)
        check(two.compiled_step(x, y), expected)
        check(compiled(x, y), expected)
        assert state_of(two.model) == state_of(one.model) == state_of(three.model)
        assert state_of(two.optimizer.state) == state_of(one.optimizer.state)
    assert Trainer.compiled_step.cache_info().misses == 2  # the first step makes the state
    two.optimizer.learning_rate = one.optimizer.learning_rate = 0.5
    check(two.compiled_step(x, y), one.step(x, y))


def test_models_and_optimizers_as_arguments() -> None:
    def step(model: Any, optimizer: Any, x: Any) -> Any:
        loss, gradients = nn.value_and_grad(model, lambda x: (model(x) ** 2).sum())(x)
        optimizer.update(model, gradients)
        return loss

    mine, theirs = Layer(), None
    theirs = copy.deepcopy(mine)
    one, two = optim.SGD(0.01, momentum=0.9), optim.SGD(0.01, momentum=0.9)
    compiled = mx.compile(step)
    for _ in range(4):
        check(compiled(mine, one, X), step(theirs, two, X))
        assert state_of(mine) == state_of(theirs)
        assert state_of(one.state) == state_of(two.state)
    assert compiled.cache_info().misses == 2


@dataclass
class Cell:
    weight: Any
    calls: int = 0
    seen: list[Any] = field(default_factory=list)

    @mx.compile
    def step(self, x: Any) -> Any:
        self.seen.append(x)
        self.weight = self.weight * x
        return self.weight.sum()


def test_vmap_grad_and_nesting_of_methods() -> None:
    item = Plain()
    compiled = mx.compile(Plain.forward)
    batch = mx.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    for _ in range(2):
        check(mx.vmap(lambda x: compiled(item, x))(batch), mx.vmap(item.forward)(batch))
        check(mx.grad(lambda x: compiled(item, x).sum())(X), item.weight * item.scale)
        check(mx.compile(lambda x: compiled(item, x) + 1)(X), item.forward(X) + 1)
        compiled(item, X)
    outer = mx.compile(lambda held, x: compiled(held["item"], x) * 2)
    with pytest.raises(ValueError, match=r"argument `held`\['item'\], which is a Plain,"):
        outer({"item": item}, X)
    outer = mx.compile(lambda model, x: Decorated.__call__(model, x) * 2)
    model = Decorated().eval()
    check(outer(model, X), model.uncompiled(X) * 2)
    model.weight = mx.array([1.0, 0.0, 0.0])
    check(outer(model, X), model.uncompiled(X) * 2)


def test_dataclasses_with_methods() -> None:
    mine, theirs = Cell(mx.array([1.0, 2.0])), Cell(mx.array([1.0, 2.0]))
    uncompiled = Cell.step.__wrapped__
    for _ in range(3):
        check(mine.step(X), uncompiled(theirs, X))
        assert state_of(mine) == state_of(theirs)


def test_methods_explain_themselves() -> None:
    model = Decorated().eval()
    model(X)
    assert "self.weight" in str(model.__call__.explain(X))
    assert "compiled method Decorated.__call__" in repr(model.__call__)
    assert model.__call__ == model.__call__
    assert model.__call__.__name__ == "__call__"


def test_threads_share_a_model() -> None:
    model = Layer()
    compiled = mx.compile(lambda model, x: model(x))
    expected = np.array(model(X))
    start = threading.Barrier(4)

    def run(_number: int) -> None:
        start.wait()
        for _ in range(20):
            np.testing.assert_allclose(np.array(compiled(model, X)), expected, rtol=1e-5)

    run_in_threads(4, run)
    assert compiled.cache_info().misses == 1


def test_threads_update_one_object() -> None:
    item = Plain((0.0, 0.0))
    compiled = mx.compile(Plain.remember)

    def run() -> None:
        for _ in range(5):
            compiled(item, X)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [value.tolist() for value in item.history] == [[2.0, 4.0]] * 15
