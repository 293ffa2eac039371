"""A call of a compiled function: everything it computes with, besides what it closes over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot._native import array
from ingot.compiler.trace.structure import copied
from ingot.graph.lazy_dataclass import dataclass

__all__ = ["Call"]


@dataclass
class Call:
    """The function and its arguments."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    inputs: Any  # captured containers
    outputs: Any
    bound: Any  # the method, partial or callable object that was compiled, or None
    has_receiver: bool  # whether the first argument is the receiver of a method

    @property
    def roots(self) -> list[Any]:
        """Everything that the call may change: captured containers first, then arguments."""
        return [self.inputs, self.outputs, self.bound, self.args, self.kwargs]

    def run(self) -> Any:
        """What the function returns, uncompiled."""
        return self.function(*self.args, **self.kwargs)

    def with_arrays(self) -> Call:
        """The call with arrays for NumPy arrays, if there are any: they are inputs as well."""
        found: list[np.ndarray] = []

        def replace(leaf: Any) -> Any:
            if not isinstance(leaf, np.ndarray):
                return leaf
            found.append(leaf)
            return array(leaf)

        args, kwargs = copied((self.args, self.kwargs), replace, {})
        if not found:
            return self
        return Call(
            self.function, args, kwargs, self.inputs, self.outputs, self.bound, self.has_receiver
        )
