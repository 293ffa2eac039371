"""Trees: leaves in order, and the same structure with other leaves."""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest

from ingot._native import leaves, replace_leaves, same_tree

Pair = namedtuple("Pair", "left right")


class Numbers(list):  # type: ignore[type-arg]
    pass


class Table(dict):  # type: ignore[type-arg]
    def __init__(self, name: str) -> None:
        self.name = name


class Row(tuple):  # type: ignore[type-arg]
    __slots__ = ()


def test_leaves_come_in_order() -> None:
    tree = {"b": [1, (2, {"x": None})], "a": Pair("text", [])}
    assert leaves(tree) == [1, 2, None, "text"]
    assert leaves(3) == [3]
    assert leaves(()) == []


@pytest.mark.parametrize(
    "tree", [[1, 2], (1, 2), {"a": 1, "b": 2}, Pair(1, 2), [[1], ({"k": 2},)], 7]
)
def test_structure_is_kept(tree: Any) -> None:
    found = leaves(tree)
    for plain in (True, False):
        copy = replace_leaves(tree, found, plain)
        assert copy == tree
        assert type(copy) is type(tree)
    assert leaves(replace_leaves(tree, [str(x) for x in found], True)) == [str(x) for x in found]


def test_subclasses() -> None:
    table = Table("kept")
    table["x"] = 1
    tree = [Numbers([1, 2]), table, OrderedDict(a=1), defaultdict(list, b=2), Row([3]), Pair(4, 5)]
    same = replace_leaves(tree, leaves(tree), False)
    assert [type(x) for x in same] == [Numbers, Table, OrderedDict, defaultdict, Row, Pair]
    assert same[1].name == "kept"
    assert same[1] is not table
    assert same[3]["missing"] == []
    plain = replace_leaves(tree, leaves(tree), True)
    assert [type(x) for x in plain] == [list, dict, dict, dict, Row, Pair]
    assert [leaves(x) for x in same] != []
    assert tree[3].keys() == {"b"}


def test_containers_are_copied() -> None:
    tree = {"a": [1]}
    copy = replace_leaves(tree, [2], False)
    copy["a"].append(3)
    assert tree == {"a": [1]}


@pytest.mark.parametrize(("values", "word"), [([1], "more"), ([1, 2, 3], "fewer")])
def test_as_many_leaves_as_values(values: list[int], word: str) -> None:
    with pytest.raises(ValueError, match=rf"the tree has {word} leaves than there are values"):
        replace_leaves([0, (0,)], values, False)


def test_trees_that_contain_themselves() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = [endless]
    with pytest.raises(ValueError, match="contains itself"):
        leaves(endless)
    with pytest.raises(ValueError, match="contains itself"):
        replace_leaves(endless, [1], False)


def test_arguments() -> None:
    with pytest.raises(TypeError, match="takes a tree, a list, a flag"):
        replace_leaves([1], (1,), False)  # type: ignore[arg-type]

    class Strange(dict):  # type: ignore[type-arg]
        def __copy__(self) -> int:
            return 3

    with pytest.raises(TypeError, match=r"a copy of .*Strange.* is not a dict"):
        replace_leaves(Strange(a=1), [1], False)


def test_tuples_are_made_without_their_constructors() -> None:
    """What a constructor wants to be given, or refuses, is not known: placeholders, gradients."""

    class Positive(Pair):
        __slots__ = ()

        def __new__(cls, left: int, right: int) -> Positive:
            if left < 0:
                raise ValueError("not negative")
            return super().__new__(cls, left, right)

    (made,) = replace_leaves([Positive(1, 2)], [-1, 2], False)
    assert type(made) is Positive
    assert made == (-1, 2)


def test_references_are_balanced() -> None:
    leaf = object()
    tree = {"a": [leaf, (leaf,)], "b": Numbers([leaf])}
    before = sys.getrefcount(leaf)
    for _ in range(100):
        replace_leaves(tree, leaves(tree), False)
        with pytest.raises(ValueError, match="more leaves"):
            replace_leaves(tree, [leaf], False)
    assert sys.getrefcount(leaf) == before


def test_same_trees_hold_the_same_objects() -> None:
    one, other = object(), object()
    tree = {"a": [one, (other, {})], "b": one}
    assert same_tree(tree, {"a": [one, (other, {})], "b": one})
    assert same_tree(one, one)
    changed: list[Any] = [
        {"a": [one, (one, {})], "b": one},
        {"a": [one, (other, {})]},
        {"b": one, "a": [one, (other, {})]},
        {"a": [one, (other, {}), one], "b": one},
        {"a": (one, (other, {})), "b": one},
        {"a": Numbers([one, (other, {})]), "b": one},
        {"a": [one, (other, {"c": one})], "b": one},
        one,
    ]
    for each in changed:
        assert not same_tree(tree, each)
        assert not same_tree(each, tree)
    with pytest.raises(TypeError, match="two trees"):
        same_tree(one)  # type: ignore[call-arg]


def test_trees_that_contain_themselves_end() -> None:
    inside: list[Any] = []
    inside.append(inside)
    assert not same_tree(inside, [[[]]])
