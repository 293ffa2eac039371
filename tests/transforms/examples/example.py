"""An example of an op, and the kinds of inputs that examples have.

There are new inputs for each example of a batch, from a random generator; float64 is what
derivatives are taken by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.graph.op import Op

Input = Callable[[np.random.Generator], np.ndarray]


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Input:
    """Numbers between `low` and `high`."""
    return lambda random: random.uniform(low, high, shape)


def positive(*shape: int) -> Input:
    """Numbers well above 0."""
    return real(*shape, low=0.3, high=3.0)


def apart(*shape: int) -> Input:
    """Numbers of which no two are near each other, nor near 0 or an integer, in random order."""

    def make(random: np.random.Generator) -> np.ndarray:
        size = int(np.prod(shape))
        numbers = np.arange(size) * 0.37 - size * 0.18 + 0.11
        return random.permutation(numbers).reshape(shape) + random.uniform(0, 0.03)

    return make


def integers(*shape: int, low: int = 0, high: int = 3) -> Input:
    """int32 from `low` to before `high`."""
    return lambda random: random.integers(low, high, shape).astype(np.int32)


def order(*shape: int) -> Input:
    """A permutation along the last axis, as int32: indices of which none is repeated."""
    return lambda random: np.argsort(random.uniform(size=shape), -1).astype(np.int32)


def regular(*shape: int) -> Input:
    """Square matrices far from singular ones."""
    return lambda random: random.normal(size=shape) + 3 * np.eye(shape[-1])


def stretching(*shape: int) -> Input:
    """Matrices with singular values far from each other and from 0."""

    def make(random: np.random.Generator) -> np.ndarray:
        left, _, right = np.linalg.svd(random.normal(size=shape), full_matrices=False)
        values = np.arange(left.shape[-1], 0, -1) + random.uniform(0, 0.3, left.shape[-1])
        return (left * values) @ right

    return make


def booleans(*shape: int) -> Input:
    """True and False."""
    return lambda random: random.uniform(size=shape) < 0.5


def seldom(*shape: int) -> Input:
    """False, and here and there True."""
    return lambda random: random.uniform(size=shape) < 0.15


@dataclass(frozen=True)
class Example:
    """One way to apply an op."""

    op: Op
    inputs: tuple[Input, ...]
    mlx: Callable[..., Any] | None = None  # (module, *inputs): the same with MLX's functions
    step: float = 1e-4  # of finite differences
    has_vmap: bool = True
    stops: bool = False  # whether its derivative is zero although its values change

    def __str__(self) -> str:
        return repr(self.op)

    def primals(self, seed: int) -> list[np.ndarray]:
        """Values for the inputs."""
        random = np.random.default_rng(seed)
        return [make(random) for make in self.inputs]

    def batches(self, seed: int, size: int) -> list[np.ndarray]:
        """Values for `size` examples, along the first axis."""
        rows = [self.primals(seed + number) for number in range(size)]
        return [np.stack(column) for column in zip(*rows, strict=True)]


def named(name: str) -> Callable[..., Any]:
    """MLX's function of that name."""
    return lambda module, *inputs: getattr(module, name)(*inputs)


def unary(op: Op, name: str, make: Input) -> Example:
    return Example(op, (make,), named(name))


def binary(op: Op, name: str, first: Input, second: Input) -> Example:
    return Example(op, (first, second), named(name))


WITHIN = real(2, 3, low=-0.8, high=0.8)
PLAIN = real(2, 3)
