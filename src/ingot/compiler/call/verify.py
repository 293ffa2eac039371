"""Verification: compares a compiled call with the uncompiled function."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import array
from ingot.graph.dtype import bfloat16, float16, is_inexact
from ingot.graph.shape import shape_text
from ingot.graph.tree import tree_leaves

__all__ = ["VerificationError", "compare", "flat_values"]


class VerificationError(RuntimeError):
    """A compiled function did not compute what the function computes."""


def flat_values(tree: Any) -> list[Any]:
    """The leaves of a tree with arrays evaluated, so that later changes of their handles do not
    matter.
    """
    return [
        (leaf.dtype, leaf._data) if isinstance(leaf, array) else leaf for leaf in tree_leaves(tree)
    ]


def compare(name: str, expected: list[Any], found: list[Any]) -> None:
    """VerificationError unless all leaves agree up to rounding."""
    if len(expected) != len(found):
        raise VerificationError(
            f"[compile] {name} gives {len(expected)} results uncompiled and {len(found)} compiled."
        )
    for position, (before, after) in enumerate(zip(expected, found, strict=True)):
        problem = _difference(before, after)
        if problem:
            raise VerificationError(f"[compile] result {position} of {name} differs: {problem}.")


def _difference(before: Any, after: Any) -> str:
    if not isinstance(before, tuple) or not isinstance(after, tuple):
        return (
            ""
            if before is after or before == after
            else f"{before!r} uncompiled, {after!r} compiled"
        )
    (dtype, x), (other_dtype, y) = before, after
    if dtype is not other_dtype:
        return f"dtype {dtype.name} uncompiled, {other_dtype.name} compiled"
    if x.shape != y.shape:
        return f"shape {shape_text(x.shape)} uncompiled, {shape_text(y.shape)} compiled"
    if not is_inexact(dtype):
        return (
            ""
            if np.array_equal(x, y)
            else f"{np.count_nonzero(x != y)} of {x.size} elements are not equal"
        )
    tolerance = {float16: 1e-2, bfloat16: 5e-2}.get(dtype, 1e-4)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    a, b = x.astype(wide), y.astype(wide)
    with np.errstate(all="ignore"):
        close = np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        if close.all():
            return ""
        worst = np.fmax.reduce(np.abs(a - b)[~close])
    return f"{np.count_nonzero(~close)} of {x.size} elements are off, by up to {worst:.3g}"
