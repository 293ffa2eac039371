"""Positions of elements that are not zero, and the elements that a mask selects.

How many there are depends on values. Without a `size`, the array is evaluated at once; with one,
the result has that length, and everything stays lazy and can be traced.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import int64, uint32
from ingot.graph.errors import no_value_parts
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply, zero_jvp, zero_vjp
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, shape_text, size_of
from ingot.ops.elementwise.arithmetic import floor_divide, remainder
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import less, not_equal, where
from ingot.ops.index.indexing import Take
from ingot.ops.reduce.axes import as_int
from ingot.ops.shape.joining import stack
from ingot.ops.shape.movement import require_array, reshape

__all__ = ["argwhere", "nonzero"]

_MAX_UINT32 = 2**32 - 1


@dataclass(frozen=True)
class Nonzero(Host):
    """The first `length` positions along the last axis that are True; those that are left hold the
    length of the axis.
    """

    length: int

    why_host = "it counts along the mask"

    def infer(self, mask: array) -> tuple[Shape, Dtype]:
        return (*mask.shape[:-1], self.length), _position_dtype(mask.shape[-1])

    def evaluate(self, mask: np.ndarray) -> np.ndarray:
        count = mask.shape[-1]
        dtype = np.uint32 if count <= _MAX_UINT32 else np.int64
        positions = np.full((*mask.shape[:-1], self.length), count, dtype)
        for row in np.ndindex(mask.shape[:-1]):
            found = np.flatnonzero(mask[row])[: self.length]
            positions[row][: found.size] = found
        return positions

    vjp = zero_vjp
    jvp = zero_jvp

    def vmap(self, size: int, batched: tuple[bool], mask: array) -> array:
        return apply(self, mask)


def _position_dtype(length: int) -> Dtype:
    return uint32 if length <= _MAX_UINT32 else int64


def nonzero(
    a: array,
    /,
    *,
    size: int | None = None,
    fill_value: int = 0,
    stream: StreamLike = None,
) -> tuple[array, ...]:
    """The positions of the elements that are not zero, in order: an array of indices for each axis.

    Args:
        a: An array with at least one axis. Without `size` it is evaluated at once.
        size: The length of the results, which keeps them lazy and is needed inside `compile`,
            `vmap` and loops: of more positions, the first ones are returned.
        fill_value: The index of entries past the last position, where there are fewer than `size`.
        stream: The stream or device to run on.

    Returns:
        uint32 indices, with which `a[nonzero(a)]` are the elements that are not zero.
    """
    return _positions("nonzero", a, size, fill_value, stream)


def argwhere(
    a: array,
    /,
    *,
    size: int | None = None,
    fill_value: int = 0,
    stream: StreamLike = None,
) -> array:
    """The positions of the elements that are not zero: a row for each, with an index for each axis.

    Args:
        a: An array with at least one axis. Without `size` it is evaluated at once.
        size: The number of rows, as for `nonzero`.
        fill_value: The index in rows past the last position.
        stream: The stream or device to run on.
    """
    return stack(list(_positions("argwhere", a, size, fill_value, stream)), 1, stream=stream)


def _positions(
    name: str, a: array, size: Any, fill_value: Any, stream: StreamLike
) -> tuple[array, ...]:
    require_array(name, a)
    if a.ndim == 0:
        raise ValueError(
            f"[{name}] takes an array with at least one axis, got a scalar: reshape it to (1,)."
        )
    filler = as_int(name, "fill_value", fill_value)
    mask = not_equal(a, 0, stream=stream)
    if size is None:
        return mask_indices(name, mask)
    length = as_int(name, "size", size)
    if length < 0 or filler < 0:
        raise ValueError(
            f"[{name}] size and fill_value are not negative, got {length} and {filler}."
        )
    flat = apply(Nonzero(length), reshape(mask, (a.size,), stream=stream), stream=stream)
    is_position = less(flat, a.size, stream=stream)
    return tuple(
        astype(where(is_position, index, filler, stream=stream), flat.dtype, stream)
        for index in _indices(flat, a.shape, stream)
    )


def _indices(flat: array, shape: Shape, stream: StreamLike) -> tuple[array, ...]:
    """Flat positions as an index for each axis."""
    indices = []
    for axis, length in enumerate(shape):
        behind = max(1, size_of(shape[axis + 1 :]))
        index = floor_divide(flat, behind, stream=stream)
        if axis > 0:
            index = remainder(index, max(1, length), stream=stream)
        indices.append(index)
    return tuple(indices)


def mask_indices(name: str, mask: array) -> tuple[array, ...]:
    """The index arrays that a mask stands for in a subscript, as constants."""
    dtype = _position_dtype(mask.size)
    return tuple(array(index, dtype) for index in np.nonzero(_value(name, mask)))


def selected_by(name: str, a: array, mask: array) -> array:
    """`a[mask]`: the rows of the first axes, which the mask covers, where it is True."""
    check_mask(name, mask, a.shape)
    flat = array(np.flatnonzero(_value(name, mask)), _position_dtype(mask.size))
    return apply(Take((0,)), reshape(a, (mask.size, *a.shape[mask.ndim :])), flat)


def check_mask(name: str, mask: array, shape: Shape) -> None:
    """Raise unless the mask covers the first of the axes."""
    if mask.shape != shape[: mask.ndim]:
        raise ValueError(
            f"[{name}] a mask of shape {shape_text(mask.shape)} does not match the first axes of "
            f"an array of shape {shape_text(shape)}."
        )


def _value(name: str, mask: array) -> np.ndarray:
    """The mask as a NumPy array."""
    try:
        return mask._data
    except ValueError as error:
        parts = no_value_parts(error)
        if parts is None:
            raise
        raise ValueError(
            f"[{name}] the shape of the result depends on how many elements of "
            f"{parts[0]} are True, which is unknown while {parts[1]} traces the "
            "function. Give the number of them, as in mx.nonzero(mask, size=n), and select by the "
            "indices; or choose elements with mx.where(mask, x, y), which keeps the shape."
        ) from None
