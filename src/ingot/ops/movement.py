"""Movement: ops that only rearrange elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, make
from ingot.graph.device import StreamLike
from ingot.graph.families import Linear
from ingot.graph.op import apply, no_rule
from ingot.graph.shape import Shape, as_shape, broadcast_shapes

__all__ = ["broadcast_to"]


@dataclass(frozen=True)
class Broadcast(Linear):
    """Repeats elements along new axes in front and along axes of length 1, without copying."""

    shape: Shape

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return self.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        missing = len(self.shape) - x.ndim
        strides = (0,) * missing + tuple(
            0 if length == 1 else stride for length, stride in zip(x.shape, x.strides, strict=True)
        )
        return np.ndarray(self.shape, x.dtype, x, 0, strides)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        missing = len(self.shape) - x.ndim
        repeated = [
            axis
            for axis, length in enumerate(self.shape)
            if axis < missing or (x.shape[axis - missing] == 1 and length != 1)
        ]
        return (cotangent.sum(repeated, keepdims=True).reshape(x.shape),)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        missing = len(self.shape) - (x.ndim - 1)
        aligned = x.reshape((size, *(1,) * missing, *x.shape[1:]))
        return broadcast_to(aligned, (size, *self.shape))

    emit = no_rule("a broadcast is index arithmetic of the loop that reads it")


_broadcast_op = lru_cache(maxsize=4096)(Broadcast)
_native.set_hook("broadcast", _broadcast_op)
_native.set_hook("broadcast_shapes", broadcast_shapes)


def broadcast_to(a: array, /, shape: int | Sequence[int], *, stream: StreamLike = None) -> array:
    """Broadcast `a` to `shape` without copying it."""
    target = as_shape("broadcast_to", shape)
    if a.shape == target:
        return a
    if broadcast_shapes("broadcast_to", a.shape, target) != target:
        raise ValueError(f"[broadcast_to] cannot broadcast shape {a.shape} to {target}.")
    return make(_broadcast_op(target), (a,), target, a.dtype, stream)
