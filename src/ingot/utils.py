"""Functions on trees: nested lists, tuples and dicts whose leaves are arrays or anything else.

A tree has a flat form too: pairs of a path and a leaf, where the path joins the keys and positions
on the way to the leaf with dots, such as `layers.0.weight`. Weight files and optimizers use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any, TypeVar, overload

from ingot.graph.boundary import check_functions as _check_functions
from ingot.graph.errors import type_name, value_text
from ingot.graph.reporting.hints import nearest
from ingot.graph.tree import sequence_like

__all__ = [
    "tree_flatten",
    "tree_map",
    "tree_map_with_path",
    "tree_merge",
    "tree_reduce",
    "tree_unflatten",
]

IsLeaf = Callable[[Any], bool]
Pairs = TypeVar("Pairs", list[tuple[str, Any]], dict[str, Any])


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf | None = None) -> Any:
    """A tree of the same structure with `fn(leaf)` in place of each leaf.

    Args:
        fn: A function of a leaf of `tree` and of the leaves at the same path in `rest`.
        tree: The tree that gives the structure.
        rest: Trees that have at least what `tree` has.
        is_leaf: Says of a subtree of `tree` whether to treat it as a leaf.

    Example:
        >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2, 3]}, {"a": 10, "b": [20, 30]})
        {'a': 11, 'b': [22, 33]}
    """
    try:
        return _mapped(fn, tree, rest, is_leaf)
    except RecursionError:
        refuse_endless("tree_map", tree)
        raise


def _mapped(fn: Callable[..., Any], tree: Any, rest: Iterable[Any], is_leaf: IsLeaf | None) -> Any:
    if is_leaf is not None and is_leaf(tree):
        return fn(tree, *rest)
    if isinstance(tree, dict):
        return {
            key: _mapped(fn, child, [_child("tree_map", one, key) for one in rest], is_leaf)
            for key, child in tree.items()
        }
    if isinstance(tree, (list, tuple)):
        return sequence_like(
            tree,
            [
                _mapped(fn, child, [_child("tree_map", one, position) for one in rest], is_leaf)
                for position, child in enumerate(tree)
            ],
        )
    return fn(tree, *rest)


class TreeError(ValueError, KeyError, IndexError):
    """Trees that differ: MLX raises what looking up the missing subtree raises."""

    __str__ = Exception.__str__  # a KeyError shows its text as a value


def _child(name: str, tree: Any, key: Any) -> Any:
    """What another tree has where the first one has `key`."""
    try:
        return tree[key]
    except (LookupError, TypeError):
        hint = nearest(key, tree) if isinstance(key, str) and isinstance(tree, dict) else ""
        raise TreeError(
            f"[{name}] the trees differ: the first has something at {key!r}, and another one has "
            f"nothing there: it is {type_name(tree)}: {value_text(tree)}{hint or '.'}"
        ) from None


MAX_DEPTH = 300  # of trees; deeper ones are taken for cycles


def refuse_endless(name: str, tree: Any) -> None:
    """Raises ValueError if a tree is too deep to be traversed, as cyclic ones are."""
    waiting = [(tree, 0)]
    while waiting:
        subtree, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ValueError(
                f"[{name}] a tree has at most {MAX_DEPTH} levels, and this one holds itself or has "
                "more."
            ) from None
        if isinstance(subtree, dict):
            waiting += [(child, depth + 1) for child in subtree.values()]
        elif isinstance(subtree, (list, tuple)):
            waiting += [(child, depth + 1) for child in subtree]


def tree_map_with_path(
    fn: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: IsLeaf | None = None,
    path: str | None = None,
) -> Any:
    """As `tree_map`, with a function that gets the leaf's path first.

    Args:
        fn: A function of the path, a leaf of `tree` and the leaves at the same path in `rest`.
        tree: The tree that gives the structure.
        rest: Trees that have at least what `tree` has.
        is_leaf: Says of a subtree of `tree` whether to treat it as a leaf.
        path: What all paths begin with. A tree that is a leaf itself has this path.

    Example:
        >>> tree_map_with_path(lambda path, x: f"{path}={x}", {"a": [1, 2]})
        {'a': ['a.0=1', 'a.1=2']}
    """
    try:
        return _mapped_with_path(fn, tree, rest, is_leaf, path)
    except RecursionError:
        refuse_endless("tree_map_with_path", tree)
        raise


def _mapped_with_path(
    fn: Callable[..., Any], tree: Any, rest: Iterable[Any], is_leaf: IsLeaf | None, path: Any
) -> Any:
    if is_leaf is not None and is_leaf(tree):
        return fn(path, tree, *rest)
    if not isinstance(tree, (dict, list, tuple)):
        return fn(path, tree, *rest)
    prefix = f"{path}." if path else ""

    def mapped(key: Any, child: Any) -> Any:
        others = [_child("tree_map_with_path", other, key) for other in rest]
        return _mapped_with_path(fn, child, others, is_leaf, f"{prefix}{key}")

    if isinstance(tree, dict):
        return {key: mapped(key, child) for key, child in tree.items()}
    return sequence_like(tree, [mapped(key, child) for key, child in enumerate(tree)])


@overload
def tree_flatten(
    tree: Any, prefix: str = "", is_leaf: IsLeaf | None = None, destination: None = None
) -> list[tuple[str, Any]]: ...


@overload
def tree_flatten(
    tree: Any, prefix: str = "", is_leaf: IsLeaf | None = None, *, destination: Pairs
) -> Pairs: ...


@overload
def tree_flatten(tree: Any, prefix: str, is_leaf: IsLeaf | None, destination: Pairs) -> Pairs: ...


def tree_flatten(
    tree: Any,
    prefix: str = "",
    is_leaf: IsLeaf | None = None,
    destination: Any = None,
) -> Any:
    """The flat form of a tree: pairs of path and leaf, in order.

    Args:
        tree: The tree.
        prefix: What all paths begin with; its first character, the dot, is left out.
        is_leaf: Says of a subtree of `tree` whether to treat it as a leaf.
        destination: A list or a dict to which the pairs are added; a new list by default.

    Returns:
        The list, or `destination`.

    Example:
        >>> tree_flatten({"a": [1, 2]})
        [('a.0', 1), ('a.1', 2)]
        >>> tree_flatten({"a": [1, 2]}, destination={})
        {'a.0': 1, 'a.1': 2}
    """
    if destination is None:
        destination = []
    if not isinstance(destination, (list, dict)):
        raise ValueError(
            "[tree_flatten] the destination must be a list, a dict or None, "
            f"got {type(destination).__name__}."
        )
    leaves = _leaves("tree_flatten", tree, prefix, is_leaf)
    if isinstance(destination, dict):
        destination.update(leaves)
    else:
        destination.extend(leaves)
    return destination


def _leaves(name: str, tree: Any, prefix: str, is_leaf: IsLeaf | None) -> list[tuple[str, Any]]:
    leaves: list[tuple[str, Any]] = []
    try:
        _gather(tree, prefix, is_leaf, leaves)
    except RecursionError:
        refuse_endless(name, tree)
        raise
    return leaves


def _gather(tree: Any, path: str, is_leaf: IsLeaf | None, leaves: list[tuple[str, Any]]) -> None:
    if is_leaf is not None and is_leaf(tree):
        leaves.append((path[1:], tree))
    elif isinstance(tree, dict):
        for key, child in tree.items():
            _gather(child, f"{path}.{key}", is_leaf, leaves)
    elif isinstance(tree, (list, tuple)):
        for position, child in enumerate(tree):
            _gather(child, f"{path}.{position}", is_leaf, leaves)
    else:
        leaves.append((path[1:], tree))


def tree_unflatten(tree: list[tuple[str, Any]] | dict[str, Any]) -> Any:
    """The tree of a flat form. Subtrees whose keys are all integers become lists, others dicts.

    Args:
        tree: Pairs of path and leaf, or a dict from path to leaf, as `tree_flatten` returns them.
            Positions of a list that are not given become empty dicts.

    Example:
        >>> tree_unflatten([("a.0", 1), ("a.1", 2)])
        {'a': [1, 2]}
    """
    return _unflattened(list(tree.items() if isinstance(tree, dict) else tree))


def _unflattened(pairs: list[tuple[str, Any]]) -> Any:
    if len(pairs) == 1 and pairs[0][0] == "":
        return pairs[0][1]
    branches: dict[str, list[tuple[str, Any]]] = {}
    for path, leaf in pairs:
        key, _, remaining = path.partition(".")
        branches.setdefault(key, []).append((remaining, leaf))
    positions = _positions(branches)
    if positions is None:
        return {key: _unflattened(branch) for key, branch in branches.items()}
    items: list[Any] = []
    for position in sorted(positions):
        items.extend({} for _ in range(position - len(items)))
        items.append(_unflattened(branches[positions[position]]))
    return items


def _positions(keys: Iterable[str]) -> dict[int, str] | None:
    """The keys by the positions they name; None unless all are different whole numbers."""
    listed = list(keys)
    try:
        positions = {int(key): key for key in listed}
    except ValueError:
        return None
    # "01" and "1" are two keys, but one position.
    return positions if len(positions) == len(listed) else None


def tree_reduce(
    fn: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = None,
    is_leaf: IsLeaf | None = None,
) -> Any:
    """The leaves combined into one value, in order: `fn(fn(fn(initializer, a), b), c)`.

    Args:
        fn: A function of the value so far and a leaf.
        tree: The tree.
        initializer: The value to begin with; the first leaf if it is None.
        is_leaf: Says of a subtree of `tree` whether to treat it as a leaf.

    Example:
        >>> tree_reduce(lambda total, x: total + x, {"a": [1, 2], "b": 3}, 0)
        6
    """
    leaves = _leaves("tree_reduce", tree, "", is_leaf)
    accumulated = initializer
    for _, leaf in leaves:
        accumulated = leaf if accumulated is None else fn(accumulated, leaf)
    return accumulated


def tree_merge(tree_a: Any, tree_b: Any, merge_fn: Callable[[Any, Any], Any] | None = None) -> Any:
    """The union of two trees.

    Args:
        tree_a: A tree. None and empty containers stand for nothing.
        tree_b: Another one.
        merge_fn: A function of two leaves that are at the same path; without it, that is an error.

    Example:
        >>> tree_merge({"a": [1]}, {"b": 2})
        {'a': [1], 'b': 2}
    """
    try:
        return _merged(tree_a, tree_b, merge_fn)
    except RecursionError:
        refuse_endless("tree_merge", tree_a)
        raise


def _merged(tree_a: Any, tree_b: Any, merge_fn: Callable[[Any, Any], Any] | None) -> Any:
    if _is_empty(tree_a) and _is_empty(tree_b):
        if type(tree_a) is not type(tree_b):
            raise ValueError(
                f"[tree_merge] cannot merge an empty {type(tree_a).__name__} with an empty "
                f"{type(tree_b).__name__}: use the same kind of container in both trees."
            )
        return type(tree_a)()
    if _is_empty(tree_a):
        tree_a = None
    if _is_empty(tree_b):
        tree_b = None
    if tree_a is None and tree_b is not None:
        return tree_b
    if tree_a is not None and tree_b is None:
        return tree_a
    if isinstance(tree_a, dict) and isinstance(tree_b, dict):
        return {
            key: _merged(tree_a.get(key), tree_b.get(key), merge_fn) for key in {**tree_a, **tree_b}
        }
    if isinstance(tree_a, (list, tuple)) and isinstance(tree_b, (list, tuple)):
        pairs = zip_longest(tree_a, tree_b)
        return sequence_like(tree_a, [_merged(a, b, merge_fn) for a, b in pairs])
    if merge_fn is None:
        raise ValueError(
            "[tree_merge] both trees have something at the same path, "
            f"{value_text(tree_a)} and {value_text(tree_b)}: "
            "give a merge_fn that says which to take."
        )
    return merge_fn(tree_a, tree_b)


def _is_empty(tree: Any) -> bool:
    return isinstance(tree, (dict, list, tuple)) and len(tree) == 0


_check_functions(globals(), __all__)
