"""Captured state: containers that a compiled function reads and updates besides its arguments.

While a function is traced, the handles of the arrays that it may read are pointed at placeholders,
so that they are followed however the function reaches them. Afterwards everything is put back, and
what the function changed is kept as a recipe: which places of the containers get which outputs.
Replaying the recipe on later calls does to the containers what the function would have done.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingot._native import Node, array, tuple_like, wrap
from ingot.graph.dimension import Dimension, resolve

__all__ = ["Recipe", "Snapshot"]

Path = tuple[Any, ...]


class Snapshot:
    """Containers as they were: their contents, and the node of every array in them."""

    def __init__(self, tree: Any) -> None:
        self._paths: dict[int, Path] = {}
        self.contents: list[tuple[Any, Any, Path]] = []
        self.nodes: list[tuple[array, Node, Path]] = []
        self._remember(tree, ())

    def _remember(self, item: Any, path: Path) -> None:
        if id(item) in self._paths:
            return
        if isinstance(item, array):
            self._paths[id(item)] = path
            self.nodes.append((item, item._node, path))
            return
        if not isinstance(item, (dict, list, tuple)):
            return
        self._paths[id(item)] = path
        if isinstance(item, dict):
            pairs = list(item.items())
            self.contents.append((item, dict(pairs), path))
        else:
            pairs = list(enumerate(item))
            self.contents.append((item, [value for _, value in pairs], path))
        for key, value in pairs:
            self._remember(value, (*path, key))

    def path_of(self, item: Any) -> Path | None:
        """Where an array or a container was; None if it was not there."""
        return self._paths.get(id(item))

    def holds(self, container: Any, root: int) -> bool:
        """Whether a container is in the item of the tree with that number."""
        path = self._paths.get(id(container))
        return path is not None and path[0] == root

    def restore(self) -> None:
        """Puts everything back."""
        for handle, node, _ in self.nodes:
            if handle._node is not node:
                handle._node = node
        for container, contents, _ in self.contents:
            if not _same_objects(container, contents):
                _set_contents(container, contents)


def _same_objects(container: Any, contents: Any) -> bool:
    if len(container) != len(contents):
        return False
    if isinstance(container, dict):
        return all(
            old_key is key and old is new
            for (old_key, old), (key, new) in zip(contents.items(), container.items(), strict=True)
        )
    return all(old is new for old, new in zip(contents, container, strict=True))


def _set_contents(container: Any, contents: Any) -> None:
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, contents)
    else:
        list.__setitem__(container, slice(None), contents)


# What a place holds after the call, in terms of what was there before and of outputs.


@dataclass(frozen=True)
class _Before:
    """The array or container that was at `path` before the call."""

    path: Path


@dataclass(frozen=True)
class _Output:
    """A new array: an output."""

    output: int


@dataclass(frozen=True)
class _Constant:
    """An object that is neither array nor container."""

    value: Any


@dataclass(frozen=True)
class _New:
    """A new container: like a tuple without its items, or an empty dict or list."""

    model: Any
    children: Any

    def filled(self, children: Any) -> Any:
        """A container with these children."""
        if isinstance(self.model, tuple):
            return tuple_like(self.model, children)
        if type(self.model) in (list, dict):
            return children
        made = copy.copy(self.model)
        _set_contents(made, children)
        return made


class Recipe:
    """What a function does to captured containers."""

    def __init__(
        self, snapshot: Snapshot, placeholders: dict[int, Node], outputs: list[array]
    ) -> None:
        """Reads the containers after a trace, and adds arrays that are new there to `outputs`.

        Args:
            snapshot: The containers before the trace.
            placeholders: What the handles of captured inputs were pointed at, by their identities.
            outputs: The outputs of the trace so far.
        """
        # (path of the handle, output that it is pointed at)
        self._updated: list[tuple[Path, int]] = []
        # (path of the container, its new contents)
        self._changed: list[tuple[Path, Any]] = []
        self._used: set[Path] = set()
        for handle, node, path in snapshot.nodes:
            if handle._node is not placeholders.get(id(handle), node):
                self._updated.append((path, len(outputs)))
                outputs.append(wrap(handle))  # the handle itself is about to be put back
        for container, contents, path in snapshot.contents:
            if not _same_objects(container, contents):
                self._changed.append((path, self._read_children(container, snapshot, outputs)))
        self._used.update(path for path, _ in (*self._updated, *self._changed))

    @property
    def changes(self) -> bool:
        """Whether there is anything to do."""
        return bool(self._updated or self._changed)

    def _read(self, item: Any, snapshot: Snapshot, outputs: list[array]) -> Any:
        path = snapshot.path_of(item)
        if path is not None:
            self._used.add(path)
            return _Before(path)
        if isinstance(item, array):
            outputs.append(item)
            return _Output(len(outputs) - 1)
        if not isinstance(item, (dict, list, tuple)):
            return _Constant(item)
        children = self._read_children(item, snapshot, outputs)
        if isinstance(item, tuple):
            return _New(tuple_like(item, [None] * len(item)), children)
        empty = copy.copy(item)
        _set_contents(empty, {} if isinstance(item, dict) else [])
        return _New(empty, children)

    def _read_children(self, container: Any, snapshot: Snapshot, outputs: list[array]) -> Any:
        if isinstance(container, dict):
            return {
                key.value if type(key) is Dimension else key: self._read(value, snapshot, outputs)
                for key, value in container.items()
            }
        return [self._read(value, snapshot, outputs) for value in container]

    def replay(self, tree: Any, outputs: Sequence[array], values: Sequence[Any]) -> None:
        """Does to `tree`, which has the structure that the trace began with, what the function did.

        Args:
            tree: The captured containers.
            outputs: The outputs of this call.
            values: What the trace's dimensions are for this call.
        """
        # What was where is looked up first: containers change under way.
        before = {path: _at(tree, path) for path in self._used}
        for path, output in self._updated:
            before[path]._node = outputs[output]._node
        for path, children in self._changed:
            _set_contents(before[path], _built_children(children, before, outputs, values))


def _at(tree: Any, path: Path) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _built(recipe: Any, before: dict[Path, Any], outputs: Sequence[array], values: Any) -> Any:
    if type(recipe) is _Output:
        return outputs[recipe.output]
    if type(recipe) is _Before:
        return before[recipe.path]
    if type(recipe) is _Constant:
        return resolve(recipe.value, values)
    return recipe.filled(_built_children(recipe.children, before, outputs, values))


def _built_children(
    children: Any, before: dict[Path, Any], outputs: Sequence[array], values: Any
) -> Any:
    if isinstance(children, dict):
        return {key: _built(child, before, outputs, values) for key, child in children.items()}
    return [_built(child, before, outputs, values) for child in children]
