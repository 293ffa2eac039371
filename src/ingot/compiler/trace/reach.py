"""Reach: the arrays that a function can access, by the expressions that its author would write.

The search starts at the function's closure, the globals that it names, its defaults and its
receiver, and traverses containers, modules, optimizers, other objects and functions breadth first,
so that it finds the shortest of several expressions. It runs for warnings only and need not be
fast.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from ingot import _native
from ingot._native import array
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Location", "listed", "reachable"]

MAX_OBJECTS = 50_000  # visited in one search
MAX_DEPTH = 24
MAX_NAMED = 6  # locations in one warning; the others are counted

# Objects of these modules hold no user state.
_OWN_MODULES = tuple(
    f"ingot.{name}" for name in ("_native", "compiler", "core", "graph", "ops", "runtime")
)


# Traversed under names of their own.
_FUNCTIONS = (FunctionType, MethodType, partial)


@dataclass(frozen=True)
class Location:
    """The location of an array.

    Attributes:
        path: The author's expression for it, such as `model.layers[0].weight`.
        container: The outermost container on the path, as `inputs=` and `outputs=` take it, such as
            `model.state`; None if a variable holds the array, or no variable leads there.
        holder: The id of the object that holds it.
    """

    path: str
    container: str | None
    holder: int = field(compare=False)


@dataclass(frozen=True)
class _Found:
    item: Any
    path: str
    container: str | None
    is_variable: bool  # whether a variable leads there
    holder: int
    depth: int


def reachable(
    function: Callable[..., Any], others: dict[str, Any] | None = None
) -> Iterator[tuple[Location, array]]:
    """The arrays that the function can access and those in `others`, each once, with their
    locations.
    """
    seen: set[int] = set()
    waiting: deque[_Found] = deque()
    kept: list[Any] = []  # keeps temporaries alive, so that ids stay unique

    def add(found: _Found) -> None:
        if id(found.item) not in seen and found.depth <= MAX_DEPTH:
            seen.add(id(found.item))
            kept.append(found.item)
            waiting.append(found)

    add(_Found(function, "the function", None, False, 0, 0))
    for path, item in (others or {}).items():
        add(_Found(item, path, None, False, 0, 0))
    while waiting:
        found = waiting.popleft()
        if isinstance(found.item, array):
            yield Location(found.path, found.container, found.holder), found.item
            continue
        container = found.container or _declared(found)
        holder = id(found.item)
        for path, item in _children(found.item, found.path):
            if len(seen) >= MAX_OBJECTS:  # a container may have millions
                break
            if path != found.path and isinstance(found.item, _FUNCTIONS):  # a variable
                add(_Found(item, path, None, True, holder, found.depth + 1))
                continue
            around = container or (_declared_around(found) if isinstance(item, array) else None)
            add(_Found(item, path, around, found.is_variable, holder, found.depth + 1))


def listed(texts: list[str]) -> str:
    """The first of some texts, and the number of the others."""
    left_out = len(texts) - MAX_NAMED
    return ", ".join(texts[:MAX_NAMED]) + (f" and {left_out} more" if left_out > 0 else "")


def _declared(found: _Found) -> str | None:
    """The expression by which `inputs=` takes a container; None if it is not one."""
    if not found.is_variable or not isinstance(found.item, (dict, list)):
        return None
    return f"{found.path}.state" if _attribute(found.item, "state") is found.item else found.path


def _declared_around(found: _Found) -> str | None:
    """The expression by which `inputs=` takes the attributes of an object."""
    return f"vars({found.path})" if found.is_variable and hasattr(found.item, "__dict__") else None


def _of_function(function: Any) -> Iterator[tuple[str, Any]]:
    """The values that a function holds and names, by the expressions of its author."""
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue  # a variable without a value
    if not _native.is_own_code(code):
        yield from _globals_of(function)
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty:
            yield name, parameter.default


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    names = _names_in(function.__code__)
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        if not isinstance(value, ModuleType):
            yield name, value
        elif not value.__name__.startswith("ingot"):
            for attribute in sorted(names & vars(value).keys()):
                yield f"{name}.{attribute}", vars(value)[attribute]


def _names_in(code: CodeType) -> set[str]:
    """The names of globals and attributes in a function and those that it defines."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _names_in(constant)
    return names


def _children(item: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The contents of an object, by the expressions of its author."""
    if isinstance(item, FunctionType):
        yield from _of_function(item)
    elif isinstance(item, MethodType):
        yield "self", item.__self__
        yield path, item.__func__
    elif isinstance(item, partial):
        yield path, item.func
        yield from ((f"{path}.args[{i}]", value) for i, value in enumerate(item.args))
        yield from ((name, value) for name, value in item.keywords.items())
    elif isinstance(item, dict):
        yield from _in_dict(item, path)
        yield from _attributes(item, path)
    elif isinstance(item, (list, tuple, deque)):
        fields = getattr(item, "_fields", None)
        for position, value in enumerate(item):
            yield (f"{path}.{fields[position]}" if fields else f"{path}[{position}]"), value
        yield from _attributes(item, path)
    elif not isinstance(item, (ModuleType, type, str, bytes, int, float)):
        yield from _attributes(item, path)
    elif isinstance(item, type) and item.__module__ != "builtins":
        yield from ((f"{path}.{name}", value) for name, value in vars(item).items())


def _in_dict(item: dict[Any, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in list(item.items()):
        # Items of a module are its attributes.
        is_name = type(item) is not dict and isinstance(key, str) and key.isidentifier()
        if is_name and _attribute(item, key) is value:
            yield f"{path}.{key}", value
        else:
            yield f"{path}[{key!r}]", value


def _attributes(item: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The attributes of an object; of ingot's own objects only what they wrap."""
    wrapped = getattr(item, "__wrapped__", None)
    if wrapped is not None:
        yield path, wrapped
    if type(item).__module__.startswith(_OWN_MODULES):
        return
    names = [*getattr(item, "__dict__", ())]
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    for name in names:
        value = _attribute(item, name)
        if value is not None:
            public = name.lstrip("_")  # a property may expose a private attribute
            yield f"{path}.{public if _attribute(item, public) is value else name}", value


def _attribute(item: Any, name: str) -> Any:
    """An attribute, or None if it has no value; users' properties may raise anything."""
    try:
        return getattr(item, name, None)
    except Exception:
        return None
