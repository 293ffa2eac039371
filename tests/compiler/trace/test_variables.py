"""Variables that functions read: closures, globals, classes, modules, objects that are closed over.

Whatever is not an array counts: a change between calls changes the result, as without `compile`.
"""

from __future__ import annotations

import argparse
import dis
import gc
import inspect
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
from ingot.compiler.trace.variables import _names_in
from ingot.tuning import MAX_GUARDED_ITEMS

X = mx.array([1.0, 2.0])

number = 2.0
settings = {"rate": 2.0, "deep": {"list": [1, 2]}}
module = types.ModuleType("settings_of_a_program")
module.__dict__.update(RATE=2.0, inner=types.ModuleType("inner"), __file__="settings.py")
module.inner.__dict__.update(RATE=3.0, __file__="inner.py")


class Plain:
    """An ordinary object."""

    rate = 2.0

    def __init__(self) -> None:
        self.value = 2.0
        self.values = [2.0, 3.0]
        self.inner: Any = None

    def method(self, x: Any) -> Any:
        return x * self.value * type(self).rate

    @property
    def doubled(self) -> float:
        return self.value * 2

    @classmethod
    def of_class(cls) -> float:
        return cls.rate


class Slotted:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 2.0


@dataclass
class Data:
    value: float = 2.0


class Model(nn.Module):
    rate = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.options = {"rate": 2.0}
        self.weight = mx.array([1.0, 1.0])

    def helper(self) -> float:
        return self.__class__.rate

    def __call__(self, x: mx.array) -> mx.array:
        return x * self.weight * type(self).rate * self.helper()


def helper(x: Any) -> Any:
    return x * 2


helper.factor = 2.0  # type: ignore[attr-defined]


def _assign(name: str, value: Any) -> Callable[[Any], None]:
    return lambda _: globals().__setitem__(name, value)


def _of(make: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], Any]:
    """A function that closes over what `make` gives."""

    def made() -> Any:
        held = make()
        return (lambda x: x * read(held)), held

    return made


def _plain_with_inner() -> Plain:
    plain = Plain()
    plain.inner = Plain()
    return plain


