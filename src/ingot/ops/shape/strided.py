"""Strided views: elements at positions that are given by strides instead of by indices."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.lib.stride_tricks import as_strided as numpy_as_strided

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.roles import Linear, View
from ingot.graph.shape import Shape, as_lengths, as_shape, shape_text, size_of
from ingot.ops.index.indexing import Put
from ingot.ops.shape.creation import arange, full, zeros
from ingot.ops.shape.folding import fold
from ingot.ops.shape.movement import flatten, require_array, reshape

__all__ = ["as_strided"]


@dataclass(frozen=True)
class AsStrided(Linear, View):
    """For each index i, element `offset + sum(i * strides)` of the input in row-major order."""

    shape: Shape
    strides: Shape
    offset: int

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        return self.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        elements = np.ascontiguousarray(x).reshape(-1)[self.offset :]
        steps = tuple(stride * x.itemsize for stride in self.strides)
        # Elements may alias, so the view must be read-only.
        return numpy_as_strided(elements, self.shape, steps, writeable=False)

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape] | None:
        size = _row_order_step(shape, strides)
        if size is None:
            return None
        return self.offset * size, tuple(stride * size for stride in self.strides)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        folded = fold(cotangent, self.strides, self.offset, x.shape)
        if folded is not None:
            return (folded,)
        positions = full(self.shape, self.offset)
        for axis, (length, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            if length == 1:
                continue  # its stride is never used, and may overflow an index
            along = [1] * len(self.shape)
            along[axis] = length
            positions = positions + reshape(arange(length), along) * stride
        total = zeros((size_of(x.shape),), cotangent.dtype)
        added = apply(Put((0,), "add"), total, flatten(cotangent), flatten(positions))
        return (reshape(added, x.shape),)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        example = size_of(x.shape[1:])
        return apply(AsStrided((size, *self.shape), (example, *self.strides), self.offset), x)


def _row_order_step(shape: Shape, strides: Shape) -> int | None:
    """The stride between neighbours in row-major order; None if it is not uniform."""
    step, distance = None, 0
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length == 1:
            continue
        if step is None:
            step = distance = stride
        if stride != distance or step < 0:
            return None
        distance = distance * length
    return step or 0  # for a single element, the stride does not matter


def as_strided(
    a: array,
    /,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    offset: int = 0,
    *,
    stream: StreamLike = None,
) -> array:
    """A view of the elements of `a`, in row-major order, with any shape and strides.

    Args:
        a: The array.
        shape: The shape of the view; that of `a` without it.
        strides: How many elements further the next index of each axis is; those of row order
            without it.
        offset: The position of the first element.
        stream: The stream or device to run on.
    """
    require_array("as_strided", a)
    lengths = a.shape if shape is None else as_shape("as_strided", as_lengths("as_strided", shape))
    if strides is None:
        behind = accumulate(reversed(lengths[1:]), mul, initial=1)
        steps = tuple(behind)[::-1] if lengths else ()
    else:
        steps = as_lengths("as_strided", strides)[: len(lengths)]
    if not isinstance(offset, int) or offset < 0:
        raise TypeError(
            f"[as_strided] an offset must be an int that is not negative, got {offset!r}."
        )
    if len(steps) != len(lengths):
        raise ValueError(
            f"[as_strided] shape {shape_text(lengths)} needs as many strides, "
            f"got {shape_text(steps)}."
        )
    if 0 not in lengths:
        reach = [(length - 1) * step for length, step in zip(lengths, steps, strict=True)]
        lowest = offset + sum(step for step in reach if step < 0)
        highest = offset + sum(step for step in reach if step > 0)
        size = size_of(a.shape)
        if lowest < 0 or highest >= size:
            raise ValueError(
                f"[as_strided] shape {shape_text(lengths)}, strides {shape_text(steps)} and offset "
                f"{offset} reach elements {lowest} to {highest} of an array that has {size}."
            )
    return apply(AsStrided(lengths, steps, offset), a, stream=stream)
