"""Assignment through masks: `a[mask] = values`, where the k-th True gets the k-th value."""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.dtype import int64
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply, zero_jvp, zero_vjp
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.comparison import where
from ingot.ops.index.indexing import Take
from ingot.ops.index.nonzero import check_mask
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.movement import broadcast_to, reshape

__all__: list[str] = []


@dataclass(frozen=True)
class MaskRank(Host):
    """For each True along the last axis, the number of earlier ones; for a False, any position.

    There may be no more than `limit` of them, since that many values are there to be assigned.
    """

    limit: int

    why_host = "it counts along the mask"

    def infer(self, mask: array) -> tuple[Shape, Dtype]:
        return mask.shape, int64

    def evaluate(self, mask: np.ndarray) -> np.ndarray:
        counts = np.cumsum(mask, -1, dtype=np.int64)
        most = int(counts.max(initial=0))
        if most > self.limit:
            raise RuntimeError(
                f"[setitem] the mask has {most} True elements, but there are only {self.limit} "
                "values."
            )
        return np.maximum(counts - 1, 0)

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool], mask: array) -> array:
        return apply(self, mask)


def assign_where(a: array, mask: array, values: array) -> array:
    """`a` with `values` where `mask` is True. The mask covers the first axes of `a`.

    Values that have at most the axes after the mask are the same for every True; with one axis
    more, there is a row for each True, in order.
    """
    shape = a.shape
    check_mask("setitem", mask, shape)
    rest = shape[mask.ndim :]
    if values.ndim > len(rest) + 1:
        raise ValueError(
            f"[setitem] values of shape {shape_text(values.shape)} have more axes than one row of "
            f"shape {shape_text(rest)} for each True of the mask."
        )
    if values.ndim <= len(rest):
        chosen = broadcast_to(values, rest)
    else:
        chosen = _rows_in_order(mask, values, rest)
    condition = reshape(mask, mask.shape + (1,) * len(rest))
    return where(condition, chosen, a)


def _rows_in_order(mask: array, values: array, rest: Shape) -> array:
    """The values scattered over the mask's shape: the k-th row at the k-th True."""
    count = values.shape[0]
    # With no values, there must still be a row for the positions where the mask is False: all of
    # them.
    rows = broadcast_to(values, (count, *rest)) if count else zeros((1, *rest), values.dtype)
    ranks = apply(MaskRank(count), reshape(mask, (mask.size,)))
    return apply(Take((0,)), rows, reshape(ranks, mask.shape))
