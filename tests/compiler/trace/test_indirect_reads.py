"""Attributes that are reached in other ways than by their names: copies, items of modules, classes,
containers and objects that are gone. And variables: what containers of all kinds hold, and the code
and defaults of functions.
"""

from __future__ import annotations

import copy
import pickle
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import check

import ingot.core as mx
import ingot.nn as nn

X = mx.array([1.0, 2.0])
POINTS = mx.array([-0.5, 0.5])


class Number:
    def __init__(self, value: float) -> None:
        self.value = value


@dataclass
class Setting:
    value: float = 2.0


class Redirected:
    """Names mean what the class likes."""

    def __init__(self) -> None:
        self._shown = 2.0

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, {"value": "_shown"}.get(name, name))


class RedirectedSlot:
    __slots__ = ("_shown",)

    def __init__(self) -> None:
        self._shown = 2.0

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, {"value": "_shown"}.get(name, name))


class Model(nn.Module):
    shared = mx.array([1.0, 1.0])
    many = (mx.array(2.0), [mx.array(3.0)])

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.sizes = [1, 2]
        self.options = {"rate": 3}
        self.inner = nn.Sequential(nn.ReLU())
        self.stages = [Number(2.0)]
        self.pair = (Number(3.0), 1)
        self.setting = Setting()
        self.redirected = Redirected()
        self.slot = RedirectedSlot()
        self.other: Any = Number(1.0)
        object.__setattr__(self, "__odd__", 5.0)


def _replace_at_the_same_address(model: Model) -> None:
    address = id(model.stages[0])
    model.stages.clear()
    others = []
    while True:
        made = Number(7.0)
        if id(made) == address or len(others) == 10000:
            break
        others.append(made)
    model.stages.append(made)


READS: dict[str, tuple[Any, Any]] = {
    "a copy": (lambda m: copy.copy(m).scale, lambda m: setattr(m, "scale", 7.0)),
    "a deep copy": (lambda m: copy.deepcopy(m).scale, lambda m: setattr(m, "scale", 7.0)),
    "a copy of an object": (
        lambda m: copy.copy(m.setting).value,
        lambda m: setattr(m.setting, "value", 7.0),
    ),
    "a pickle": (
        lambda m: pickle.loads(pickle.dumps(m.setting)).value,
        lambda m: setattr(m.setting, "value", 7.0),
    ),
    "vars, then an object": (
        lambda m: vars(m)["setting"].value,
        lambda m: setattr(m.setting, "value", 7.0),
    ),
    "a name with underscores": (
        lambda m: m.__odd__,
        lambda m: object.__setattr__(m, "__odd__", 7.0),
    ),
    "a list": (lambda m: len(m.sizes), lambda m: m.sizes.append(7)),
    "a dict": (lambda m: m.options["rate"], lambda m: m.options.update(rate=7)),
    "a layer": (lambda m: m.inner(POINTS), lambda m: setattr(m, "inner", nn.Tanh())),
    "a layer of a list": (
        lambda m: m.inner.layers[0](POINTS),
        lambda m: m.inner.layers.__setitem__(0, nn.Tanh()),
    ),
    "an object of a list": (
        lambda m: m.stages[0].value,
        lambda m: setattr(m.stages[0], "value", 7.0),
    ),
    "an object at the same address": (lambda m: m.stages[0].value, _replace_at_the_same_address),
    "an object of a tuple": (
        lambda m: m.pair[0].value,
        lambda m: setattr(m, "pair", (Number(7.0), 1)),
    ),
    "an object that is gone": (
        lambda m: 1 if m.other is None else m.other.value * 3,
        lambda m: setattr(m, "other", None),
    ),
    "a missing name": (
        lambda m: 1 if getattr(m, "extra", None) is None else len(m.extra),
        lambda m: setattr(m, "extra", [1, 2, 3]),
    ),
    "a class's own lookup": (
        lambda m: m.redirected.value,
        lambda m: setattr(m.redirected, "_shown", 7.0),
    ),
    "a class's own lookup of slots": (
        lambda m: m.slot.value,
        lambda m: setattr(m.slot, "_shown", 7.0),
    ),
    "an array of the class": (
        lambda m: m.shared,
        lambda m: setattr(type(m), "shared", mx.array([7.0, 8.0])),
    ),
    "an array of the class, in place": (
        lambda m: m.shared,
        lambda m: type(m).shared.__setitem__(0, 9.0),
    ),
    "arrays in containers of the class": (
        lambda m: m.many[0] * m.many[1][0],
        lambda m: type(m).many[1].__setitem__(0, mx.array(7.0)),
    ),
}


