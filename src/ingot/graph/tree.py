"""Trees: nested lists, tuples and dicts with arrays and other values as leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ingot._native import array

__all__ = ["arrays_in", "tree_leaves", "tree_map"]


def tree_leaves(tree: Any) -> Iterator[Any]:
    """The leaves in order: lists and tuples by position, dicts by insertion, iteratively."""
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
        else:
            yield item


def arrays_in(tree: Any) -> list[array]:
    """The leaves that are arrays."""
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, array)]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of the same structure with `function(leaf, *leaves of the others)` at each leaf."""
    if isinstance(tree, dict):
        return type(tree)(
            (key, tree_map(function, value, *(other[key] for other in others)))
            for key, value in tree.items()
        )
    if isinstance(tree, (list, tuple)):
        mapped = [tree_map(function, *items) for items in zip(tree, *others, strict=True)]
        return type(tree)(*mapped) if hasattr(tree, "_fields") else type(tree)(mapped)
    return function(tree, *others)
