"""Tracing: how transforms track a function's inputs through the graph that it builds.

A transform replaces the arrays that it traces by new leaves, calls the function, and traverses the
graph between the leaves and the results. In the meantime, evaluated nodes that depend on the leaves
keep their inputs, so functions may branch on values. Leaves are stored as nodes because the
function may assign to its arrays, which makes these refer to other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ingot import _native
from ingot._native import Node, array, between, wrap
from ingot.graph.dtype import bfloat16, complex64, float16, float32, float64
from ingot.graph.errors import value_text
from ingot.ops.elementwise.casting import Copy, StopGradient

__all__ = [
    "as_outputs",
    "check_arrays",
    "check_callable",
    "check_indices",
    "follow",
    "named_after",
]

_copy = Copy()
_INEXACT = frozenset((float16, bfloat16, float32, float64, complex64))


def follow(values: list[array]) -> list[array]:
    """New leaves with the values of `values`."""
    return _native.follow(_copy, values)


def named_after(fun: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """Gives `wrapper` the name and docstring of `fun`, and hides the transform's own frames from
    the traceback of errors.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return wrapper(*args, **kwargs)
        except BaseException as error:
            _native.shorten_traceback(error)
            raise

    return wraps(fun)(called) if hasattr(fun, "__name__") else called


def check_callable(name: str, function: Any) -> None:
    """Raises TypeError unless `function` is callable."""
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(
            f"[{name}] expected a function to transform, got {kind}: {value_text(function)}."
        )


def check_arrays(name: str, what: str, values: Sequence[Any], refusal: type[Exception]) -> None:
    """Raises `refusal` unless all `values` are arrays."""
    for value in values:
        if not isinstance(value, array):
            raise refusal(
                f"[{name}] {what} may hold arrays only, got {type(value).__name__}: {value!r}. "
                "Wrap numbers in mx.array, or leave them out."
            )


def as_outputs(name: str, result: Any) -> list[array]:
    """The result of a function that returns an array or a sequence of arrays, as new arrays."""
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    for output in outputs:
        if not isinstance(output, array):
            raise ValueError(
                f"[{name}] the function must return an array or a sequence of arrays, "
                f"got {type(output).__name__}."
            )
    return [wrap(output) for output in outputs]


def check_indices(outputs: Sequence[array], leaves: Sequence[Node]) -> None:
    """Raises ValueError if an integer leaf is used as an index: results do not vary continuously
    with those. Indices that are computed from floating-point leaves are constants instead.
    """
    integers = [leaf for leaf in leaves if leaf.dtype not in _INEXACT]
    if not integers:
        return
    dependent = set(integers)
    for node in between(outputs, integers):
        op = node.op
        if isinstance(op, StopGradient) or dependent.isdisjoint(node.inputs):
            continue
        first = op.first_index
        if first is not None and not dependent.isdisjoint(node.inputs[first:]):
            raise ValueError(
                f"[{type(op).__name__}] cannot be differentiated by its indices, which depend on "
                f"an argument of dtype {integers[0].dtype.name}. Use mx.stop_gradient on the "
                "indices, or do not differentiate by that argument."
            )
        dependent.add(node)
