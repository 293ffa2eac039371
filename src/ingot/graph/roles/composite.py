"""Composites: several operations as one op, which is compiled even without `compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ingot._native import array
from ingot.graph.op import no_rule
from ingot.graph.roles.products.tiled import Tiled

__all__ = ["Composite"]

_TRACED = "transforms trace the array operations that it is composed of"


class Composite(Tiled, role=True):
    """A composition of array operations as one node.

    Write `compose`, which builds it from arrays. Functions build such an op only outside
    transforms and compiled functions, which trace through `compose`, so it needs no other rules
    than `infer`.
    """

    why_host = "it is evaluated by itself"

    compose: ClassVar[Callable[..., array]]  # (*inputs) -> the result, built from other ops

    def has_fixed_rows(self, position: int) -> bool:
        """Whether a program for all lengths has one for the last axis of the input at a position,
        as loops over rows of known length are faster.
        """
        return True

    def work_for_lengths(self, *shapes: tuple[int, ...]) -> int:
        """What a program for these lengths does faster than one for all lengths, in elements; once
        they have come with MIN_WORK_FOR_LENGTHS in total, they get one. 0 if there is no such gain.
        """
        return 0

    def evaluate(self, *values: np.ndarray) -> Any:
        return np.asarray(self.compose(*map(array, values)))

    vjp = no_rule(_TRACED)
    jvp = no_rule(_TRACED)
    vmap = no_rule(_TRACED)