@pytest.mark.parametrize("way", ["closed over", "argument", "method"])
@pytest.mark.parametrize("name", READS)
def test_what_is_read_indirectly_is_seen(name: str, way: str) -> None:
    read, change = READS[name]

    class Own(Model):  # changes of the class stay here
        shared = mx.array([1.0, 1.0])
        many = (mx.array(2.0), [mx.array(3.0)])

        def method(self, x: Any) -> Any:
            return x * read(self)

    model = Own()
    of_argument = mx.compile(lambda m, x: x * read(m))
    of_method = mx.compile(Own.method)
    compiled = {
        "closed over": mx.compile(lambda x: x * read(model)),
        "argument": lambda x: of_argument(model, x),
        "method": lambda x: of_method(model, x),
    }[way]
    for _ in range(3):
        check(compiled(X), X * read(model))
    before = np.array(X * read(model))
    change(model)
    assert not np.array_equal(before, np.array(X * read(model)))
    for _ in range(3):
        check(compiled(X), X * read(model))


HOLDING: dict[str, Any] = {
    "a set of objects": {Number(1.0)},
    "a frozen set of objects": frozenset([Number(1.0)]),
    "a set of arrays": {mx.array(1.0)},
    "a dict with objects as keys": {Number(1.0): 1},
    "a tuple of an object as key": {(1, Number(1.0)): 1},
    "a NumPy array of objects": np.array([Number(1.0)], object),
    "one in a list": [{Number(1.0)}],
}


@pytest.mark.parametrize("closed_over", [False, True])
@pytest.mark.parametrize("name", HOLDING)
def test_objects_that_cannot_be_watched_are_refused_where_they_are_read(
    name: str, closed_over: bool
) -> None:
    model = Model()
    model.held = HOLDING[name]
    compiled = mx.compile(lambda m, x: x * m.scale)
    check(compiled(model, X), [2.0, 4.0])  # what nobody reads does not matter
    reading = mx.compile(lambda m, x: x * len((model if closed_over else m).held))
    with pytest.raises(ValueError, match=r"the function reads .*held.*would go unnoticed"):
        reading(None if closed_over else model, X)


def test_frozen_sets_of_objects_are_refused_by_name() -> None:
    compiled = mx.compile(lambda x, which: x * len(which))
    check(compiled(X, frozenset([1, ("a", 2)])), [2.0, 4.0])
    with pytest.raises(ValueError, match="argument `which`, which holds a Number"):
        compiled(X, frozenset([Number(1.0)]))


class Settings(dict[str, Any]):
    """Items are attributes, as in the configurations of many programs."""

    __getattr__ = dict.__getitem__


class Steps(list[float]):
    """A list with methods of its own."""


