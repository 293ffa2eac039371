"""Descriptions: the arguments of a call as text, and what changed between two calls.

Only calls that miss the cache need them, so nothing here has to be fast.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from ingot._native import array
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.structure import (
    ARGUMENT,
    BOUND,
    CAPTURED,
    INSIDE,
    RECEIVER,
    Contents,
    Name,
    short_text,
)
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.shape import shape_text

__all__ = [
    "ArrayLeaf",
    "Description",
    "contents_of",
    "describe",
    "difference",
    "foreign_argument",
]

CAPTURED_PREFIX = "captured "  # of the names of captured arrays
MAX_CHANGES_NAMED = 4  # in one reason; the others are counted


@dataclass(frozen=True)
class ArrayLeaf:
    """The properties of an input array that belong to a signature."""

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{shape_text(self.shape)}"


Description = dict[str, ArrayLeaf | str]  # parts of a signature by name


def contents_of(call: Call) -> Contents:
    """The leaves of the arguments, of captured inputs and of what the function is bound to, by
    name.
    """
    contents = Contents()
    names = _parameter_names(call.function)
    for position, value in enumerate(call.args):
        name = Name(names[position] if position < len(names) else str(position))
        contents.add(value, name, RECEIVER if call.has_receiver and position == 0 else ARGUMENT)
    for keyword, value in call.kwargs.items():
        contents.add(value, Name(keyword), ARGUMENT)
    if call.inputs is not None:
        contents.add(call.inputs, Name("inputs", prefix=CAPTURED_PREFIX), CAPTURED)
    if call.bound is not None:
        _add_bound(contents, call.bound)
    return contents


def _add_bound(contents: Contents, bound: Any) -> None:
    if isinstance(bound, MethodType):
        receiver = next(iter(_parameter_names(bound.__func__)), "self")
        contents.add(bound.__func__, Name("function"), BOUND)
        contents.add(bound.__self__, Name(receiver), BOUND)
        return
    contents.add(bound, Name("function" if isinstance(bound, partial) else "self"), BOUND)


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    """The names of the positional parameters."""
    if type(function) is FunctionType and not function.__dict__:  # as `inspect` finds, but quickly
        code = function.__code__
        return list(code.co_varnames[: code.co_argcount])
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in positional]


def foreign_argument(call: Call) -> ValueError:
    """The error for arguments that are not trees of arrays and constants."""
    refused = contents_of(call).refused
    if not refused:
        return ValueError("[compile] an argument changed while it was read.")
    name, relation, value = refused[0]
    if isinstance(value, Iterator):
        way_out = "it is used up by the first call, so pass a list of its items"
    elif isinstance(value, (set, bytearray)):
        way_out = f"pass a {'frozenset or a list' if isinstance(value, set) else 'bytes object'}"
    else:
        way_out = (
            "a change in it would go unnoticed, so pass its arrays and numbers, make it a "
            "dataclass or an nn.Module, or close over it"
        )
    return ValueError(
        f"[compile] arguments are trees of arrays and constants, and {name}, which {relation} a "
        f"{type(value).__name__}, is neither: {way_out}."
    )


def describe(call: Call, contents: Contents, circumstances: dict[str, str]) -> Description:
    """The parts of a signature: shapes and dtypes or values of leaves, and `circumstances`."""
    described: Description = {}
    for name, leaf, _ in contents.arrays:
        described[str(name)] = _described(leaf)
    for other, constant in contents.constants:
        described[str(other)] = short_text(constant)
    for name, item in contents.objects:
        described[f"the type of {name.short}"] = type(item).__qualname__
    if call.outputs is not None and call.outputs is not call.inputs:
        outputs = Contents()
        outputs.add(call.outputs, Name("outputs", prefix=CAPTURED_PREFIX), INSIDE)
        described |= {str(name): "an array" for name, _, _ in outputs.arrays}
        described |= {str(name): short_text(leaf) for name, leaf in outputs.constants}
    return described | circumstances


def _described(leaf: array) -> ArrayLeaf:
    return ArrayLeaf(leaf.dtype.name, leaf.shape)


def difference(before: Sequence[Description], now: Description) -> str:
    """How `now` differs from the most similar signature in `before`, the first if there are
    several.
    """
    if not before:
        return "the first call"
    nearest = min((_changes(old, now) for old in before), key=len)
    if len(nearest) > MAX_CHANGES_NAMED + 1:
        # The first step of an optimizer adds state for each parameter of a model. What the caller
        # passed is listed before that.
        nearest.sort(key=lambda change: change.startswith(CAPTURED_PREFIX))
        left_out = len(nearest) - MAX_CHANGES_NAMED
        nearest[MAX_CHANGES_NAMED:] = [f"and {left_out} more changes"]
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
