"""Arithmetic: sums, products, quotients, powers and their relatives, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.families import Elementwise, lift
from ingot.graph.kernel import Kernel, Value
from ingot.graph.op import Partial

__all__ = ["add", "multiply", "negative"]


@dataclass(frozen=True)
class Add(Elementwise):
    """Sum of two arrays; on bool, or."""

    name = "add"
    arity = 2

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.add(x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return 1, 1

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        return k.add(x, y)


@dataclass(frozen=True)
class Multiply(Elementwise):
    """Product of two arrays; on bool, and."""

    name = "multiply"
    arity = 2

    def evaluate(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.multiply(x, y)

    def partials(self, out: array, x: array, y: array) -> tuple[Partial, Partial]:
        return y, x

    def emit(self, k: Kernel, x: Value, y: Value) -> Value:
        return k.multiply(x, y)


@dataclass(frozen=True)
class Negative(Elementwise):
    """Elements with the other sign."""

    name = "negative"

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.negative(x)

    def partials(self, out: array, x: array) -> tuple[Partial]:
        return (-1,)

    def emit(self, k: Kernel, x: Value) -> Value:
        return k.negative(x)


_add = lift(Add())
_multiply = lift(Multiply())
_negative = lift(Negative())

_native.set_operator("add", _add)
_native.set_operator("multiply", _multiply)
_native.set_operator("negative", _negative)


def add(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise sum.

    Args:
        a: An array or a number.
        b: An array or a number; the two broadcast against each other.
        stream: Where the work belongs.

    Returns:
        The sum, in the dtype that both operands promote to.
    """
    return _add(a, b, stream)


def multiply(a: Any, b: Any, /, *, stream: StreamLike = None) -> array:
    """Elementwise product."""
    return _multiply(a, b, stream)


def negative(a: Any, /, *, stream: StreamLike = None) -> array:
    """Elements with the other sign."""
    return _negative(a, stream)
