"""Modules that are composed of other modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ingot.nn.module import Module

__all__ = ["Sequential"]


class Sequential(Module):
    """Calls modules, or any functions, in sequence, each with the result of the one before.

    Args:
        modules: The modules and functions in order.
    """

    def __init__(self, *modules: Module | Callable[[Any], Any]) -> None:
        super().__init__()
        self.layers = list(modules)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