# A function to compile and what is to be changed, and the change.
CASES: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "a global": (lambda: ((lambda x: x * number), None), _assign("number", 3.0)),
    "a global dict": (
        lambda: ((lambda x: x * settings["rate"]), None),
        lambda _: settings.update(rate=3.0),
    ),
    "a container of a global": (
        lambda: ((lambda x: x * settings["deep"]["list"][1]), None),  # type: ignore[index]
        lambda _: settings["deep"]["list"].__setitem__(1, 7),  # type: ignore[index]
    ),
    "a global function": (
        lambda: ((lambda x: helper(x)), None),
        _assign("helper", lambda x: x * 9),
    ),
    "an attribute of a function": (
        lambda: ((lambda x: x * helper.factor), None),  # type: ignore[attr-defined]
        lambda _: setattr(helper, "factor", 3.0),
    ),
    "a module": (
        lambda: ((lambda x: x * module.RATE), None),
        lambda _: setattr(module, "RATE", 5.0),
    ),
    "a module of a module": (
        lambda: ((lambda x: x * module.inner.RATE), None),
        lambda _: setattr(module.inner, "RATE", 5.0),
    ),
    "an attribute": (_of(Plain, lambda p: p.value), lambda p: setattr(p, "value", 3.0)),
    "an attribute of an attribute": (
        _of(_plain_with_inner, lambda p: p.inner.value),
        lambda p: setattr(p.inner, "value", 3.0),
    ),
    "an object of an attribute": (
        _of(_plain_with_inner, lambda p: 1.0 if p.inner is None else p.inner.value),
        lambda p: setattr(p, "inner", None),
    ),
    "a list of an object": (
        _of(Plain, lambda p: p.values[1]),
        lambda p: p.values.__setitem__(1, 9.0),
    ),
    "a method of an object": (
        _of(Plain, lambda p: p.method(1.0)),
        lambda p: setattr(p, "value", 3.0),
    ),
    "a property": (_of(Plain, lambda p: p.doubled), lambda p: setattr(p, "value", 3.0)),
    "a bound method": (
        _of(lambda: Plain().method, lambda m: m(1.0)),
        lambda m: setattr(m.__self__, "value", 3.0),
    ),
    "an object in a list": (
        _of(lambda: [Plain()], lambda p: p[0].value),
        lambda p: setattr(p[0], "value", 3.0),
    ),
    "a slot": (_of(Slotted, lambda p: p.value), lambda p: setattr(p, "value", 3.0)),
    "a dataclass": (_of(Data, lambda p: p.value), lambda p: setattr(p, "value", 3.0)),
    "a namespace": (
        _of(lambda: types.SimpleNamespace(value=2.0), lambda p: p.value),
        lambda p: setattr(p, "value", 3.0),
    ),
    "a namespace of a namespace": (
        _of(
            lambda: types.SimpleNamespace(inner=types.SimpleNamespace(value=2.0)),
            lambda p: p.inner.value,
        ),
        lambda p: setattr(p.inner, "value", 3.0),
    ),
    "options of a command": (
        _of(lambda: argparse.Namespace(value=2.0), lambda p: p.value),
        lambda p: setattr(p, "value", 3.0),
    ),
    "a class by its object": (
        _of(lambda: type("Own", (Plain,), {})(), lambda p: type(p).rate),
        lambda p: setattr(type(p), "rate", 3.0),
    ),
    "a class by its name": (
        _of(lambda: type("Own", (Plain,), {}), lambda own: own.rate),
        lambda own: setattr(own, "rate", 3.0),
    ),
    "a class method": (
        _of(lambda: type("Own", (Plain,), {}), lambda own: own.of_class()),
        lambda own: setattr(own, "rate", 3.0),
    ),
    "items of a model": (
        _of(Model, lambda m: m["options"]["rate"]),
        lambda m: m["options"].update(rate=3.0),
    ),
}


def check_change(compiled: Any, function: Any, change: Callable[[], None]) -> None:
    """Compares before a change and after it."""
    for _ in range(3):
        np.testing.assert_array_equal(np.array(compiled(X)), np.array(function(X)))
    before = np.array(function(X))
    change()
    assert not np.array_equal(before, np.array(function(X)))
    for _ in range(3):
        np.testing.assert_array_equal(np.array(compiled(X)), np.array(function(X)))


@pytest.fixture(autouse=True)
def same_globals() -> Any:
    kept = {name: globals()[name] for name in ("number", "helper")}
    yield
    globals().update(kept)
    settings.update(rate=2.0, deep={"list": [1, 2]})
    vars(module)["RATE"], vars(module.inner)["RATE"] = 2.0, 3.0
    helper.factor = 2.0  # type: ignore[attr-defined]


