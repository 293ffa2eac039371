"""Mutation: containers and objects that a compiled function changes, captured or passed to it.

During tracing, the handles of the arrays in captured containers and in objects refer to
placeholders, so that the arrays are traced however the function reaches them; containers that are
arguments are copied. Afterwards everything is restored, and the changes are recorded as a recipe:
which items and attributes get which outputs. Replaying the recipe on later calls changes their
containers and objects as the function would have.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from types import MethodType
from typing import Any

from ingot import _native
from ingot._native import Node, array, tuple_like, wrap
from ingot.compiler.trace.structure import (
    Attribute,
    Kind,
    Path,
    attributes_of,
    children,
    item_at,
    items_of,
    kind,
)
from ingot.graph.dimension import Dimension, resolve
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Recipe", "Snapshot", "is_plain"]


class Snapshot:
    """A record of containers and objects: their contents, and the node of every array in them."""

    def __init__(self, roots: list[Any], values: Sequence[int] = ()) -> None:
        """Looks at the trees `roots`.

        Args:
            roots: The trees.
            values: The numbers of roots whose arrays belong to the caller: what is done to such an
                array itself stays inside the function, unless it is in a container that can
                change.
        """
        self._paths: dict[int, Path] = {}
        self._kept: list[Any] = []  # keeps them alive, so that their ids stay unique
        self.items: list[tuple[Any, Any, Path]] = []
        self.attributes: list[tuple[Any, dict[str, Any], Path]] = []
        self.nodes: list[tuple[array, Node, Path]] = []
        self.own: set[int] = set()  # arrays that belong to the caller
        for number, root in enumerate(roots):
            self._remember(root, (number,), number in values)

    def _remember(self, item: Any, path: Path, is_own: bool) -> None:
        found = kind(item)
        if not is_own:
            self.own.discard(id(item))  # changes are visible there as well
        if id(item) in self._paths or found is Kind.CONSTANT:
            return
        self._paths[id(item)] = path
        self._kept.append(item)
        if found is Kind.ARRAY:
            self.nodes.append((item, item._node, path))
            if is_own:
                self.own.add(id(item))
            return
        if found in (Kind.SEQUENCE, Kind.DICT, Kind.SET):
            self.items.append((item, copy.copy(_items(item)), path))
            is_own = is_own and isinstance(item, tuple)
        if _native.has_attributes(item):
            attributes = attributes_of(item)
            self.attributes.append((item, attributes, path))
            for name, value in attributes.items():
                self._remember(value, (*path, Attribute(name)), False)
        for step, child in children(item):
            self._remember(child, (*path, step), is_own)

    def path_of(self, item: Any) -> Path | None:
        """The path of an array, container or object; None if it is not in the snapshot."""
        return self._paths.get(id(item))

    def holds(self, container: Any, root: int) -> bool:
        """Whether a container is in the root with that number."""
        path = self._paths.get(id(container))
        return path is not None and path[0] == root

    def restore(self) -> None:
        """Restores everything."""
        for handle, node, _ in self.nodes:
            if handle._node is not node:
                handle._node = node
        for container, contents, _ in self.items:
            if not _same_objects(_items(container), contents):
                _set_items(container, contents)
        for item, attributes, _ in self.attributes:
            changes = _changed_attributes(item, attributes)
            _set_attributes(item, {name: attributes.get(name, _GONE) for name in changes})


def _items(container: Any) -> Any:
    """The items as a built-in dict, list or set."""
    if isinstance(container, dict):
        return dict(items_of(container))
    return set(container) if isinstance(container, set) else list(container)


def _same_objects(now: Any, before: Any) -> bool:
    if isinstance(before, set):
        return bool(now == before)
    if len(now) != len(before):
        return False
    if isinstance(before, dict):
        return all(
            old_key is key and old is new
            for (old_key, old), (key, new) in zip(before.items(), now.items(), strict=True)
        )
    return all(old is new for old, new in zip(before, now, strict=True))


def _set_items(container: Any, contents: Any) -> None:
    if isinstance(container, OrderedDict):
        OrderedDict.clear(container)
        for key, value in contents.items():
            OrderedDict.__setitem__(container, key, value)
    elif isinstance(container, dict):
        dict.clear(container)
        dict.update(container, contents)
    elif isinstance(container, set):
        container.clear()
        container.update(contents)
    else:
        list.__setitem__(container, slice(None), contents)


_GONE = object()


def _changed_attributes(item: Any, before: dict[str, Any]) -> list[str]:
    now = attributes_of(item)
    return [
        name for name in {**before, **now} if now.get(name, _GONE) is not before.get(name, _GONE)
    ]


def _set_attributes(item: Any, values: dict[str, Any]) -> None:
    """Sets attributes bypassing the class's `__setattr__`, and deletes those that are gone."""
    own = _native.instance_dict(item)
    for name, value in values.items():
        is_slot = own is None or hasattr(getattr(type(item), name, None), "__set__")
        if is_slot and name not in (own or ()):
            if value is _GONE:
                object.__delattr__(item, name)
            else:
                object.__setattr__(item, name, value)
        elif value is _GONE:
            own.pop(name, None)  # type: ignore[union-attr]
        else:
            own[name] = value  # type: ignore[index]


