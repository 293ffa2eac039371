"""Templates: trees with holes for arrays, such as the result of a function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingot._native import array, replace_leaves
from ingot.graph.dimension import Dimension, resolve
from ingot.graph.tree import tree_leaves

__all__ = ["Template"]


class Template:
    """A tree without its arrays. Other leaves are constants, or lengths that depend on shapes."""

    def __init__(self, tree: Any, leaves: list[Any], positions: list[int]) -> None:
        self._tree = tree  # with None for each leaf
        self._leaves = leaves  # with None for each array
        self._positions = positions  # of the arrays among the leaves
        self.has_lengths = any(type(leaf) is Dimension for leaf in leaves)

    @classmethod
    def of(cls, tree: Any) -> Template:
        """The template of a tree; it does not keep the arrays alive."""
        leaves = tree_leaves(tree)
        positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, array)]
        for position in positions:
            leaves[position] = None
        return cls(
            _with_plain_keys(replace_leaves(tree, [None] * len(leaves), False)), leaves, positions
        )

    @property
    def constants(self) -> list[Any]:
        """The leaves that are not arrays."""
        return [leaf for leaf in self._leaves if leaf is not None]

    @property
    def is_array(self) -> bool:
        """Whether the tree is a single array."""
        return self._tree is None and len(self._positions) == 1

    def filled(self, arrays: Sequence[array]) -> Any:
        """The tree with these arrays, of which there may be more than holes."""
        if self.is_array:
            return arrays[0]
        leaves = self._leaves.copy()
        for position, value in zip(self._positions, arrays, strict=False):
            leaves[position] = value
        return replace_leaves(self._tree, leaves, False)

    def resolved(self, values: Sequence[Any]) -> Template:
        """The template with lengths for dimensions."""
        if not self.has_lengths:
            return self
        return Template(
            self._tree, [resolve(leaf, values) for leaf in self._leaves], self._positions
        )


def _with_plain_keys(tree: Any) -> Any:
    """The tree with numbers for dimensions that are keys of dicts, which are guarded."""
    if isinstance(tree, dict):
        if any(type(key) is Dimension for key in tree):
            items = {
                key.value if type(key) is Dimension else key: value for key, value in tree.items()
            }
            tree.clear()
            tree.update(items)
        for value in tree.values():
            _with_plain_keys(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            _with_plain_keys(value)
    return tree
