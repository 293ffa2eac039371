"""The different elements of an array, in a result whose length is given: nothing is evaluated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import int32, uint32
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import zero_vjp
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import greater, where
from ingot.ops.index.indexing import take
from ingot.ops.internal.summation import without_bfloat16
from ingot.ops.reduce.axes import as_int
from ingot.ops.reduce.sorting import ArgSort
from ingot.ops.shape.movement import as_array, broadcast_to, require_array, reshape

__all__ = ["unique"]


@dataclass(frozen=True)
class Unique(Host):
    """The different elements along the last axis, in ascending order.

    The outputs are the position where each occurs first, for each element its number among them,
    and how often each occurs. Of more than `length`, the smallest remain, and numbers are at most
    the last one's; entries past the last repeat the first position with a count of 0. NaN are all
    different.
    """

    length: int

    several_outputs = True
    why_host = "it sorts its input"

    def infer(self, x: array) -> tuple[tuple[Shape, Dtype], ...]:
        kept = (*x.shape[:-1], self.length)
        return (kept, uint32), (x.shape, uint32), (kept, int32)

    def evaluate(self, x: np.ndarray) -> Any:
        kept = (*x.shape[:-1], self.length)
        first, counts = np.zeros(kept, np.uint32), np.zeros(kept, np.int32)
        numbers = np.zeros(x.shape, np.uint32)
        if x.size == 0:
            return first, numbers, counts
        orders = ArgSort(x.ndim - 1).evaluate(x)
        for row in np.ndindex(x.shape[:-1]):
            order = orders[row]
            ordered = without_bfloat16(x[row][order])
            begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))
            starts = np.flatnonzero(begins)
            some = min(self.length, starts.size)
            first[row] = order[0]
            first[row][:some] = order[starts[:some]]
            counts[row][:some] = np.diff(starts, append=order.size)[:some]
            numbers[row][order] = np.minimum(np.cumsum(begins) - 1, max(self.length - 1, 0))
        return first, numbers, counts

    vjp = zero_vjp

    def jvp(
        self, tangents: tuple[array | None], out: tuple[array, ...], x: array
    ) -> tuple[None, None, None]:
        return None, None, None

    def vmap(self, size: int, batched: tuple[bool], x: array) -> tuple[array, ...]:
        return apply_multiple(self, x)


def unique(
    a: array,
    /,
    size: int,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    fill_value: Any = None,
    *,
    stream: StreamLike = None,
) -> array | tuple[array, ...]:
    """The different elements of the flattened array, in ascending order. NaN are all different.

    Args:
        a: An array. It is not evaluated.
        size: The length of the result. Of more elements, the smallest ones remain.
        return_index: Whether to return where each occurs first, as well.
        return_inverse: Whether to return the number of each element of `a` among the results, in
            the shape of `a`; if some were left out, at most `size - 1`.
        return_counts: Whether to return how often each occurs: 0 for entries past the last.
        fill_value: The value of entries past the last; the smallest element by default.
        stream: The stream or device to run on.

    Returns:
        The elements, or a tuple of them and of what else was asked for, in this order.
    """
    require_array("unique", a)
    length = as_int("unique", "size", size)
    if length < 0:
        raise ValueError(f"[unique] the size must be a length, got {length}.")
    filler = None if fill_value is None else as_array("unique", fill_value, a.dtype)
    if filler is not None and filler.size != 1:
        raise ValueError(
            f"[unique] the fill value must be one number, got shape {shape_text(filler.shape)}."
        )
    flat = reshape(a, (a.size,), stream=stream)
    first, numbers, counts = apply_multiple(Unique(length), flat, stream=stream)
    if a.size == 0:
        if length > 0 and filler is None:
            raise ValueError(
                f"[unique] an empty array has nothing to fill {length} entries with: give "
                "fill_value."
            )
        filling = flat if filler is None else filler
        values = broadcast_to(astype(reshape(filling, (-1,)), a.dtype, stream), (length,))
    else:
        values = take(flat, first, 0, stream=stream)
        if filler is not None:
            exists = greater(counts, 0, stream=stream)
            values = where(
                exists, values, astype(reshape(filler, ()), a.dtype, stream), stream=stream
            )
    results = [values]
    if return_index:
        results.append(first)
    if return_inverse:
        results.append(reshape(numbers, a.shape, stream=stream))
    if return_counts:
        results.append(counts)
    return values if len(results) == 1 else tuple(results)