# The state after the call, in terms of the state before it and of outputs.


@dataclass(frozen=True)
class _Before:
    """The array, container or object that was at `path` before the call."""

    path: Path


@dataclass(frozen=True)
class _Output:
    """A new array: an output."""

    output: int


@dataclass(frozen=True)
class _Constant:
    """Neither array nor container nor object; or a deleted attribute."""

    value: Any


@dataclass(eq=False)
class _New:
    """A new container or object, which may occur at several positions."""

    model: Any  # an empty one of its kind; the type of what has attributes
    items: Any = None
    attributes: dict[str, Any] | None = None


def is_plain(tree: Any, snapshot: Snapshot) -> bool:
    """Whether a tree holds only arrays, constants and new containers of them."""
    if kind(tree) in (Kind.SEQUENCE, Kind.DICT):
        if _native.has_attributes(tree) or snapshot.path_of(tree) is not None:
            return False
        return all(is_plain(child, snapshot) for _, child in children(tree))
    return kind(tree) not in _NEW_KINDS and (
        isinstance(tree, array) or snapshot.path_of(tree) is None
    )


class Recipe:
    """The changes that a function makes to containers and objects, and its result if that holds
    any.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        placeholders: dict[int, Node],
        outputs: list[array],
        result: Any = None,
    ) -> None:
        """Reads the containers after a trace, and adds arrays that are new there to `outputs`.

        Args:
            snapshot: The containers before the trace.
            placeholders: What handles were pointed at, by their identities.
            outputs: The outputs of the trace so far.
            result: What the function returned, if that is to be built from this recipe.
        """
        self._snapshot: Snapshot | None = snapshot
        self._outputs = outputs
        self._new: dict[int, Any] = {}  # recipes of what is new, by id
        self._used: set[Path] = set()
        self.result = self._read(result)
        # (path of the handle, output that it refers to)
        self._updated: list[tuple[Path, int]] = []
        for handle, node, path in snapshot.nodes:
            if id(handle) in snapshot.own or handle._node is placeholders.get(id(handle), node):
                continue
            self._updated.append((path, len(outputs)))
            outputs.append(wrap(handle))
        # (path of the container, its new items)
        self._changed: list[tuple[Path, Any]] = [
            (path, self._read_items(container))
            for container, contents, path in snapshot.items
            if not _same_objects(_items(container), contents)
        ]
        # (path of the object, its new attributes)
        self._attributes: list[tuple[Path, dict[str, Any]]] = []
        for item, attributes, path in snapshot.attributes:
            changes = _changed_attributes(item, attributes)
            if changes:
                self._attributes.append((path, self._read_attributes(item, changes)))
        changed = (*self._updated, *self._changed, *self._attributes)
        self._used.update(path for path, _ in changed)
        self.changes = bool(changed)
        self._new.clear()
        self._snapshot = None
        self._outputs = []

    def _read(self, item: Any) -> Any:
        assert self._snapshot is not None
        path = self._snapshot.path_of(item)
        if path is not None and id(item) not in self._snapshot.own:
            self._used.add(path)
            return _Before(path)
        if id(item) in self._new:
            return self._new[id(item)][1]
        if isinstance(item, array):
            self._outputs.append(wrap(item))  # the handle itself is about to be restored
            made: Any = _Output(len(self._outputs) - 1)
            self._new[id(item)] = item, made
            return made
        if kind(item) in _NEW_KINDS:
            return self._read_new(item)
        return _Constant(item)

    def _read_new(self, item: Any) -> Any:
        if isinstance(item, tuple):
            return _New(tuple_like(item, [None] * len(item)), self._read_items(item))
        if isinstance(item, MethodType):
            return _New(MethodType, self._read_items([item.__func__, item.__self__]))
        if isinstance(item, partial):
            return _New(type(item), self._read_items([item.func, item.args, item.keywords]))
        made = _New(_empty(item))
        self._new[id(item)] = item, made  # first: what is new may contain itself
        if isinstance(item, (dict, list)):
            made.items = self._read_items(item)
        if _native.has_attributes(item):
            made.attributes = self._read_attributes(item, list(attributes_of(item)))
        return made

    def _read_items(self, container: Any) -> Any:
        if isinstance(container, dict):
            return {
                key.value if type(key) is Dimension else key: self._read(value)
                for key, value in items_of(container)
            }
        return [self._read(value) for value in container]

    def _read_attributes(self, item: Any, names: list[str]) -> dict[str, Any]:
        now = attributes_of(item)
        return {name: self._read(now[name]) if name in now else _Constant(_GONE) for name in names}

    def replay(self, roots: list[Any], outputs: Sequence[array], values: Sequence[Any]) -> Any:
        """Does to `roots`, which have the structure that the trace began with, what the function
        did; gives the result.

        Args:
            roots: The captured containers and the arguments.
            outputs: The outputs of this call.
            values: What the trace's dimensions are for this call.
        """
        # Look everything up first, because containers change during the replay.
        builder = _Builder({path: item_at(roots, path) for path in self._used}, outputs, values)
        result = builder.built(self.result)
        changed = [(path, builder.built_items(items)) for path, items in self._changed]
        attributes = [(path, builder.built_items(items)) for path, items in self._attributes]
        for path, output in self._updated:
            builder.before[path]._node = outputs[output]._node
        for path, items in changed:
            _set_items(builder.before[path], items)
        for path, items in attributes:
            _set_attributes(builder.before[path], items)
        return result


_NEW_KINDS = (Kind.SEQUENCE, Kind.DICT, Kind.OBJECT, Kind.SET, Kind.METHOD, Kind.PARTIAL)


def _empty(item: Any) -> Any:
    """The model for new ones: a copy without contents."""
    if _native.has_attributes(item):
        return type(item)
    empty = copy.copy(item)
    if not isinstance(item, set):
        _set_items(empty, {} if isinstance(item, dict) else [])
    return empty


@dataclass
class _Builder:
    """Executes recipes for one call."""

    before: dict[Path, Any]
    outputs: Sequence[array]
    values: Sequence[Any]

    def __post_init__(self) -> None:
        self._made: dict[int, Any] = {}

    def built(self, recipe: Any) -> Any:
        if type(recipe) is _Output:
            return self.outputs[recipe.output]
        if type(recipe) is _Before:
            return self.before[recipe.path]
        if type(recipe) is _Constant:
            return resolve(recipe.value, self.values)
        if id(recipe) not in self._made:
            self._make(recipe)
        return self._made[id(recipe)]

    def _make(self, recipe: _New) -> None:
        model = recipe.model
        if isinstance(model, type) and issubclass(model, (MethodType, partial)):
            function, *rest = self.built_items(recipe.items)
            is_method = model is MethodType
            made = model(function, rest[0]) if is_method else model(function, *rest[0], **rest[1])
            self._made[id(recipe)] = made
        elif isinstance(model, tuple):
            self._made[id(recipe)] = tuple_like(model, self.built_items(recipe.items))
        else:
            made = _instance(model) if isinstance(model, type) else copy.copy(model)
            self._made[id(recipe)] = made
            if recipe.items is not None:
                _set_items(made, self.built_items(recipe.items))
        if recipe.attributes is not None:
            _set_attributes(made, self.built_items(recipe.attributes))

    def built_items(self, items: Any) -> Any:
        if isinstance(items, dict):
            return {key: self.built(item) for key, item in items.items()}
        return [self.built(item) for item in items]


def _instance(cls: type) -> Any:
    """An instance whose `__init__` has not run."""
    if issubclass(cls, dict):
        return dict.__new__(cls)
    return list.__new__(cls) if issubclass(cls, list) else object.__new__(cls)
