"""What bodies store outside themselves: refused by name and undone, unless it has values."""

from __future__ import annotations

from typing import Any

import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim


def test_storing_traced_arrays_elsewhere_is_refused_by_name() -> None:
    seen: dict[str, Any] = {}

    def step(c: mx.array, x: mx.array) -> Any:
        seen["last"] = c * x
        return c + x, None

    with pytest.raises(ValueError, match=r"stores arrays in seen\['last'\]"):
        mx.scan(step, mx.array(0.0), mx.arange(3.0))


class Holder:
    """An object that bodies store to."""

    def __init__(self) -> None:
        self.kept = mx.array(7.0)
        self.calls = 0
        self.list = [mx.array(1.0)]


class Slotted:
    """An object without a dict that bodies store to."""

    __slots__ = ("empty", "kept")

    def __init__(self) -> None:
        self.kept = mx.array(2.0)


class BelowSlotted(Slotted):
    __slots__ = ("more",)


@pytest.mark.parametrize("what", ["computed", "bare carry", "slice", "what is returned"])
@pytest.mark.parametrize(
    "where", ["object", "list", "dict", "variable", "in place", "in a tree", "slots"]
)
def test_what_refused_bodies_stored_to_is_put_back(what: str, where: str) -> None:
    holder, seen, variable = Holder(), {"last": mx.array(5.0), "n": 0}, mx.array(3.0)
    slotted = BelowSlotted()

    def store(x: mx.array) -> None:
        nonlocal variable
        if where == "object":
            holder.kept = x
        elif where == "list":
            holder.list.append(x)
        elif where == "dict":
            seen["last"] = seen["new"] = x
        elif where == "variable":
            variable = x
        elif where == "in place":
            variable[...] = x
        elif where == "slots":
            slotted.kept = slotted.empty = x
            slotted.more = [x]
        else:
            seen["new"] = {"a": [1, x]}

    def step(c: mx.array, x: mx.array) -> Any:
        new = c + x
        holder.calls += 1
        seen["n"] = 1
        store({"computed": c * x, "bare carry": c, "slice": x, "what is returned": new}[what])
        return new, None

    with pytest.raises(ValueError, match="stores arrays in"):
        mx.scan(step, mx.array(0.0), mx.arange(3.0))
    assert holder.calls == 1
    assert seen.keys() == {"last", "n"}
    assert (seen["n"], len(holder.list)) == (1, 1)
    values = [holder.kept, *holder.list, seen["last"], variable, slotted.kept]
    assert [x.item() for x in values] == [7.0, 1.0, 5.0, 3.0, 2.0]  # type: ignore[union-attr]
    assert not hasattr(slotted, "empty")
    assert not hasattr(slotted, "more")


KEPT = Holder()


def test_globals_are_put_back() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        KEPT.list[0] = c
        KEPT.kept = x
        return c + x, None

    with pytest.raises(ValueError, match=r"KEPT\.list\[0\]|KEPT\.kept"):
        mx.scan(step, mx.array(0.0), mx.arange(3.0))
    assert [KEPT.kept.item(), KEPT.list[0].item()] == [7.0, 1.0]


def test_what_a_body_that_raises_stored_to_is_put_back() -> None:
    holder = Holder()

    def step(c: mx.array, x: mx.array) -> Any:
        holder.kept = c + x
        raise RuntimeError("the user's")

    with pytest.raises(RuntimeError, match="the user's"):
        mx.scan(step, mx.array(0.0), mx.arange(3.0))
    assert holder.kept.item() == 7.0


def test_lists_that_grow_in_front_are_put_back() -> None:
    numbers: list[Any] = list(range(1000))

    def step(c: mx.array, x: mx.array) -> Any:
        numbers.insert(0, x)
        return c + x, None

    with pytest.raises(ValueError, match=r"stores arrays in numbers\[0\]"):
        mx.scan(step, mx.array(0.0), mx.arange(3.0))
    assert numbers == list(range(1000))


def test_bodies_may_delete_variables() -> None:
    twice = mx.array(2.0)

    def step(c: mx.array, x: mx.array) -> Any:
        nonlocal twice
        scaled = twice * x
        del twice
        return c + scaled, None

    assert mx.scan(step, mx.array(0.0), mx.arange(3.0))[0].item() == 6.0


def test_bodies_may_keep_what_has_values() -> None:
    kept: dict[str, Any] = {}

    def step(c: mx.array, x: mx.array) -> Any:
        kept.setdefault("mask", mx.array([1.0, 0.0]))
        return c + x * kept["mask"][0], None

    assert mx.scan(step, mx.array(0.0), mx.arange(3.0))[0].item() == 3.0
    assert kept["mask"].tolist() == [1.0, 0.0]


def test_updates_that_would_happen_once_are_refused() -> None:
    layer, optimizer = nn.Linear(2, 1), optim.Adam(0.1)
    gradient = nn.value_and_grad(layer, lambda model, x: mx.sum(model(x) ** 2))
    counts, variable = [mx.array(1)], mx.array(3.0)

    def trained(c: mx.array, x: mx.array) -> Any:
        optimizer.update(layer, gradient(layer, mx.ones((1, 2)))[1])
        return c + x, None

    def counted(c: mx.array, x: mx.array) -> Any:
        counts[0] = counts[0] + 1
        return c + x, None

    def doubled(c: mx.array, x: mx.array) -> Any:
        nonlocal variable
        variable = variable * 2
        return c + x, None

    before = layer.weight.tolist()
    for body, what in (
        (trained, "optimizer.state"),
        (counted, r"counts\[0\]"),
        (doubled, "variable"),
    ):
        with pytest.raises(ValueError, match=f"updates .*{what}.* would happen once"):
            mx.scan(body, mx.array(0.0), mx.arange(3.0))
    assert layer.weight.tolist() == before
    assert counts[0].item() == 1
    assert variable.item() == 3.0

    def differentiated(c: mx.array, x: mx.array) -> Any:  # puts the weights back itself
        return c + gradient(layer, mx.ones((1, 2)))[0], None

    found = mx.scan(differentiated, mx.array(0.0), mx.arange(3.0))[0]
    assert found.item() == pytest.approx(3 * mx.sum(layer(mx.ones((1, 2))) ** 2).item(), rel=1e-5)
