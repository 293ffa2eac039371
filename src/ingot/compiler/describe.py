"""Descriptions: the arguments of a call in words, and what changed between two calls.

Only calls that miss the cache need words, so nothing here has to be fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from ingot._native import array
from ingot.graph.shape import shape_text

__all__ = ["describe", "difference", "input_names"]


def _named_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[tuple[str, Any]]:
    """The arguments with the names of their parameters where those are known."""
    names: list[str] = []
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        parameters = ()  # type: ignore[assignment]
    for parameter in parameters:
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(f"`{parameter.name}`")
    named = [
        (names[position] if position < len(names) else str(position), value)
        for position, value in enumerate(args)
    ]
    return named + [(f"`{name}`", value) for name, value in kwargs.items()]


def _leaves(tree: Any, name: str) -> list[tuple[str, Any]]:
    """Every leaf of a tree with a name such as `params`["w"][0]; empty containers count as leaves."""
    if isinstance(tree, dict) and tree:
        return [leaf for key, value in tree.items() for leaf in _leaves(value, f"{name}[{key!r}]")]
    if isinstance(tree, (list, tuple)) and tree:
        return [leaf for i, value in enumerate(tree) for leaf in _leaves(value, f"{name}[{i}]")]
    return [(name, tree)]


def _all_leaves(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], captured: Any
) -> list[tuple[str, Any]]:
    leaves = [
        leaf
        for name, value in _named_arguments(function, args, kwargs)
        for leaf in _leaves(value, f"argument {name}")
    ]
    if captured is not None:
        leaves += _leaves(captured, "captured inputs")
    return leaves


def input_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], captured: Any
) -> list[str]:
    """What each input array is, in the order in which signatures list them."""
    return [
        name
        for name, leaf in _all_leaves(function, args, kwargs, captured)
        if isinstance(leaf, array)
    ]


def describe(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], captured: Any
) -> dict[str, str]:
    """What a signature is made of: for each leaf its shape and dtype, or its value."""
    return {name: _leaf_text(leaf) for name, leaf in _all_leaves(function, args, kwargs, captured)}


def _leaf_text(leaf: Any) -> str:
    if isinstance(leaf, array):
        return f"{leaf.dtype.name}{shape_text(leaf.shape)}"
    return repr(leaf)


def difference(before: Sequence[dict[str, str]], now: dict[str, str]) -> str:
    """Why `now` is not among the signatures that were compiled `before`: how it differs from the nearest one."""
    if not before:
        return "the first call"
    changes = [_changes(old, now) for old in before]
    nearest = min(changes, key=len)
    return "; ".join(nearest) if nearest else "the captured state, the stream or the mode changed"


def _changes(old: dict[str, str], new: dict[str, str]) -> list[str]:
    changes = [f"{name} is new" for name in new if name not in old]
    changes += [f"{name} is gone" for name in old if name not in new]
    for name, text in new.items():
        if name in old and old[name] != text:
            changes += _leaf_changes(name, old[name], text)
    return changes


def _leaf_changes(name: str, old: str, new: str) -> list[str]:
    old_dtype, old_shape = _split(old)
    new_dtype, new_shape = _split(new)
    if old_shape is None or new_shape is None:
        if old_shape is None and new_shape is None:
            return [f"constant {name.removeprefix('argument ')} {old} → {new}"]
        return [f"{name}: {old} → {new}"]
    changes = []
    if old_dtype != new_dtype:
        changes.append(f"{name}: dtype {old_dtype} → {new_dtype}")
    if len(old_shape) != len(new_shape):
        changes.append(f"{name}: {len(old_shape)} axes → {len(new_shape)}")
    else:
        changes += [
            f"{name}, axis {axis}: {a} → {b}"
            for axis, (a, b) in enumerate(zip(old_shape, new_shape, strict=True))
            if a != b
        ]
    return changes


def _split(text: str) -> tuple[str, list[str] | None]:
    dtype, bracket, rest = text.partition("(")
    if not bracket or not dtype.isidentifier() or not rest.endswith(")"):
        return text, None
    lengths = rest[:-1]
    return dtype, lengths.split(", ") if lengths else []
