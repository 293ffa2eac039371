"""Objects as arguments: which are trees, which are constants, and which are refused."""

from __future__ import annotations

import copy
import enum
import functools
import logging
import math
import random
import re
from collections import OrderedDict, UserDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.compiler.compiled_calls import check
from tests.compiler.object_states import check_calls, state_of

import ingot.core as mx
import ingot.nn as nn

X = mx.array([1.0, 2.0])


@dataclass
class Config:
    factor: float = 2.0
    weight: Any = None
    names: list[Any] = field(default_factory=list)


@dataclass(frozen=True)
class Frozen:
    factor: float
    weight: Any = None
    inner: Any = None


@dataclass(frozen=True, slots=True)
class Slotted:
    factor: float
    weight: Any


class Pair(NamedTuple):
    first: Any
    second: Any


Old = namedtuple("Old", "first second")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Bits(enum.Flag):
    A = 1
    B = 2


class Attributed(dict):  # type: ignore[type-arg]
    """A dict with attributes."""


class Hashable:
    """As in the issue of stale results: equal and hashable, whatever it holds."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


# Trees: what is in them and what happens to it


def scale_by(item: Any, x: Any) -> Any:
    return x * item.weight * item.factor


def change_config(item: Any, x: Any) -> Any:
    item.factor = item.factor + 1
    item.weight = item.weight + x
    item.names.append(("seen", x * item.factor))
    return item


def replace_inner(item: Any, x: Any) -> Any:
    return Frozen(item.factor * 2, item.weight * x, Slotted(1.0, [x]))


def fill(item: Any, x: Any) -> Any:
    item["sum"] = item["sum"] + x
    item["list"].append(item["sum"] * 2)
    item["list"][0] += 1
    return item["sum"], len(item["list"])


def swap(item: Any, x: Any) -> Any:
    item[0], item[1] = item[1] * x, item[0]
    return x


def missing(item: Any, x: Any) -> Any:
    item["made"].append(x)
    return x


def call_it(item: Any, x: Any) -> Any:
    return item(x)


def of_pair(item: Any, x: Any) -> Any:
    return type(item)(item.second * x, item.first)


def attributed(item: Any, x: Any) -> Any:
    item.count = getattr(item, "count", 0) + 1
    item["w"] = item["w"] * x
    return item["w"] * item.count


def moving(item: Any, x: Any) -> Any:
    item.items.append(item.items.pop(0) * x)
    return item.items


TREES: list[tuple[Any, Any, list[Any]]] = [
    (
        scale_by,
        Config(2.0, mx.array([1.0, 2.0])),
        [
            None,
            lambda c: setattr(c, "factor", 3.0),
            lambda c: setattr(c, "weight", mx.array([5.0, 5.0])),
            lambda c: setattr(c, "names", ["other"]),
            lambda c: setattr(c, "factor", 2.0),
            lambda c: setattr(c, "weight", 4.0),
        ],
    ),
    (scale_by, Frozen(2.0, mx.array([1.0, 2.0])), [None, None]),
    (scale_by, Slotted(2.0, mx.array([1.0, 2.0])), [None, None]),
    (
        scale_by,
        Slotted(2.0, mx.array([1.0, 2.0])),
        [None, lambda s: object.__setattr__(s, "factor", 9.0)],
    ),
    (change_config, Config(1.0, mx.array([1.0, 1.0])), [None, None, None]),
    (replace_inner, Frozen(1.0, mx.array([1.0, 1.0])), [None, None]),
    (fill, {"sum": mx.array([0.0, 0.0]), "list": [mx.array(1.0)]}, [None] * 4),
    (
        fill,
        OrderedDict(sum=mx.array([0.0, 0.0]), list=[mx.array(1.0)]),
        [None, lambda d: d.move_to_end("sum"), None],
    ),
    (swap, [mx.array([1.0, 2.0]), mx.array([3.0, 4.0])], [None, None, None]),
    (missing, defaultdict(list), [None, None, None]),
    (of_pair, Pair(mx.array([1.0, 2.0]), mx.array([3.0, 4.0])), [None, None]),
    (of_pair, Old(mx.array([1.0, 2.0]), mx.array([3.0, 4.0])), [None, None]),
    (
        attributed,
        Attributed(w=mx.array([1.0, 2.0])),
        [None, None, lambda d: setattr(d, "count", 7)],
    ),
    (call_it, functools.partial(mx.add, mx.array([1.0, 2.0])), [None, None]),
    (
        call_it,
        functools.partial(lambda x, k, m: x * k + m["w"], k=3.0, m={"w": mx.array(1.0)}),
        [None, lambda p: p.keywords.update(k=4.0), lambda p: p.keywords["m"].update(w=X)],
    ),
    (call_it, nn.Linear(2, 2), [None, lambda m: setattr(m, "bias", X)]),
    (
        lambda method, x: method(x),
        nn.Linear(2, 2).__call__,
        [None, lambda m: setattr(m.__self__, "bias", X * 3)],
    ),
    (
        lambda c, x: x * c.inner.factor * len(c.inner.names),
        Frozen(1.0, inner=Config(3.0, names=[1])),
        [None, lambda c: c.inner.names.append(2), lambda c: setattr(c.inner, "factor", 0.5)],
    ),
]


@pytest.mark.parametrize("shapeless", [False, True])
@pytest.mark.parametrize("case", range(len(TREES)))
def test_trees_are_looked_into_and_changes_are_written_back(case: int, shapeless: bool) -> None:
    function, item, changes = TREES[case]
    steps = [(change, item, X + number) for number, change in enumerate(changes)]
    check_calls(mx.compile(function, shapeless=shapeless), function, steps)


def test_equal_structures_share_an_entry() -> None:
    compiled = mx.compile(lambda item, x: scale_by(item, x))
    for k in range(3):
        check(compiled(Config(2.0, mx.array([k, 1.0]), ["same"]), X), [2.0 * k, 4.0])
    assert compiled.cache_info().misses == 1


def test_arguments_themselves_stay_the_callers() -> None:
    """As in MLX: `x += 1` on an argument is not seen outside; containers and objects are."""

    def function(x: Any, pair: Any, listed: Any) -> Any:
        x += 1
        first, _ = pair
        first *= 2
        listed[0] += x
        return x + first

    x, first, listed = mx.array(1.0), mx.array(2.0), [mx.array(3.0)]
    compiled = mx.compile(function)
    for k in range(1, 3):
        check(compiled(x, (first, 1), listed), 6.0)
        assert (x.item(), first.item(), listed[0].item()) == (1.0, 2.0, 3.0 + 2 * k)


def test_arrays_and_containers_that_are_shared() -> None:
    def function(a: Any, b: Any, x: Any) -> Any:
        a[0] += x
        b.append(a[0] * 10)
        return a[0] + b[0]

    def calls(function: Any) -> Any:
        w, v = mx.array(1.0), mx.array(2.0)
        one, two, three = [w], [w], [v]
        results = [function(one, two, X), function(one, three, X), function(one, one, X)]
        results += [function(two, [mx.array(0.0)], X), function([w], [w], X)]
        return state_of([results, one, two, three])

    assert calls(mx.compile(function)) == calls(function)

    def pure(a: Any, b: Any) -> Any:
        return a["w"] * 2 + b["w"]

    compiled, one, two = mx.compile(pure), {"w": mx.array(1.0)}, {"w": mx.array(5.0)}
    check(compiled(one, one), 3.0)
    check(compiled(one, two), 7.0)
    check(compiled(two, two), 15.0)


def test_tied_weights_of_a_module_and_an_argument() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = self.b = mx.array(2.0)

    def function(model: Any, x: Any) -> Any:
        model.a = model.a + 1
        return model.a * 10 + model.b + x

    mine, theirs = Tied(), Tied()
    compiled = mx.compile(function)
    for x in (mx.array(1.0), mx.array(2.0)):
        check(compiled(mine, x), function(theirs, x))
    for model in (mine, theirs):
        model.b = model.a
    check(compiled(mine, mine.a), function(theirs, theirs.a))
    check(compiled(mine, mx.array(3.0)), function(theirs, mx.array(3.0)))
    assert state_of(mine) == state_of(theirs)


def test_cycles() -> None:
    cyclic: list[Any] = [mx.array(1.0)]
    cyclic.append(cyclic)
    with pytest.raises(ValueError, match="a list in the arguments contains itself"):
        mx.compile(lambda tree, x: x)(cyclic, X)
    parent, child = Config(2.0, X), Config(3.0, X)
    parent.names, child.names = [child], [parent]
    check_calls(
        mx.compile(lambda p, x: x * p.names[0].names[0].weight * p.names[0].factor),
        lambda p, x: x * p.names[0].names[0].weight * p.names[0].factor,
        [(None, parent, X), (lambda p: setattr(p.names[0], "factor", 5.0), parent, X)],
    )


# Constants


CONSTANTS: list[tuple[Any, Any]] = [
    (1, True),
    (Level.LOW, 1),
    (Level.LOW, Level.HIGH),
    (Color.RED, Color.BLUE),
    (Bits.A, Bits.A | Bits.B),
    (b"a", b"b"),
    (..., None),
    (slice(1, 2), slice(1, 3)),
    (range(0), range(1, 1)),
    (range(3), range(4)),
    (frozenset({1}), frozenset({True})),
    (frozenset({"a"}), frozenset({"b"})),
    (mx.float32, mx.float16),
    (mx.cpu, mx.gpu),
    (int, float),
    (math.sin, math.cos),
    (np.sin, np.cos),
    (str.upper, str.lower),
    (np.dtype("int8"), np.dtype("int16")),
    (np.float32(0.0), np.float32(-0.0)),
    (re.compile("a"), re.compile("b")),
    ({1: 0}, {True: 0}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({Color.RED: 1}, {Color.BLUE: 1}),
    ({(1, "a"): 1}, {(1, "b"): 1}),
    (Pair(1, 2), (1, 2)),
    (logging.getLogger("a"), logging.getLogger("b")),
]


@pytest.mark.parametrize(("first", "second"), CONSTANTS, ids=repr)
def test_constants_count_by_type_and_value(first: Any, second: Any) -> None:
    seen = []
    compiled = mx.compile(lambda x, k: (seen.append(k), x)[1])  # type: ignore[func-returns-value]
    for _ in range(2):
        compiled(X, first)
        compiled(X, second)
        compiled(X, copy.deepcopy(first) if type(first) not in (frozenset,) else first)
    assert [repr(value) for value in seen] == [repr(first), repr(second)]


# What is refused


class Ordinary:
    pass


class Subclassed(deque):  # type: ignore[type-arg]
    pass


class Tagged(str):
    """A string with an attribute that can change."""


def tagged() -> Tagged:
    made = Tagged("a")
    made.scale = 1  # type: ignore[attr-defined]
    return made


FOREIGN = [
    Hashable(1.0),
    Ordinary(),
    UserDict(),
    {1, 2},
    bytearray(b"a"),
    deque([1]),
    Subclassed(),
    iter([1]),
    random.Random(0),
    np.random.default_rng(0),
    tagged(),
    [1].append,
]


@pytest.mark.parametrize("item", FOREIGN, ids=lambda item: type(item).__name__)
def test_foreign_objects_are_refused_by_name(item: Any) -> None:
    kind = re.escape(type(item).__name__)
    compiled = mx.compile(lambda x, c: x)
    for call, name in (
        (lambda: compiled(X, item), "argument `c`"),
        (lambda: compiled(X, c=item), "argument `c`"),
        (lambda: compiled(X, {"k": [1, item]}), "argument `c`['k'][1]"),
        (lambda: mx.compile(lambda: X, inputs=[item])(), "captured inputs[0]"),
    ):
        with pytest.raises(
            ValueError,
            match=rf"\[compile\] arguments are trees of arrays and constants, and "
            rf"{re.escape(name)}, which is a {kind}, is neither: .*pass ",
        ):
            call()


def test_keys_never_rest_on_what_users_call_equal() -> None:
    class Number(int):
        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 0

    compiled = mx.compile(lambda x, k: x * int(k))
    check(compiled(X, Number(2)), [2.0, 4.0])
    check(compiled(X, Number(3)), [3.0, 6.0])
    with pytest.raises(ValueError, match="argument `k`, which holds a Hashable"):
        mx.compile(lambda x, k: x)(X, {Hashable(1.0): 1})


def test_foreign_attributes_matter_only_where_they_are_read() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = mx.array(2.0)
            self.generator = np.random.default_rng(0)
            self.things = [deque()]

        @mx.compile
        def quiet(self, x: Any) -> Any:
            return x * self.weight

        @mx.compile
        def reads(self, x: Any) -> Any:
            return x * self.generator.normal()

        @mx.compile
        def reads_items(self, x: Any) -> Any:
            return x * len(self.things[0])

    model = Model()
    check(model.quiet(X), [2.0, 4.0])
    with pytest.raises(ValueError, match=r"the function reads `self\.generator`, which is a Gener"):
        model.reads(X)
    with pytest.raises(ValueError, match=r"the function reads `self\.things\[0\]`, which is a deq"):
        model.reads_items(X)
    check(model.quiet(X), [2.0, 4.0])  # and nothing was left behind


# Transforms


def test_transforms_of_functions_of_objects() -> None:
    compiled = mx.compile(scale_by)
    item = Config(3.0, mx.array([2.0, 4.0]))
    compiled(item, X)
    check(mx.grad(lambda x: compiled(item, x).sum())(X), [6.0, 12.0])
    batch = mx.array([[1.0, 2.0], [3.0, 4.0]])
    check(mx.vmap(lambda x: compiled(item, x))(batch), batch * item.weight * 3.0)

    def weighted(weight: Any) -> Any:
        return compiled(Config(3.0, weight), X).sum()

    check(mx.grad(weighted)(mx.array([1.0, 1.0])), [3.0, 6.0])
    check(mx.compile(mx.grad(weighted))(mx.array([1.0, 1.0])), [3.0, 6.0])
    outer = mx.compile(lambda item, x: compiled(item, x) + compiled(item, x * 2))
    check(outer(item, X), [18.0, 72.0])
    item.factor = 1.0
    check(outer(item, X), [6.0, 24.0])
