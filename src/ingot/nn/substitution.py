"""Temporarily replaces the arrays of a model.

A model is a tree of dicts and lists (`nn.Module` is a dict). The functions here first find all
slots that a tree of new values names, so that an error leaves the model unchanged, then replace the
values, and restore the old ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any

import ingot.core as mx
from ingot.runtime.uninterrupted import uninterrupted

__all__ = [
    "Replacement",
    "call_lent",
    "call_unchanged",
    "module_replacements",
    "parameter_replacements",
    "replace",
]

# A dict or list of the model, a key or index in it, and the new value.
Replacement = tuple[Any, Any, Any]


def _entries(container: Any, given: Any, strict: bool, what: str) -> Iterator[tuple[Any, Any]]:
    """The keys and values of `given` for which `container` has a slot.

    With `strict`, a ValueError names what has no slot; otherwise it is skipped. `what` is the kind
    of value in that message.
    """
    if isinstance(given, dict):
        for key, value in given.items():
            if isinstance(container, dict) and key in container:
                yield key, value
            elif strict:
                raise ValueError(
                    f'[Module] there is no {what} named "{key}" to replace: '
                    f"{_contents(container)}. Use strict=False to leave out what the model does "
                    "not have."
                )
    elif isinstance(given, list):
        for position, value in enumerate(given):
            if isinstance(container, (list, tuple)) and position < len(container):
                yield position, value
            elif strict:
                raise ValueError(
                    f"[Module] there is no {what} at position {position} of a list to replace: "
                    f"{_contents(container)}. Use strict=False to leave out what the model does "
                    "not have."
                )
    elif strict:
        raise ValueError(
            f"[Module] expected a dict or a list of {what}s for {_contents(container)}, got "
            f"{type(given).__name__}."
        )


def _contents(container: Any) -> str:
    """The valid names, for messages."""
    if isinstance(container, dict):
        return f"{type(container).__name__} has {', '.join(map(str, container)) or 'nothing'}"
    if isinstance(container, (list, tuple)):
        return f"the list has {len(container)} items"
    return f"{type(container).__name__} has no children"


def parameter_replacements(container: Any, parameters: Any, strict: bool) -> Iterator[Replacement]:
    """The slots of the arrays in `container` that the tree `parameters` replaces."""
    for key, value in _entries(container, parameters, strict, "parameter"):
        present = container[key]
        if not isinstance(present, mx.array):
            yield from parameter_replacements(present, value, strict)
            continue
        if strict and not isinstance(value, mx.array):
            raise ValueError(
                f'[Module] expected an array for parameter "{key}", got {type(value).__name__}.'
            )
        yield container, key, value


def call_lent(
    model: Any, parameters: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a function while `model` has `parameters`.

    Afterwards each slot that still holds its substitute gets its own array back. Other changes to
    the model, such as running statistics, stay.
    """
    replaced = []
    with uninterrupted() as ctrl_c:
        try:
            for container, key, value in list(parameter_replacements(model, parameters, True)):
                handle = copy(value)  # `x += 1` in the model must not change the caller's array
                replaced.append((container, key, container[key], handle, handle._node))
                container[key] = handle
            return ctrl_c.let_through(function, *args, **kwargs)
        finally:
            for container, key, own, handle, node in replaced:
                if handle._node is node and _holds(container, key, handle):
                    container[key] = own


def _holds(container: Any, key: Any, value: Any) -> bool:
    if isinstance(container, dict):
        return container.get(key) is value
    return key < len(container) and container[key] is value


def call_unchanged(model: Any, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function, then undo all its changes to the model, in place or not."""
    kept: dict[int, tuple[Any, Any, dict[str, Any] | None]] = {}
    _keep(model, kept)
    handles: dict[int, mx.array] = {}
    with uninterrupted() as ctrl_c:
        try:
            for container, _, _ in kept.values():
                slots = container.items() if isinstance(container, dict) else enumerate(container)
                for key, value in list(slots):
                    if isinstance(value, mx.array):
                        # A separate handle, because `x += 1` changes the handle. Tied arrays stay
                        # tied.
                        container[key] = handles.setdefault(id(value), copy(value))
            return ctrl_c.let_through(function, *args, **kwargs)
        finally:
            for container, contents, attributes in kept.values():
                _put_back(container, contents, attributes)


def _put_back(container: Any, contents: Any, attributes: dict[str, Any] | None) -> None:
    if isinstance(container, dict):
        dict.clear(container)
        dict.update(container, contents)  # not the module's own `update`
    else:
        container[:] = contents
    if attributes is not None:
        vars(container).clear()
        vars(container).update(attributes)


def _keep(value: Any, kept: dict[int, tuple[Any, Any, dict[str, Any] | None]]) -> None:
    """Copy the contents and attributes of all dicts and lists in `value`."""
    if isinstance(value, tuple):
        children: Any = value
    elif isinstance(value, (dict, list)) and id(value) not in kept:
        attributes = dict(vars(value)) if hasattr(value, "__dict__") else None
        contents = dict(value) if isinstance(value, dict) else list(value)
        kept[id(value)] = (value, contents, attributes)
        children = value.values() if isinstance(value, dict) else value
    else:
        return
    for child in children:
        _keep(child, kept)


def module_replacements(
    container: Any, modules: Any, strict: bool, is_module: Callable[[Any], bool]
) -> Iterator[Replacement]:
    """The slots of the modules in `container` that the tree `modules` replaces."""
    for key, value in _entries(container, modules, strict, "module"):
        present = container[key]
        if is_module(present) and is_module(value):
            yield container, key, value
        elif isinstance(present, (dict, list)):
            yield from module_replacements(present, value, strict, is_module)
        elif strict and value != {}:
            raise ValueError(
                f'[Module] expected nothing for "{key}", which is not a module, got '
                f"{type(value).__name__}."
            )


def replace(replacements: Iterator[Replacement]) -> None:
    """Perform replacements once all are known to be valid."""
    for container, key, value in list(replacements):
        container[key] = value
