"""One array or container in several places: arguments, objects, captured state, results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mlx.core as reference
import numpy as np
import pytest
from tests.compiler.compiled_calls import check

import ingot.core as mx


def _in_place(x: Any) -> Any:
    x += 1
    return x


def _in_place_twice(x: Any) -> Any:
    x += 1
    return [x, {"again": x}]


def _by_index(x: Any) -> Any:
    x[0] = x[1] * 5
    return x, x + 1


def _unchanged(x: Any) -> Any:
    return x, (x,)


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return _leaves(list(tree.values()))
    return (
        [x for item in tree for x in _leaves(item)] if isinstance(tree, (list, tuple)) else [tree]
    )


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("function", [_in_place, _in_place_twice, _by_index, _unchanged])
def test_arguments_that_are_changed_in_place_and_returned_are_as_in_mlx(
    function: Any, shapeless: bool
) -> None:
    compiled = mx.compile(function, shapeless=shapeless)
    for values in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
        x, theirs = mx.array(values), reference.array(values)
        found, expected = compiled(x), reference.compile(function)(theirs)
        for mine, other in zip(_leaves(found), _leaves(expected), strict=True):
            check(mine, np.array(other))
        check(x, np.array(theirs))


class Weights:
    def __init__(self) -> None:
        self.weight = mx.array([2.0, 3.0])

    def get(self) -> Any:
        return self.weight

    def add(self, x: Any) -> Any:
        self.weight += x
        return self.weight, [x]

    def replace(self, x: Any) -> Any:
        self.weight = self.weight * x
        return {"weight": self.weight}


@pytest.mark.parametrize(("name", "count"), [("get", 0), ("add", 1), ("replace", 1)])
def test_methods_return_arrays_of_their_object(name: str, count: int) -> None:
    compiled = mx.compile(getattr(Weights, name))
    mine, theirs = Weights(), Weights()
    for factor in (2.0, 3.0, 4.0):
        arguments = [mx.array([factor, 1.0])][:count]
        found = compiled(mine, *arguments)
        expected = getattr(theirs, name)(*arguments)
        for one, other in zip(_leaves(found), _leaves(expected), strict=True):
            check(one, other)
        check(mine.weight, theirs.weight)


def test_captured_arrays_are_returned() -> None:
    state = [mx.array([1.0])]

    def step() -> Any:
        state[0] += 1
        return state[0]

    check(mx.compile(lambda: state[0], inputs=state)(), [1.0])
    compiled = mx.compile(step, inputs=state, outputs=state)
    assert [compiled().item() for _ in range(3)] == [2.0, 3.0, 4.0]


@dataclass
class Holder:
    items: list[Any]
    total: Any

    def add_to(self, items: list[Any], x: Any, single: Any = None) -> Any:
        items.append(x * len(self.items))
        self.total = self.total + sum(items) + (0 if single is None else single)
        return self.total * len(self.items)


def _add_first(items: list[Any], holder: Holder, x: Any, single: Any = None) -> Any:
    return holder.add_to(items, x, single)


def _add_nested(tree: dict[str, Any], holder: Holder, x: Any, single: Any = None) -> Any:
    return holder.add_to(tree["items"][0], x, single)


def _shared_calls(function: Any, kind: str) -> list[Any]:
    """What calls give with lists that are in the object too, and with others by turns."""
    x, first, second = (mx.array([value, 1.0]) for value in (1.0, 2.0, 3.0))
    holder = Holder([first, first], mx.array([0.0, 0.0]))
    found = []
    for number in range(6):
        if number == 3:
            holder.items[1:] = [second, *holder.items[2:]]  # no longer the same twice
        items = holder.items if number % 2 == 0 else [first, second]
        single = [None, first, holder.items[-1]][number % 3]
        given = {"items": (items,)} if kind == "nested" else items
        order = (holder, given) if kind == "method" else (given, holder)
        found += [function(*order, x, single), holder.total, *holder.items, *items]
    return [value.tolist() for value in found]


@pytest.mark.parametrize("kind", ["method", "first", "nested"])
def test_a_list_that_is_an_argument_and_in_an_object_is_one_list(kind: str) -> None:
    function = {"method": Holder.add_to, "first": _add_first, "nested": _add_nested}[kind]
    assert _shared_calls(mx.compile(function), kind) == _shared_calls(function, kind)
