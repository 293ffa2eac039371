"""Positions: the expansion, in compiled programs, of ops whose elements depend on their index.

`Positions` is an array that is never stored: a kernel computes its elements from its loop counters.
The op's `expanded` says what it does with them.
"""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Iota
from ingot.graph.shape import Shape, size_of

__all__ = ["IN_PROGRAMS", "Positions"]

IN_PROGRAMS = "only compiled programs hold it, which are transformed before they are compiled"


@dataclass(frozen=True)
class Positions(Iota):
    """For each element of an array its position along `axes`, in row-major order."""

    shape: Shape
    axes: Shape
    dtype: Dtype

    @property
    def steps(self) -> Shape:
        """The step of the position along each axis."""
        steps = [0] * len(self.shape)
        step = 1
        for axis in reversed(self.axes):
            steps[axis] = step
            step *= self.shape[axis]
        return tuple(steps)

    def infer(self) -> tuple[Shape, Dtype]:
        return self.shape, self.dtype

    def interval(self) -> tuple[int, int]:
        return 0, size_of([self.shape[axis] for axis in self.axes]) - 1

    def evaluate(self) -> np.ndarray:
        total = np.zeros((1,) * len(self.shape), np.int64)
        for axis, step in enumerate(self.steps):
            along = np.arange(self.shape[axis]) * step
            total = total + along.reshape((-1,) + (1,) * (len(self.shape) - 1 - axis))
        return total.astype(self.dtype.numpy)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)
