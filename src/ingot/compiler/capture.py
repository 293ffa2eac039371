"""Captured state: containers that a compiled function reads and updates besides its arguments.

While a function is traced, the handles of the arrays that it may read are pointed at placeholders, so that they are followed however
the function reaches them. Afterwards everything is put back, and what the function changed is kept as a recipe: which places of the
containers get which outputs. Replaying the recipe on later calls does to the containers what the function would have done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ingot._native import Node, array

__all__ = ["Recipe", "Snapshot"]

Path = tuple[Any, ...]


def _walk(tree: Any, path: Path, visit: Callable[[Any, Path], None]) -> None:
    visit(tree, path)
    if isinstance(tree, dict):
        for key, value in tree.items():
            _walk(value, (*path, key), visit)
    elif isinstance(tree, (list, tuple)):
        for position, value in enumerate(tree):
            _walk(value, (*path, position), visit)


class Snapshot:
    """The containers as they were before a trace: their contents, and the node of every array in them."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        self._places: dict[int, Path] = {}
        self._contents: list[tuple[Any, Any]] = []
        self.nodes: dict[int, tuple[array, Node]] = {}
        _walk(tree, (), self._remember)

    def _remember(self, item: Any, path: Path) -> None:
        if id(item) in self._places:
            return
        self._places[id(item)] = path
        if isinstance(item, array):
            self.nodes[id(item)] = (item, item._node)
        elif isinstance(item, dict):
            self._contents.append((item, dict(item)))
        elif isinstance(item, (list, tuple)):
            self._contents.append((item, list(item)))

    def place_of(self, item: Any) -> Path | None:
        """Where an object was before the trace; None if it was not there."""
        return self._places.get(id(item))

    def contents_changed(self) -> bool:
        """Whether some container holds other objects than before."""
        return any(not _same_objects(container, contents) for container, contents in self._contents)

    def restore(self) -> None:
        """Puts everything back."""
        for handle, node in self.nodes.values():
            handle._node = node
        for container, contents in self._contents:
            _set_contents(container, contents)


def _same_objects(container: Any, contents: Any) -> bool:
    if len(container) != len(contents):
        return False
    if isinstance(container, dict):
        return all(
            old_key == key and old is new
            for (old_key, old), (key, new) in zip(contents.items(), container.items(), strict=True)
        )
    return all(old is new for old, new in zip(contents, container, strict=True))


def _set_contents(container: Any, contents: Any) -> None:
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, contents)
    elif isinstance(container, list):
        container[:] = contents


@dataclass(frozen=True)
class _Before:
    """The object that was at `path` before the call; a container then gets `children`."""

    path: Path
    children: Any = None


@dataclass(frozen=True)
class _Updated:
    """The array that was at `path`, pointed at an output."""

    path: Path
    output: int


@dataclass(frozen=True)
class _Output:
    """A new array: an output."""

    output: int


@dataclass(frozen=True)
class _New:
    """A new container, or an object that is no array."""

    kind: Any
    children: Any


class Recipe:
    """What a function does to captured containers, in terms of the outputs of its tape."""

    def __init__(
        self, snapshot: Snapshot, placeholders: dict[int, Node], outputs: list[array]
    ) -> None:
        """Reads the containers after a trace; arrays that the function put there are added to `outputs`."""
        self._snapshot = snapshot
        self._placeholders = placeholders
        self._outputs = outputs
        self.changes = snapshot.contents_changed()
        self._root = self._read(snapshot.tree)
        del self._snapshot, self._placeholders, self._outputs

    def _read(self, item: Any) -> Any:
        path = self._snapshot.place_of(item)
        if isinstance(item, array):
            return self._read_array(item, path)
        if isinstance(item, dict):
            children: Any = {key: self._read(value) for key, value in item.items()}
        elif isinstance(item, (list, tuple)):
            children = [self._read(value) for value in item]
        else:
            return _New(None, item)
        if path is None:
            return _New(type(item), children)
        return _Before(path, children)

    def _read_array(self, item: array, path: Path | None) -> Any:
        if path is None:
            self._outputs.append(item)
            return _Output(len(self._outputs) - 1)
        before = self._placeholders.get(id(item), self._snapshot.nodes[id(item)][1])
        if item._node is before:
            return _Before(path)
        self.changes = True
        # A handle of its own: the real one is about to be put back.
        moved = array.__new__(array, item)
        self._outputs.append(moved)
        return _Updated(path, len(self._outputs) - 1)

    def replay(self, tree: Any, outputs: list[array]) -> None:
        """Does to `tree`, which has the structure that the trace began with, what the function did."""
        before: dict[
            Path, Any
        ] = {}  # containers change under way, so what was where is looked up first
        _walk(tree, (), lambda item, path: before.__setitem__(path, item))
        self._build(self._root, before, outputs)

    def _build(self, recipe: Any, before: dict[Path, Any], outputs: list[array]) -> Any:
        if type(recipe) is _Output:
            return outputs[recipe.output]
        if type(recipe) is _Updated:
            handle = before[recipe.path]
            handle._node = outputs[recipe.output]._node
            return handle
        if type(recipe) is _New:
            if recipe.kind is None:
                return recipe.children
            children = self._build_children(recipe.children, before, outputs)
            return children if recipe.kind in (list, dict) else recipe.kind(children)
        item = before[recipe.path]
        if recipe.children is not None:
            _set_contents(item, self._build_children(recipe.children, before, outputs))
        return item

    def _build_children(self, children: Any, before: dict[Path, Any], outputs: list[array]) -> Any:
        if isinstance(children, dict):
            return {key: self._build(child, before, outputs) for key, child in children.items()}
        return [self._build(child, before, outputs) for child in children]
