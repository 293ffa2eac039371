"""Trees: nested lists, tuples and dicts with arrays and other values as leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot._native import array

__all__ = ["arrays_in", "tree_leaves", "tree_map"]


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order: lists and tuples by position, dicts by insertion."""
    leaves: list[Any] = []
    try:
        _gather(tree, leaves)
    except RecursionError:
        raise ValueError(
            "[tree] the tree contains itself, or is nested deeper than Python can follow."
        ) from None
    return leaves


def _gather(tree: Any, leaves: list[Any]) -> None:
    if isinstance(tree, (list, tuple)):
        for item in tree:
            _gather(item, leaves)
    elif isinstance(tree, dict):
        for item in tree.values():
            _gather(item, leaves)
    else:
        leaves.append(tree)


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
