"""Tracing: how transforms follow a function's inputs through the graph that it builds.

A transform replaces the arrays it follows by fresh leaves, runs the function, and traverses the
graph between the leaves and the results. While it runs, evaluated nodes that depend on the leaves
keep their inputs, so Python control flow on values works inside. Leaves are remembered as nodes:
the function may assign to the arrays it is given, which re-points them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from ingot import _native
from ingot._native import array, wrap
from ingot.graph.errors import value_text
from ingot.ops.elementwise.casting import Copy

__all__ = [
    "as_outputs",
    "check_arrays",
    "check_callable",
    "follow",
    "named_after",
]

_copy = Copy()


def follow(values: list[array]) -> list[array]:
    """Leaves with the values of `values` and identities of their own."""
    return _native.follow(_copy, values)


def named_after(fun: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
    """`wrapper` with the name and the docstring of `fun`, which users call: errors that leave it
    show the frames of their functions only.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return wrapper(*args, **kwargs)
        except BaseException as error:
            _native.shorten_traceback(error)
            raise

    return wraps(fun)(called) if hasattr(fun, "__name__") else called


def check_callable(name: str, function: Any) -> None:
    """TypeError unless `function` can be called."""
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
    """The results of a function that returns an array or a sequence of arrays, as new arrays."""
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    for output in outputs:
        if not isinstance(output, array):
            raise ValueError(
                f"[{name}] the function must return an array or a sequence of arrays, "
                f"got {type(output).__name__}."
            )
    return [wrap(output) for output in outputs]
