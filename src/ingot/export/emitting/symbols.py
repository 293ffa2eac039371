"""Lengths that may change from call to call, in functions that are exported without shapes.

Such a function is traced with symbolic lengths. To tell which expressions of them are the same,
each is computed twice: for the example inputs, and for others in which every length that may
change has another, unrelated value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ingot.compiler.trace.symbolic import equal_axes
from ingot.graph.dimension import Dimension, Guards
from ingot.graph.shape import Shape

__all__ = ["Symbols"]

Key = tuple[int, int]


def _primes() -> Iterator[int]:
    found: list[int] = []
    number = 101
    while True:
        if all(number % prime for prime in found) and all(number % n for n in range(2, 32)):
            found.append(number)
            yield number
        number += 2


class Symbols:
    """The lengths of a trace."""

    def __init__(self, guards: Guards) -> None:
        same = equal_axes(guards)
        self.others: dict[int, int] = {}
        primes = _primes()
        for dimension in guards.dimensions:
            if dimension.name != "axis":
                continue
            known = same.get(dimension.number, dimension)
            if type(known) is not Dimension:
                self.others[dimension.number] = known
            elif known.number in self.others:
                self.others[dimension.number] = self.others[known.number]
            else:  # multiples, because a length may have to be divisible
                self.others[dimension.number] = max(known.value, 1) * next(primes)

    def other(self, length: Any) -> Any:
        """A length in the other inputs."""
        if type(length) is not Dimension:
            return length
        if length.name == "axis":
            return self.others[length.number]
        return length.applied([self.other(operand) for operand in length.operands])

    def key(self, length: Any) -> Key:
        """What equal lengths have in common."""
        return (value_of(length), self.other(length))

    def keys(self, shape: Sequence[Any]) -> tuple[Key, ...]:
        """The keys of the lengths of a shape."""
        return tuple(map(self.key, shape))

    def changes(self, length: Any) -> bool:
        """Whether a length may be another in the next call."""
        value, other = self.key(length)
        return value != other

    def fixed(self, name: str, value: Any) -> Any:
        """The state of a primitive in numbers; ValueError if it holds a length that may change."""
        if type(value) is Dimension:
            if self.changes(value):
                raise ValueError(
                    f"[export_function] with shapeless=True, {name} depends on {value.text()}, "
                    "which MLX's files cannot express: export the function for each shape instead."
                )
            return value.value
        if type(value) in (tuple, list):
            return tuple([self.fixed(name, item) for item in value])
        return value


def value_of(length: Any) -> Any:
    """A length in the example inputs."""
    return length.value if type(length) is Dimension else length


def values_of(shape: Sequence[Any]) -> Shape:
    """A shape in the example inputs."""
    return tuple(map(value_of, shape))
