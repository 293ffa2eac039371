"""Scans: ops that compute the reduction of every prefix of an axis."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.dtype import from_numpy
from ingot.graph.op import apply
from ingot.graph.roles.host import Host
from ingot.graph.roles.reduce import neutral_value

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value
    from ingot.graph.shape import Shape

__all__ = ["Scan"]


class Scan(Host, role=True):
    """Partial results of a reduction along `axis`: out[i] combines x[0] ... x[i].

    With `reverse` it combines x[i] to the end; without `inclusive` x[i] itself is left out. Write a
    frozen dataclass with these three fields, the number `identity`, the ufunc `step`, the
    derivatives and, for kernels, `emit_step` and `accumulates_in`. Scans fuse with the maps before
    and after them; alone, large ones are host steps. Both combine elements in the same order, which
    is documented in `_native/rows/scan.h`.
    """

    axis: int
    reverse: bool
    inclusive: bool

    identity: ClassVar[float]  # the result for no elements; inf: the dtype's extreme value
    step: ClassVar[np.ufunc]  # combines the previous result and the next element

    why_host = "each element needs the one before it, and there is nothing to fuse it with"

    def start(self, dtype: np.dtype) -> complex | bool:
        """`identity` as a number of that dtype."""
        known = from_numpy(dtype)
        assert known is not None
        return neutral_value(self.identity, known)

    def accumulates_in(self, dtype: Dtype) -> Dtype | None:
        """The dtype in which kernels combine elements; None if they do not scan that dtype."""
        return None

    def emit_step(self, k: Kernel, previous: Value, x: Value) -> Value:
        """The combination of the previous result and the next element."""
        raise NotImplementedError

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return x.shape, x.dtype

    def vmap(self, size: int, batched: tuple[bool], x: array) -> array:
        shifted: Scan = replace(cast(Any, self), axis=self.axis + 1)
        return apply(shifted, x)
