"""Detects, refuses and undoes what a traced function changes outside itself.

A body is called once, on placeholders. Placeholders that it stores in objects, containers and
variables outside would stay there without values. So every container that the function reaches
through its variables is copied, shallowly, before the call and compared after it; containers in
which traced arrays were stored get their old contents back. The same holds for arrays with values
that a body computes from those that they replace, like a step of an optimizer: it would be taken
once instead of in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from types import CellType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from ingot._native import Node, array, leaves

__all__ = ["Outside"]

MAX_CONTAINERS = 20_000  # that are watched; more would take too long

_PLAIN = frozenset((type(None), bool, int, float, complex, str, bytes))

IsTraced = Callable[[Node], bool]


class Outside:
    """The containers, variables and arrays that a function can change, as they were."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._containers: list[tuple[Any, Any]] = []  # dicts and lists, and copies of them
        self._cells: list[tuple[CellType, Any]] = []
        self._slots: list[tuple[Any, dict[str, Any]]] = []  # objects, and what is in their slots
        self._arrays: list[tuple[array, Node]] = []
        self._seen: set[int] = set()
        waiting = [function]
        while waiting and len(self._seen) < MAX_CONTAINERS:
            waiting.extend(self._noted(waiting.pop()))

    def _noted(self, item: Any) -> Iterator[Any]:
        """Notes the current contents of an object, and yields what it contains."""
        if isinstance(item, array):
            self._arrays.append((item, item._node))
            return
        if item is None or isinstance(item, (int, float, str, bytes)) or id(item) in self._seen:
            return
        self._seen.add(id(item))
        if isinstance(item, (dict, list)):
            copy: Any = dict(item) if isinstance(item, dict) else list(item)
            self._containers.append((item, copy))
            yield from _without_plain(copy.values() if isinstance(copy, dict) else copy)
        if isinstance(item, tuple):
            yield from _without_plain(item)
        elif isinstance(item, FunctionType):
            yield from self._of_function(item)
        elif isinstance(item, MethodType):
            yield from (item.__self__, item.__func__)
        elif isinstance(item, partial):
            yield from (item.func, item.args, item.keywords)
        elif not isinstance(item, (type, ModuleType)):
            if type(item).__dictoffset__:
                yield item.__dict__
            slots = _slots(item)
            if slots:
                self._slots.append((item, slots))
                yield from _without_plain(slots.values())

    def _of_function(self, function: FunctionType) -> Iterator[Any]:
        module = function.__module__
        for cell in function.__closure__ or ():
            for now in _contents(cell):
                self._cells.append((cell, now))
                yield now
        for name in function.__code__.co_names:
            found = function.__globals__.get(name)
            # other globals are functions, modules and the state of libraries
            if isinstance(found, (array, dict, list)) or type(found).__module__ == module:
                yield found

    def holds(self, is_traced: IsTraced) -> bool:
        """Whether something that the function can reach has been replaced by traced arrays."""
        return (
            any(is_traced(x._node) for x, node in self._arrays if x._node is not node)
            or any(
                now is not before and _holds(now, is_traced)
                for cell, before in self._cells
                for now in _contents(cell)
            )
            or any(
                _holds(value, is_traced)
                for container, before in self._containers
                for value in _new_values(container, before)
            )
            or any(
                _holds(value, is_traced)
                for item, before in self._slots
                for value in _new_values(_slots(item), before)
            )
        )

    def updates(self) -> Iterator[tuple[Node, array]]:
        """The nodes of arrays that were replaced, each with the array that stands there now."""
        for x, node in self._arrays:
            if x._node is not node:
                yield node, x
        pairs = [(before, now) for cell, before in self._cells for now in _contents(cell)]
        for container, before in self._containers:
            pairs += _pairs(container, before)
        for item, before in self._slots:
            pairs += _pairs(_slots(item), before)
        for before, now in pairs:
            if now is not before and isinstance(now, array) and isinstance(before, array):
                yield before._node, now

    def put_back(self, is_traced: IsTraced) -> None:
        """Restores the previous contents of everything that holds traced arrays."""
        for x, node in self._arrays:
            if x._node is not node and is_traced(x._node):
                x._node = node
        for cell, before in self._cells:
            for now in _contents(cell):
                if now is not before and _holds(now, is_traced):
                    cell.cell_contents = before
        self._put_back_slots(is_traced)
        for container, before in self._containers:
            if not any(_holds(value, is_traced) for value in _new_values(container, before)):
                continue
            if isinstance(container, list):
                list.__setitem__(container, slice(None), before)
                continue
            for key, value in list(container.items()):
                if key not in before and _holds(value, is_traced):
                    dict.__delitem__(container, key)
                elif before.get(key) is not value and _holds(value, is_traced):
                    dict.__setitem__(container, key, before[key])

    def _put_back_slots(self, is_traced: IsTraced) -> None:
        for item, before in self._slots:
            for name, value in _slots(item).items():
                if before.get(name) is value or not _holds(value, is_traced):
                    continue
                if name in before:
                    object.__setattr__(item, name, before[name])
                else:
                    object.__delattr__(item, name)


def _slots(item: Any) -> dict[str, Any]:
    """The values in the slots of an object."""
    found = {}
    for kind in type(item).__mro__:
        for name, slot in kind.__dict__.items() if "__slots__" in kind.__dict__ else ():
            if type(slot) is MemberDescriptorType:
                for value in _value(slot, item):
                    found[name] = value
    return found


def _value(slot: MemberDescriptorType, item: Any) -> tuple[Any, ...]:
    """The value of a slot, if it is set."""
    try:
        return (slot.__get__(item, type(item)),)
    except AttributeError:
        return ()


def _without_plain(values: Iterable[Any]) -> list[Any]:
    """Without numbers and strings, of which a container may have millions."""
    return [value for value in values if type(value) not in _PLAIN]


def _contents(cell: CellType) -> tuple[Any, ...]:
    """The value of a variable, if it has one."""
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _pairs(container: Any, before: Any) -> list[tuple[Any, Any]]:
    """The values that a container had and has at the same keys or indices."""
    if isinstance(container, list):
        return list(zip(before, container, strict=False))
    return [(before[key], value) for key, value in container.items() if key in before]


def _new_values(container: Any, before: Any) -> list[Any]:
    """The values of a container that are not the ones it had at the same key or index."""
    if isinstance(container, list):
        changed = [now for was, now in zip(before, container, strict=False) if was is not now]
        return [*changed, *islice(container, len(before), None)]
    missing = object()
    return [value for key, value in container.items() if before.get(key, missing) is not value]


def _holds(value: Any, is_traced: IsTraced) -> bool:
    return any(isinstance(x, array) and is_traced(x._node) for x in leaves(value))
