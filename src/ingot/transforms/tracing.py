"""Tracing: how transforms follow a function's inputs through the graph that it builds.

A transform replaces the arrays it follows by fresh leaves, runs the function, and walks the graph between the leaves and
the results. While it runs, evaluated nodes that depend on the leaves keep their inputs, so Python control flow on values
works inside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ingot import _native
from ingot._native import array, make
from ingot.graph.tree import tree_map
from ingot.ops.casting import Copy

__all__ = ["check_callable", "follow", "only_arrays", "tracing"]

_copy = Copy()


@contextmanager
def tracing() -> Iterator[None]:
    """While it lasts, evaluation keeps the graphs of nodes that depend on followed arrays."""
    _native.begin_tracing()
    try:
        yield
    finally:
        _native.end_tracing()


def follow(value: array) -> array:
    """A leaf with the value of `value` and an identity of its own."""
    leaf = make(_copy, (value,), value.shape, value.dtype)
    leaf._node.tracer = True
    return leaf


def check_callable(name: str, function: Any) -> None:
    """TypeError unless `function` can be called."""
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"[{name}] expected a function to transform, got {kind}: {function!r}.")


def only_arrays(name: str, what: str, tree: Any) -> list[array]:
    """The leaves of a tree, all of which must be arrays."""
    found: list[array] = []

    def collect(leaf: Any) -> None:
        if not isinstance(leaf, array):
            raise ValueError(
                f"[{name}] {what} may hold arrays only, got {type(leaf).__name__}: {leaf!r}. "
                "Wrap numbers in mx.array, or leave them out."
            )
        found.append(leaf)

    tree_map(collect, tree)
    return found


def as_outputs(name: str, result: Any) -> list[array]:
    """The results of a function that returns an array or a sequence of arrays."""
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    for output in outputs:
        if not isinstance(output, array):
            raise ValueError(
                f"[{name}] the function must return an array or a sequence of arrays, "
                f"got {type(output).__name__}."
            )
    return outputs


def run_on(
    name: str, function: Callable[..., Any], primals: Sequence[array]
) -> tuple[list[array], list[array]]:
    """Follows `primals` through `function`: the leaves and the outputs."""
    leaves = [follow(primal) for primal in only_arrays(name, "the primals", list(primals))]
    return leaves, as_outputs(name, function(*leaves))
