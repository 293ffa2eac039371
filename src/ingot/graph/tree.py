"""Trees: nested lists, tuples and dicts with arrays and other values as leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import array, leaves, replace_leaves, tuple_like

__all__ = ["arrays_in", "sequence_like", "tree_leaves", "tree_map"]


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves in order: lists and tuples by position, dicts in insertion order."""
    return leaves(tree)


def arrays_in(tree: Any) -> list[array]:
    """The leaves that are arrays."""
    return [leaf for leaf in leaves(tree) if isinstance(leaf, array)]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of the same structure with `function(leaf)` in place of each leaf."""
    return replace_leaves(tree, [function(leaf) for leaf in leaves(tree)], False)


def sequence_like(model: list[Any] | tuple[Any, ...], items: Sequence[Any]) -> Any:
    """`items` as a list or tuple of the type of `model`, including a tuple's attributes."""
    return tuple_like(model, items) if isinstance(model, tuple) else type(model)(items)
