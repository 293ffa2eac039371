"""Dependencies: arrays that are computed after others without using their values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.ops.shape.movement import broadcast_to, require_arrays

__all__ = ["depends"]


@dataclass(frozen=True)
class Depends(Host):
    """Returns its first `count` inputs, but only after the other inputs are computed."""

    count: int

    several_outputs = True
    orders = True
    why_host = "it orders the evaluation of others"

    def passed_input(self, index: int) -> int:
        return index

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        return tuple((x.shape, x.dtype) for x in inputs[: self.count])

    def evaluate(self, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return inputs[: self.count]

    def vjp(
        self, cotangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        return (*cotangents, *(None,) * (len(inputs) - self.count))

    def jvp(
        self, tangents: tuple[array | None, ...], outs: tuple[array, ...], *inputs: array
    ) -> tuple[array | None, ...]:
        return tuple(tangents[: self.count])

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> tuple[array, ...]:
        filled = (
            x if has_batch else broadcast_to(x, (size, *x.shape))
            for has_batch, x in zip(batched, inputs, strict=True)
        )
        return apply_multiple(self, *filled)


def depends(inputs: Any, dependencies: Any) -> Any:
    """The inputs unchanged, but computed only after the dependencies.

    Args:
        inputs: An array or a sequence of arrays.
        dependencies: The arrays that must be computed first.

    Returns:
        An array for an array, a list for a sequence.
    """
    first = _several(inputs)
    others = _several(dependencies)
    outputs = list(apply_multiple(Depends(len(first)), *first, *others)) if first else []
    return outputs[0] if isinstance(inputs, array) else outputs


def _several(arrays: Any) -> list[array]:
    """An array or a sequence of arrays as a list."""
    return require_arrays("depends", arrays if isinstance(arrays, (list, tuple)) else (arrays,))
