"""Selects values of a module and of the modules in it: the traversal of `Module.filter_and_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Filter", "is_no_container", "selected"]

# Functions of the module that holds a value, the value's key in it, and the value.
Filter = Callable[[Any, str, Any], bool]


def is_no_container(_module: Any, _key: str, value: Any) -> bool:
    """A filter for values that are neither modules nor dicts nor lists."""
    return not isinstance(value, (dict, list))


def selected(
    module: Any,
    key: str,
    value: Any,
    filter_fn: Filter,
    map_fn: Callable[[Any], Any] | None,
    is_leaf_fn: Filter,
) -> Any:
    """The filtered contents of one value.

    Values that the filter rejects leave `{}` in lists and plain dicts.
    """
    if is_leaf_fn(module, key, value):
        return value if map_fn is None else map_fn(value)
    if module.is_module(value):
        return value.filter_and_map(filter_fn, map_fn, is_leaf_fn)
    if not isinstance(value, (dict, list)):
        raise RuntimeError(
            f"[Module] expected a module, a dict or a list at {key}, got {type(value).__name__}: "
            "is_leaf_fn must say so if it is a leaf."
        )

    def item(name: Any, child: Any) -> Any:
        path = f"{key}.{name}"
        if not filter_fn(module, path, child):
            return {}
        return selected(module, path, child, filter_fn, map_fn, is_leaf_fn)

    if isinstance(value, dict):
        return {name: item(name, child) for name, child in value.items()}
    return [item(position, child) for position, child in enumerate(value)]
