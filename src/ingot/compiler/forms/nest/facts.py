"""Properties of indices, buffers and values that the verifier of nests uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.data import (
    Apply,
    Buffer,
    Carried,
    Indices,
    Lanes,
    Splat,
    Value,
)

__all__ = ["axis_keys", "depends", "extent_keys", "is_bare", "moved"]


def is_bare(at: Affine | Value) -> TypeGuard[Affine]:
    """Whether an index is a variable on its own."""
    return isinstance(at, Affine) and not at.constant and list(at.terms.values()) == [1]


def extent_keys(lengths: Sequence[Extent]) -> list[tuple[Any, ...]]:
    return [affine(length).key() for length in lengths]


def axis_keys(buffer: Buffer, axes: Sequence[int]) -> list[tuple[Any, ...]]:
    return extent_keys([buffer.shape[axis] for axis in axes])


def moved(index: Indices, by: dict[int, int]) -> Indices:
    """An index, offset along some axes."""
    return tuple(
        at + by[axis] if axis in by and isinstance(at, Affine) else at
        for axis, at in enumerate(index)
    )


def depends(value: Value, on: Value) -> bool:
    """Whether a value depends on another."""
    stack, seen = [value], set[Value]()
    while stack:
        found = stack.pop()
        if found is on:
            return True
        if found in seen:
            continue
        seen.add(found)
        if isinstance(found, Apply):
            stack.extend(found.operands)
        elif isinstance(found, Lanes):
            stack.extend(found.values)
        elif isinstance(found, Splat):
            stack.append(found.value)
        elif isinstance(found, Carried):
            stack.append(found.start)
            if found.update is not None:
                stack.append(found.update)
    return False