TABLE = {"a": 2.0}
CONTAINERS: dict[str, tuple[Callable[[], Any], Any, Any]] = {
    "get": (lambda: Settings(a=2.0), lambda c: c.get("a"), lambda c: c.update(a=7.0)),
    "values": (lambda: Settings(a=2.0), lambda c: sum(c.values()), lambda c: c.update(b=7.0)),
    "a nested get": (
        lambda: Settings(a=Settings(b=2.0)),
        lambda c: c.get("a").get("b"),
        lambda c: c.a.update(b=7.0),
    ),
    "get beside a foreign value": (
        lambda: Settings(a=2.0, source=iter([])),
        lambda c: c.get("a"),
        lambda c: c.update(a=7.0),
    ),
    "a counter": (lambda: Counter(a=2), lambda c: c["a"], lambda c: c.update(a=5)),
    "a subclass of list": (lambda: Steps([2.0]), lambda c: c[0], lambda c: c.insert(0, 7.0)),
    "a deque": (lambda: deque([2.0]), lambda c: c[-1], lambda c: c.append(7.0)),
    "a deque in a list": (lambda: [deque([2.0])], lambda c: c[0][-1], lambda c: c[0].append(7.0)),
    "objects in a deque": (
        lambda: deque([Number(2.0)]),
        lambda c: c[0].value,
        lambda c: setattr(c[0], "value", 7.0),
    ),
    "bytes that change": (lambda: bytearray(b"ab"), lambda c: c[0], lambda c: c.reverse()),
    "a proxy": (lambda: MappingProxyType(TABLE), lambda c: c["a"], lambda c: TABLE.update(a=7.0)),
    "NumPy's numbers": (
        lambda: np.array([2.0, 3.0]),
        lambda c: float(c.sum()),
        lambda c: c.__setitem__(0, 7.0),
    ),
}


@pytest.mark.parametrize("way", CONTAINERS)
@pytest.mark.parametrize("where", ["variable", "attribute"])
def test_what_containers_hold(way: str, where: str) -> None:
    made, read, change = CONTAINERS[way]
    TABLE["a"] = 2.0
    container = made()
    holder = Number(container)  # type: ignore[arg-type]
    function = {
        "variable": lambda x: x * read(container),
        "attribute": lambda x: x * read(holder.value),
    }[where]
    compiled = mx.compile(function)
    check(compiled(X), function(X))
    check(compiled(X), function(X))
    assert compiled.cache_info().misses == 1
    before = function(X).tolist()
    change(container)
    assert function(X).tolist() != before
    check(compiled(X), function(X))


def test_containers_that_the_function_changes() -> None:
    """What only a trace does is not a reason for another one."""
    waiting: deque[Any] = deque([2.0])
    steps = Steps([2.0])

    def function(x: Any) -> Any:
        waiting.append(iter([]))
        steps.append(waiting[0])
        return x * waiting[0] * steps[0]

    compiled = mx.compile(function)
    for _ in range(3):
        assert compiled(X).tolist() == [4.0, 8.0]
    assert compiled.cache_info().misses == 1


def test_a_container_that_holds_itself() -> None:
    waiting: deque[Any] = deque([2.0])
    waiting.append(waiting)
    settings = Settings(a=2.0)
    settings["own"] = settings
    compiled = mx.compile(lambda x: x * waiting[0] * settings.get("a"))
    assert compiled(X).tolist() == [4.0, 8.0]
    settings["a"] = 3.0
    assert compiled(X).tolist() == [6.0, 12.0]


def test_functions_that_are_defined_again() -> None:
    """Notebooks that reload modules replace the code and the defaults of functions."""

    def scaled(x: Any, k: float = 2.0, *, m: float = 1.0) -> Any:
        return x * k * m

    def negated(x: Any, k: float = 2.0, *, m: float = 1.0) -> Any:
        return -x * k * m

    direct, called = mx.compile(scaled), mx.compile(lambda x: scaled(x) + 1)

    def check_both(factor: float) -> None:
        assert direct(X).tolist() == (X * factor).tolist()
        assert called(X).tolist() == (X * factor + 1).tolist()

    check_both(2.0)
    scaled.__defaults__ = (3.0,)
    check_both(3.0)
    scaled.__kwdefaults__ = {"m": 5.0}
    check_both(15.0)
    scaled.__code__ = negated.__code__
    check_both(-15.0)
    reasons = direct.cache_info().reasons
    assert reasons[-1].reason == "`the code of scaled` → other code"
    assert direct.cache_info().misses == 4
