"""Arrays within a function's reach, by the names of its author."""

from __future__ import annotations

from collections.abc import Iterator

import ingot.core as mx
import ingot.nn as nn
from ingot.compiler.trace.reach import MAX_NAMED, MAX_OBJECTS, listed, reachable

GLOBAL = {"table": mx.array([1.0, 2.0])}


def paths(function: object) -> dict[int, str]:
    return {id(found): place.path for place, found in reachable(function)}  # type: ignore[arg-type]


def test_closures_globals_and_defaults() -> None:
    inside = mx.array(3.0)
    default = mx.array(4.0)

    def function(x: mx.array, scale: mx.array = default) -> mx.array:
        return x * inside * scale + GLOBAL["table"]

    found = paths(function)
    assert found[id(inside)] == "inside"
    assert "scale" in found[id(default)]
    assert found[id(GLOBAL["table"])] == "GLOBAL['table']"


def test_modules_and_lists() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))

    def function(x: mx.array) -> mx.array:
        return model(x)

    found = paths(function)
    assert found[id(model.layers[1].weight)] == "model.layers[1].weight"


def test_the_shortest_name_is_found() -> None:
    x = mx.array(1.0)
    nested = [[[x]]]

    def function() -> object:
        return nested, x

    assert paths(function)[id(x)] == "x"


def test_cycles_end() -> None:
    cycle: list[object] = [mx.array(1.0)]
    cycle.append(cycle)

    def function() -> object:
        return cycle

    assert len(paths(function)) == 1


class Long(list[int]):
    """A list that must not be read to its end."""

    def __iter__(self) -> Iterator[int]:
        yield from range(10**6, 10**6 + 2 * MAX_OBJECTS)
        raise AssertionError("the list was read to its end")


def test_searches_end_in_long_lists() -> None:
    x = mx.array(1.0)
    lists = [x, Long()]

    def function() -> object:
        return lists

    assert paths(function) == {id(x): "lists[0]"}


def test_long_lists_are_counted() -> None:
    names = [f"x{n}" for n in range(MAX_NAMED + 3)]
    assert listed(names).endswith("and 3 more")
    assert listed(names[:2]) == "x0, x1"