WAYS: dict[str, Callable[[Any], Any]] = {
    "compiled": mx.compile,
    "shapeless": lambda f: mx.compile(f, shapeless=True),
    "in another function": lambda f: mx.compile(lambda x: f(x) + 0),
    "in a compiled function": lambda f: (lambda g: mx.compile(lambda x: g(x) + 0))(mx.compile(f)),
    "gradient": lambda f: mx.compile(lambda x: mx.vjp(f, [x], [mx.ones(2)])[0][0]),
    "gradient of compiled": lambda f: (lambda g: lambda x: mx.vjp(g, [x], [mx.ones(2)])[0][0])(
        mx.compile(f)
    ),
    "vmap": lambda f: mx.compile(mx.vmap(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CASES)
def test_what_changes_is_seen(name: str, way: str) -> None:
    make, change = CASES[name]
    function, held = make()
    check_change(WAYS[way](function), function, lambda: change(held))


def test_classes_of_compiled_methods() -> None:
    class Own(Model):
        @mx.compile
        def __call__(self, x: mx.array) -> mx.array:
            return super().__call__(x)

    model = Own()
    expected = lambda x: Model.__call__(model, x)  # noqa: E731
    check_change(model, expected, lambda: setattr(Own, "rate", 5.0))
    check_change(model, expected, lambda: setattr(Own, "helper", lambda self: 11.0))


def test_what_a_class_hides() -> None:
    class Base(nn.Module):
        rate = 2.0

        def factor(self) -> float:
            return 3.0

    class Own(Base):
        rate = 5.0

        def factor(self) -> float:
            return super().factor() * super().rate

        def __call__(self, x: mx.array) -> mx.array:
            return x * self.factor() * self.rate

    for compiled in (mx.compile(Own.__call__), mx.compile(lambda own, x: own(x))):
        own = Own()
        function = partial(Own.__call__, own)
        check_change(partial(compiled, own), function, lambda: setattr(Base, "rate", 7.0))
        check_change(
            partial(compiled, own), function, lambda: setattr(Base, "factor", lambda self: 11.0)
        )
        Base.rate = 2.0
        Base.factor = lambda self: 3.0  # type: ignore[method-assign]


def test_variables_of_outer_functions() -> None:
    def outer() -> tuple[Any, Any]:
        factor = 2.0

        def inner(x: mx.array) -> mx.array:
            return x * factor

        def change() -> None:
            nonlocal factor
            factor = 3.0

        return inner, change

    function, change = outer()
    check_change(mx.compile(function), function, change)


def test_reasons_and_hits() -> None:
    plain = Plain()
    compiled = mx.compile(lambda x: x * plain.value * number * Plain.rate)
    compiled(X)
    for value in (3.0, 2.0, 3.0):
        plain.value = value
        compiled(X)
    information = compiled.cache_info()
    assert information.misses == 2  # going back finds the program that was there
    assert information.reasons[-1].reason == "`plain.value` 2.0 → 3.0"
    globals()["number"] = 4.0
    compiled(X)
    assert compiled.cache_info().reasons[-1].reason == "`number` 2.0 → 4.0"


def test_what_the_function_does_itself_is_no_reason() -> None:
    """Counters of traces, lists that are appended to: as in MLX, they change when it is traced."""
    calls = 0
    seen: list[int] = []
    plain = Plain()

    @mx.compile
    def function(x: mx.array) -> mx.array:
        nonlocal calls
        calls += 1
        seen.append(calls)
        plain.value += 1
        plain.values.append(calls)
        return x * 2

    for _ in range(4):
        function(X)
    assert (calls, seen, plain.value, function.cache_info().misses) == (1, [1], 3.0, 1)
    assert plain.values == [2.0, 3.0, 1]


def test_names_of_attributes_are_no_variables() -> None:
    compiled = mx.compile(lambda x: mx.array(2.0) * x.number if hasattr(x, "number") else x * 2)
    for value in (2.0, 3.0):
        globals()["number"] = value
        assert compiled(X).tolist() == [2.0, 4.0]
    assert compiled.cache_info().misses == 1


def test_arrays_are_constants() -> None:
    plain, table = Plain(), {"w": mx.array(2.0)}
    plain.inner = mx.array(3.0)
    compiled = mx.compile(lambda x: x * plain.inner * table["w"])
    assert compiled(X).tolist() == [6.0, 12.0]
    plain.inner, table["w"] = mx.array(5.0), mx.array(7.0)
    assert compiled(X).tolist() == [6.0, 12.0]
    assert compiled.cache_info().misses == 1


def test_long_containers_are_constants() -> None:
    table = list(range(MAX_GUARDED_ITEMS + 1))
    compiled = mx.compile(lambda x: x * table[1])
    assert compiled(X).tolist() == [1.0, 2.0]
    table[1] = 5
    assert compiled(X).tolist() == [1.0, 2.0]
    del table[-1]
    again = mx.compile(lambda x: x * table[1])
    assert again(X).tolist() == [5.0, 10.0]
    table[1] = 6
    assert again(X).tolist() == [6.0, 12.0]


def test_opaque_objects_are_constants() -> None:
    """Closing over an object is the way out for what compile refuses as an argument."""
    plain = Plain()
    plain.inner = deque([3.0])
    plain.values = [np.random.default_rng(0), {plain}]  # type: ignore[list-item]
    compiled = mx.compile(lambda x: x * plain.inner[0] * len(plain.values) * len(vars(plain)))
    assert compiled(X).tolist() == [18.0, 36.0]
    assert compiled(X).tolist() == [18.0, 36.0]
    assert compiled.cache_info().misses == 1
    plain.inner = deque([4.0])
    assert compiled(X).tolist() == [24.0, 48.0]


def test_lists_of_many_layers() -> None:
    layers = [nn.Linear(2, 2) for _ in range(MAX_GUARDED_ITEMS)]
    compiled = mx.compile(lambda x: sum(layer(x).sum() for layer in layers[:2]))
    compiled(X)
    layers[1] = nn.Linear(2, 2)
    np.testing.assert_allclose(compiled(X).item(), (layers[0](X) + layers[1](X)).sum().item(), 1e-5)


def test_defaults_that_change() -> None:
    factors, more = [2.0], {"k": 1.0}

    def scaled(x: mx.array, f: list[float] = factors, *, m: dict[str, float] = more) -> Any:
        return x * f[0] * m["k"]

    compiled = mx.compile(scaled)
    assert compiled(X).tolist() == [2.0, 4.0]
    factors[0] = 3.0
    assert compiled(X).tolist() == [3.0, 6.0]
    more["k"] = 2.0
    assert compiled(X).tolist() == [6.0, 12.0]
    assert compiled.cache_info().reasons[-1].reason.startswith("`a default of scaled` ")
    scaled.__defaults__ = ([1.0],)
    assert compiled(X).tolist() == [2.0, 4.0]


def test_classes_that_forbid_changes() -> None:
    class Meta(type):
        def __setattr__(cls, name: str, value: Any) -> None:
            raise AttributeError("no")

        __delattr__ = __setattr__  # type: ignore[assignment]

    class Fixed(metaclass=Meta):
        value = 2.0

    fixed = Fixed()
    compiled = mx.compile(lambda x: x * fixed.value)
    assert compiled(X).tolist() == [2.0, 4.0]
    fixed.value = 3.0
    assert compiled(X).tolist() == [3.0, 6.0]
    assert "__getattribute__" not in vars(Fixed)


def test_nothing_is_kept() -> None:
    def make() -> tuple[Any, Any]:
        plain = Plain()

        def function(x: mx.array) -> mx.array:
            return x * plain.value * (1 if function is None else 2)

        plain.inner = mx.compile(function)
        plain.inner(X)
        return weakref.ref(plain), weakref.ref(function)

    references = make()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_closed_over_object_changes_in_another_thread() -> None:
    plain = Plain()
    compiled = mx.compile(lambda x: x * plain.value)
    wrong: list[Any] = []

    def run() -> None:
        for _ in range(200):
            found = compiled(X).tolist()
            if found not in ([2.0, 4.0], [3.0, 6.0]):
                wrong.append(found)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(200):
        plain.value = 5.0 - plain.value
        compiled(X)
    for thread in threads:
        thread.join()
    assert wrong == []
    assert compiled(X).tolist() == (X * plain.value).tolist()


def codes_in(code: types.CodeType) -> list[types.CodeType]:
    inner = [x for x in code.co_consts if isinstance(x, types.CodeType)]
    return [code, *(found for each in inner for found in codes_in(each))]


@pytest.mark.parametrize("module", [argparse, inspect, threading])
def test_names_in_bytecode(module: types.ModuleType) -> None:
    whole = compile(inspect.getsource(module), module.__name__, "exec")
    for code in codes_in(whole):
        instructions = [x for each in codes_in(code) for x in dis.get_instructions(each)]
        named = [x for x in instructions if x.opcode in dis.hasname]
        variables = {x.argval for x in named if x.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        attributes = {x.argval for x in named if x.opname not in ("LOAD_GLOBAL", "LOAD_NAME")}
        assert _names_in(code) == (frozenset(variables), frozenset(attributes))
