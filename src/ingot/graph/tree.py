"""Trees: nested lists, tuples and dicts with arrays and other values as leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot._native import array, leaves, replace_leaves

__all__ = ["arrays_in", "tree_leaves", "tree_map"]


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order: lists and tuples by position, dicts by insertion."""
    return leaves(tree)


def arrays_in(tree: Any) -> list[array]:
    """The leaves that are arrays."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, array)]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same structure with `function(leaf)` in place of each leaf."""
    return replace_leaves(tree, [function(leaf) for leaf in leaves(tree)], False)
