"""Descriptions: the arguments of a call in words, and what changed between two calls.

Only calls that miss the cache need words, so nothing here has to be fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from reprlib import Repr
from typing import Any

from ingot._native import array
from ingot.graph.shape import shape_text

__all__ = ["ArrayLeaf", "Description", "describe", "difference", "input_names", "short_text"]

_texts = Repr()
_texts.maxstring = _texts.maxother = 60
short_text = _texts.repr  # of constants, which may be long

CAPTURED = "captured"  # what the names of captured arrays begin with
MOST_CHANGES_NAMED = 4  # in one reason; the others are counted


@dataclass(frozen=True)
class ArrayLeaf:
    """What matters of an array that is an input."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}"


Description = dict[str, ArrayLeaf | str]  # what each part of a signature is called, and what it is


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
    """Every leaf of a tree with a name such as `params`["w"][0]; empty containers are leaves."""
    if isinstance(tree, dict) and tree:
        return [
            leaf
            for key, value in tree.items()
            for leaf in _leaves(value, f"{name}[{short_text(key)}]")
        ]
    if isinstance(tree, (list, tuple)) and tree:
        return [leaf for i, value in enumerate(tree) for leaf in _leaves(value, f"{name}[{i}]")]
    return [(name, tree)]


def _argument_leaves(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], inputs: Any
) -> list[tuple[str, Any]]:
    leaves = [
        leaf
        for name, value in _named_arguments(function, args, kwargs)
        for leaf in _leaves(value, f"argument {name}")
    ]
    return leaves if inputs is None else leaves + _leaves(inputs, f"{CAPTURED} inputs")


def input_names(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], inputs: Any
) -> list[str]:
    """What each input array is, in the order in which signatures list them."""
    leaves = _argument_leaves(function, args, kwargs, inputs)
    return [name for name, leaf in leaves if isinstance(leaf, array)]


def describe(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    inputs: Any,
    outputs: Any,
    circumstances: dict[str, str],
) -> Description:
    """What a signature is made of: shapes and dtypes or values of leaves, and `circumstances`."""
    described: Description = {
        name: _described(leaf) for name, leaf in _argument_leaves(function, args, kwargs, inputs)
    }
    if outputs is not None and outputs is not inputs:
        for name, leaf in _leaves(outputs, f"{CAPTURED} outputs"):
            described[name] = "an array" if isinstance(leaf, array) else short_text(leaf)
    return described | circumstances


def _described(leaf: Any) -> ArrayLeaf | str:
    if isinstance(leaf, array):
        return ArrayLeaf(leaf.dtype.name, leaf.shape)
    return short_text(leaf)


def difference(before: Sequence[Description], now: Description) -> str:
    """How `now` differs from the nearest signature `before`, the first of equally near ones."""
    if not before:
        return "the first call"
    nearest = min((_changes(old, now) for old in before), key=len)
    if len(nearest) > MOST_CHANGES_NAMED + 1:
        # The first step of an optimizer adds state for each parameter of a model. What the caller
        # passed is told before that.
        nearest.sort(key=lambda change: change.startswith(CAPTURED))
        left_out = len(nearest) - MOST_CHANGES_NAMED
        nearest[MOST_CHANGES_NAMED:] = [f"and {left_out} more changes"]
    return "; ".join(nearest) if nearest else "the arguments are nested or shared in another way"


def _changes(old: Description, new: Description) -> list[str]:
    changes = [f"{name} is new" for name in new if name not in old]
    changes += [f"{name} is gone" for name in old if name not in new]
    for name, leaf in new.items():
        if name in old and old[name] != leaf:
            changes += _leaf_changes(name, old[name], leaf)
    return changes


def _leaf_changes(name: str, old: ArrayLeaf | str, new: ArrayLeaf | str) -> list[str]:
    if isinstance(old, str) and isinstance(new, str):
        constant = name.removeprefix("argument ")
        return [f"{'constant ' if constant != name else ''}{constant} {old} → {new}"]
    if isinstance(old, str) or isinstance(new, str):
        return [f"{name}: {old} → {new}"]
    changes = []
    if old.dtype != new.dtype:
        changes.append(f"{name}: dtype {old.dtype} → {new.dtype}")
    if len(old.shape) != len(new.shape):
        changes.append(f"{name}: {len(old.shape)} axes → {len(new.shape)}")
    else:
        changes += [
            f"{name}, axis {axis}: {a} → {b}"
            for axis, (a, b) in enumerate(zip(old.shape, new.shape, strict=True))
            if a != b
        ]
    return changes
