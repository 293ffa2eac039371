"""Matrix products with block masks, and over segments of the common axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bool_, is_floating, is_integer, promote
from ingot.graph.libraries import prepare_blas
from ingot.graph.op import apply
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, broadcast_shapes, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.products.contraction import matmul
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import arange
from ingot.ops.shape.movement import broadcast_to, expand_dims, require_array, reshape, swapaxes

__all__ = ["block_masked_mm", "segmented_mm"]

_BLOCK_SIZES = (32, 64)


def block_masked_mm(
    a: array,
    b: array,
    /,
    block_size: int = 64,
    mask_out: array | None = None,
    mask_lhs: array | None = None,
    mask_rhs: array | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """The product of matrices, of which masks keep, drop or scale whole blocks.

    A mask has an element for each block, the last of which may be cut off. A boolean one keeps the
    blocks where it is True; numbers multiply them.

    Args:
        a: Matrices (..., M, K).
        b: Matrices (..., K, N).
        block_size: How many rows and columns a block has: 32 or 64.
        mask_out: The mask of the product.
        mask_lhs: The mask of `a`.
        mask_rhs: The mask of `b`.
        stream: The stream or device to run on.
    """
    name = "block_masked_mm"
    if block_size not in _BLOCK_SIZES:
        raise ValueError(f"[{name}] blocks are 32 or 64 long, got {block_size}.")
    dtype = _common_dtype(name, a, b)
    left = _masked(astype(a, dtype), mask_lhs, block_size, "mask_lhs")
    right = _masked(astype(b, dtype), mask_rhs, block_size, "mask_rhs")
    return _masked(matmul(left, right, stream=stream), mask_out, block_size, "mask_out")


def _masked(x: array, mask: array | None, size: int, which: str) -> array:
    """`x` with the mask applied to the blocks of its last two axes."""
    name = "block_masked_mm"
    if mask is None:
        return x
    blocks = tuple(-(-length // size) for length in x.shape[-2:])
    fits = zip(require_array(name, mask).shape[-2:][::-1], blocks[::-1], strict=False)
    if x.ndim < 2 or any(length not in (1, count) for length, count in fits):
        raise ValueError(
            f"[{name}] {which} has an element for each block of {size} by {size} elements of shape "
            f"{shape_text(x.shape)}, (..., {', '.join(map(str, blocks))}), got shape "
            f"{shape_text(mask.shape)}."
        )
    if mask.shape[-2:] != blocks:
        mask = broadcast_to(mask, (*mask.shape[:-2], *blocks))
    batch = broadcast_shapes(name, mask.shape[:-2], x.shape[:-2])
    spread = broadcast_to(
        expand_dims(mask, (-1, -3)), (*mask.shape[:-2], blocks[0], size, blocks[1], size)
    )
    rows, columns = (count * size for count in blocks)
    whole = reshape(spread, (*mask.shape[:-2], rows, columns))
    fitting = whole[..., : x.shape[-2], : x.shape[-1]]
    if mask.dtype is bool_:
        result: array = where(fitting, x, 0.0)
    else:
        result = x * astype(fitting, x.dtype)
    return broadcast_to(result, (*batch, *x.shape[-2:]))


class SegmentedMatmul(Host):
    """For each pair of bounds, the product of the columns of `a` and the rows of `b` between them.

    Bounds are an array (count, 2); they are clamped to the common axis.
    """

    why_host = "it is a series of calls of BLAS"

    def infer(self, a: array, b: array, bounds: array) -> tuple[Shape, Dtype]:
        return (bounds.shape[0], a.shape[0], b.shape[1]), a.dtype

    def evaluate(self, a: np.ndarray, b: np.ndarray, bounds: np.ndarray) -> np.ndarray:
        prepare_blas()
        wide = np.float32 if a.itemsize == 2 else a.dtype
        left = a.astype(wide, copy=False)
        right = b.astype(wide, copy=False)
        result = np.zeros((len(bounds), a.shape[0], b.shape[1]), wide)
        for number, (start, stop) in enumerate(bounds.tolist()):
            part = slice(max(start, 0), max(stop, 0))
            result[number] = left[:, part] @ right[part]
        return result.astype(a.dtype, copy=False)

    def vjp(
        self, cotangent: array, out: array, a: array, b: array, bounds: array
    ) -> tuple[Any, ...]:
        inside = _inside(bounds, a.shape[1], a.dtype)

        def of_a() -> array:
            return sum(matmul(cotangent, swapaxes(b, 0, 1)) * expand_dims(inside, 1), 0)

        def of_b() -> array:
            return sum(matmul(swapaxes(a, 0, 1), cotangent) * expand_dims(inside, 2), 0)

        return of_a, of_b, None

    def jvp(
        self,
        tangents: tuple[array | None, ...],
        out: array,
        a: array,
        b: array,
        bounds: array,
    ) -> array | None:
        by_a = None if tangents[0] is None else apply(self, tangents[0], b, bounds)
        by_b = None if tangents[1] is None else apply(self, a, tangents[1], bounds)
        if by_a is None or by_b is None:
            return by_b if by_a is None else by_a
        return by_a + by_b

    def vmap(
        self, size: int, batched: tuple[bool, ...], a: array, b: array, bounds: array
    ) -> array:
        if not batched[0] and not batched[1]:
            found = apply(self, a, b, reshape(bounds, (-1, 2)))
            return reshape(found, (size, bounds.shape[1], *found.shape[1:]))
        inside = expand_dims(_inside(bounds, a.shape[-1], a.dtype), -2)
        return matmul(expand_dims(a, -3) * inside, expand_dims(b, -3))


def _inside(bounds: array, length: int, dtype: Dtype) -> array:
    """A mask for each pair of bounds: 1 for positions between them, else 0."""
    positions = arange(length, dtype=bounds.dtype)
    found: array = (positions >= bounds[..., :1]) & (positions < bounds[..., 1:])
    return astype(found, dtype)


def segmented_mm(a: array, b: array, /, segments: array, *, stream: StreamLike = None) -> array:
    """Separate products for segments of the common axis of two matrices.

    Args:
        a: A matrix (M, K).
        b: A matrix (K, N).
        segments: Bounds (..., 2): where segments of the axis of length K begin and end.
        stream: The stream or device to run on.

    Returns:
        The products (..., M, N).
    """
    name = "segmented_mm"
    dtype = _common_dtype(name, a, b)
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(
            f"[{name}] takes matrices with two axes, got shapes {shape_text(a.shape)} and "
            f"{shape_text(b.shape)}."
        )
    if a.shape[1] != b.shape[0]:
        raise ValueError(
            f"[{name}] cannot multiply {shape_text(a.shape)} by {shape_text(b.shape)}: the last "
            "axis of the first must be as long as the first axis of the second."
        )
    if not is_integer(require_array(name, segments).dtype):
        raise ValueError(f"[{name}] segments must be integers, got {segments.dtype.name}.")
    if segments.ndim == 0 or segments.shape[-1] != 2:
        raise ValueError(
            f"[{name}] segments have shape (..., 2), got {shape_text(segments.shape)}."
        )
    bounds = reshape(segments, (-1, 2))
    found = apply(SegmentedMatmul(), astype(a, dtype), astype(b, dtype), bounds, stream=stream)
    return reshape(found, (*segments.shape[:-1], a.shape[0], b.shape[1]))


def _common_dtype(name: str, a: Any, b: Any) -> Dtype:
    dtype = promote(require_array(name, a).dtype, require_array(name, b).dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{name}] takes real floating-point numbers, got {dtype.name}.")
    return dtype
