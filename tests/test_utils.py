"""Functions on trees against those of MLX."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import mlx.utils
import pytest

import ingot.utils
from ingot.utils import (
    tree_flatten,
    tree_map,
    tree_map_with_path,
    tree_merge,
    tree_reduce,
    tree_unflatten,
)

BOTH = (ingot.utils, mlx.utils)
Point = namedtuple("Point", "x y")
TREES = [
    1,
    None,
    [],
    {},
    [[[0]]],
    (1, [2, (3,)]),
    {"a": {"b": 1, "c": [2, 3]}, "d": ()},
    {"p": Point(1, [2, 3])},
    {3: "x", "y": "z"},
    [{"w": 1, "b": 2}, {"w": 3}],
]


def is_pair(tree: Any) -> bool:
    return isinstance(tree, (list, tuple)) and len(tree) == 2


@pytest.mark.parametrize("tree", TREES, ids=repr)
@pytest.mark.parametrize("is_leaf", [None, is_pair])
@pytest.mark.parametrize(
    "call",
    [
        lambda utils, tree, is_leaf: utils.tree_map(str, tree, is_leaf=is_leaf),
        lambda utils, tree, is_leaf: utils.tree_map(
            lambda *x: x, tree, tree, tree, is_leaf=is_leaf
        ),
        lambda utils, tree, is_leaf: utils.tree_map_with_path(
            lambda *x: x, tree, tree, is_leaf=is_leaf
        ),
        lambda utils, tree, is_leaf: utils.tree_map_with_path(
            lambda *x: x, tree, is_leaf=is_leaf, path="model"
        ),
        lambda utils, tree, is_leaf: utils.tree_flatten(tree, is_leaf=is_leaf),
        lambda utils, tree, is_leaf: utils.tree_flatten(tree, ".model", is_leaf, {}),
        lambda utils, tree, is_leaf: utils.tree_flatten(tree, destination=[("first", 0)]),
        lambda utils, tree, is_leaf: utils.tree_unflatten(utils.tree_flatten(tree)),
        lambda utils, tree, is_leaf: utils.tree_reduce(
            lambda total, x: [*total, x], tree, [], is_leaf
        ),
        lambda utils, tree, is_leaf: utils.tree_reduce(
            lambda total, x: (total, x), tree, is_leaf=is_leaf
        ),
        lambda utils, tree, is_leaf: utils.tree_merge([tree], [None, 1]) if tree else 0,
        lambda utils, tree, is_leaf: utils.tree_merge(tree, tree, lambda a, b: (a, b)),
    ],
)
def test_equals_mlx(call: Any, is_leaf: Any, tree: Any) -> None:
    ours, theirs = (call(utils, tree, is_leaf) for utils in BOTH)
    assert ours == theirs
    assert type(ours) is type(theirs)


@pytest.mark.parametrize(
    "flat",
    [
        [],
        {},
        [("", 5)],
        {"hello.world": 42},
        [("1", "b"), ("0", "a")],
        [("2.w", 1)],
        [("01", 1), ("1", 2)],
        [("a.0", 1), ("a.b", 2)],
        [("a.1.x", 1), ("a.0.x", 2), ("b", 3)],
    ],
    ids=repr,
)
def test_unflatten_equals_mlx(flat: Any) -> None:
    ours, theirs = (utils.tree_unflatten(flat) for utils in BOTH)
    assert ours == theirs


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"a": 1}, {"b": 2}),
        ({"a": {"x": 1}}, {"a": {"y": 2}}),
        ([1, None, 3], [None, 2]),
        ([{}, {"w": 1}], [{"w": 0}]),
        ({"a": []}, {"a": [1, 2]}),
        ([], []),
        ({"a": ()}, {"a": ()}),
        (Point(1, None), Point(None, 2)),
    ],
)
def test_merge_equals_mlx(a: Any, b: Any) -> None:
    ours, theirs = (utils.tree_merge(a, b) for utils in BOTH)
    assert ours == theirs
    assert type(ours) is type(theirs)


def test_merge_keeps_the_order_of_keys() -> None:
    assert list(tree_merge({"b": 1, "a": 2}, {"c": 3, "a": None})) == ["b", "a", "c"]


def test_flatten_adds_to_the_destination() -> None:
    destination = {"a": 0}
    assert tree_flatten([1], destination=destination) is destination
    assert destination == {"a": 0, "0": 1}


def test_a_tree_that_is_a_leaf_has_the_path_that_was_given() -> None:
    assert tree_map_with_path(lambda path, x: (path, x), 5) == (None, 5)
    assert tree_map_with_path(lambda path, x: (path, x), 5, path="p") == ("p", 5)


def test_reduce_of_nothing_is_the_initializer() -> None:
    assert tree_reduce(max, []) is None
    assert tree_reduce(max, {"a": []}, 3) == 3


def test_round_trip() -> None:
    tree = {"layers": [{"w": 1, "b": 2}, {"w": 3}], "scale": 4}
    assert tree_unflatten(tree_flatten(tree)) == tree
    assert tree_unflatten(tree_flatten(tree, destination={})) == tree


ERRORS: list[Any] = [
    (lambda: tree_flatten([1], destination="x"), ValueError, "must be a list, a dict or None"),
    (lambda: tree_merge({"a": 1}, {"a": 2}), ValueError, "1 and 2: give a merge_fn"),
    (lambda: tree_merge([], {}), ValueError, "an empty list with an empty dict"),
    (lambda: tree_map(lambda x, y: x, {"a": 1}, {}), KeyError, "has nothing there: it is dict: {}"),
    (lambda: tree_map(lambda x, y: x, [1, 2], [1]), IndexError, "the trees differ"),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_error_says_what_is_wrong(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
