"""`mx.checkpoint`: gradients that recompute intermediate values instead of storing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from ingot.transforms.custom_op import Rules, call_with_rules
from ingot.transforms.tracing import check_callable, named_after

__all__ = ["checkpoint"]

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(fun: Callable[P, R]) -> Callable[P, R]:
    """A function that discards its intermediate values and recomputes them for the gradient.

    Args:
        fun: A function of arrays and trees of arrays.

    Returns:
        A function with the same results whose gradient needs less memory and more time.
    """
    check_callable("checkpoint", fun)

    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        return call_with_rules(fun, Rules(), True, args, kwargs)

    return named_after(fun, checkpointed)
