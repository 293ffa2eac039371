"""Matrix products selected by indices, as in mixture-of-experts layers.

One op covers it: sums of products of matrices, each selected from a stack by an index. Its
derivatives are of the same kind, with the indices exchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot._native import Dtype, array, constant
from ingot.graph.device import StreamLike
from ingot.graph.dtype import from_numpy, int32, int64, is_floating, is_integer, promote
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.libraries import prepare_blas
from ingot.graph.op import apply, apply_change
from ingot.graph.roles import Host
from ingot.graph.shape import Shape, broadcast_shapes, shape_text, size_of
from ingot.ops.elementwise.casting import astype
from ingot.ops.index.indexing import take
from ingot.ops.internal.accumulate import accumulation
from ingot.ops.products.contraction import matmul
from ingot.ops.shape.creation import arange
from ingot.ops.shape.movement import broadcast_to, expand_dims, require_array, reshape, swapaxes
from ingot.ops.shape.slicing import broadcast_batch
from ingot.tuning_products import GATHERED_CALL_ELEMENTS

__all__ = ["constant_of", "gather_mm", "groups", "indices_of", "within"]


@dataclass(frozen=True)
class GatheredProducts(Host):
    """For each of `count` results the sum of the products `a[i] @ b[j]` that belong to it.

    The inputs are stacks of matrices, and three vectors of indices: product n is that of
    `a[left[n]]` and `b[right[n]]`, and belongs to result `position[n]`.
    """

    count: int

    first_index = 2
    why_host = "it is a series of products"

    def infer(
        self, a: array, b: array, left: array, right: array, position: array
    ) -> tuple[Shape, Dtype]:
        return (self.count, a.shape[-2], b.shape[-1]), a.dtype

    def evaluate(
        self,
        a: np.ndarray,
        b: np.ndarray,
        left: np.ndarray,
        right: np.ndarray,
        position: np.ndarray,
    ) -> np.ndarray:
        prepare_blas()
        wide = np.float32 if a.itemsize == 2 else a.dtype
        result = np.zeros((self.count, a.shape[-2], b.shape[-1]), wide)
        indices = (
            within("gather_mm", left, len(a)),
            within("gather_mm", right, len(b)),
            within("gather_mm", position, self.count),
        )
        if a.shape[-1] == 0 or result.size == 0:
            return result.astype(a.dtype, copy=False)
        # Products that share a factor or a result are merged into one.
        counts = [_distinct(x) for x in indices]
        if counts[2] == len(left) and _fits_copies(a, b, len(left)):
            result[indices[2]] = _wide(a[indices[0]], result) @ _wide(b[indices[1]], result)
        else:
            costs = _costs(a, b, counts, len(left))
            _STRATEGIES[costs.index(min(costs))](result, a, b, *indices)
        return result.astype(a.dtype, copy=False)

    def vjp(
        self,
        cotangent: array,
        out: array,
        a: array,
        b: array,
        left: array,
        right: array,
        position: array,
    ) -> tuple[Any, ...]:
        def of_a() -> array:
            op = GatheredProducts(a.shape[0])
            return apply(op, cotangent, swapaxes(b, -1, -2), position, right, left)

        def of_b() -> array:
            op = GatheredProducts(b.shape[0])
            return apply(op, swapaxes(a, -1, -2), cotangent, left, position, right)

        return of_a, of_b, None, None, None

    def jvp(
        self,
        tangents: tuple[array | None, ...],
        out: array,
        a: array,
        b: array,
        left: array,
        right: array,
        position: array,
    ) -> array | None:
        by_a = None if tangents[0] is None else apply(self, tangents[0], b, left, right, position)
        by_b = None if tangents[1] is None else apply(self, a, tangents[1], left, right, position)
        if by_a is None or by_b is None:
            return by_b if by_a is None else by_a
        return by_a + by_b

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> array:
        a, b, *indices = inputs
        lengths = [a.shape[-3], b.shape[-3], self.count]
        # Stacks that are shared by the batch stay as they are; each example has its own results.
        own = [batched[0], batched[1], True]
        moved = []
        for index, has, length, separate in zip(indices, batched[2:], lengths, own, strict=True):
            whole = broadcast_batch(index, size, has)
            if separate:
                # looked up, so that an index out of range raises, not selects from a neighbour
                whole = take(arange(length, dtype=int64), whole)
                whole = whole + expand_dims(arange(size, dtype=int64) * length, 1)
            moved.append(reshape(whole, (-1,)))
        stacks = [
            reshape(x, (size * length, *x.shape[-2:])) if has else x
            for x, has, length in zip((a, b), batched, lengths, strict=False)
        ]
        result = apply(GatheredProducts(size * self.count), *stacks, *moved)
        return reshape(result, (size, self.count, *result.shape[1:]))


def constant_of(data: np.ndarray) -> array:
    """An array with this memory."""
    dtype = from_numpy(data.dtype)
    assert dtype is not None
    return constant(data, dtype)


def within(name: str, index: np.ndarray, count: int) -> np.ndarray:
    """Nonnegative indices, given some that may count from the end."""
    lowest, highest = (int(index.min()), int(index.max())) if index.size else (0, -1)
    if lowest < -count or highest >= count:
        wrong = index[(index < -count) | (index >= count)][0]
        raise IndexError(f"[{name}] index {wrong} is out of range for {count} matrices.")
    found = index.astype(np.intp)
    return found if lowest >= 0 else np.where(found < 0, found + count, found)


def _costs(a: np.ndarray, b: np.ndarray, counts: list[int], products: int) -> list[int]:
    """The costs of the strategies, given the numbers of distinct indices and of products: elements
    that are copied next to each other, and calls as as many elements.
    """
    first, second = size_of(a.shape[1:]), size_of(b.shape[1:])
    copied = (second, first, first + second)
    return [
        products * elements + count * GATHERED_CALL_ELEMENTS
        for elements, count in zip(copied, counts, strict=True)
    ]


def _fits_copies(a: np.ndarray, b: np.ndarray, products: int) -> bool:
    """Whether copies of all factors, to multiply them at once, cost less than a call."""
    return products * (size_of(a.shape[1:]) + size_of(b.shape[1:])) <= GATHERED_CALL_ELEMENTS


def groups(index: np.ndarray) -> list[tuple[int, list[int]]]:
    """Each distinct value, in order, and its positions. By a dict: mostly there are a few."""
    positions: dict[int, list[int]] = {}
    for position, value in enumerate(index.tolist()):
        positions.setdefault(value, []).append(position)
    return sorted(positions.items())


def _by_left(
    result: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    position: np.ndarray,
) -> None:
    """One product per matrix of `a`, with the concatenated columns of its right factors."""
    rows = a.shape[1]
    common, columns = b.shape[1:]
    for which, products in groups(left):
        factors = _wide(b[right[products]], result).transpose(1, 0, 2).reshape(common, -1)
        found = (_wide(a[which], result) @ factors).reshape(rows, len(products), columns)
        _add(result, position[products], found.transpose(1, 0, 2))


def _by_right(
    result: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    position: np.ndarray,
) -> None:
    """One product per matrix of `b`, with the concatenated rows of its left factors. Its matrices
    are read in place, as a rule the larger ones, so these are products by kernels, which need no
    conversion of half types.
    """
    rows, common = a.shape[1:]
    is_once = _distinct(position) == len(position)
    for which, products in groups(right):
        factors = a[left[products]].reshape(-1, common), b[which]
        if not is_once:  # sums are rounded once
            factors = _wide(factors[0], result), _wide(factors[1], result)
        found = matmul(*map(constant_of, factors))._data.reshape(-1, rows, b.shape[2])
        if is_once:
            result[position[products]] = found
        else:
            _add(result, position[products], found)


def _by_result(
    result: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    position: np.ndarray,
) -> None:
    """One product per result: its terms are concatenated along the common axis."""
    rows, columns = a.shape[1], b.shape[2]
    columns_of_a = a.transpose(0, 2, 1)  # contiguous where `a` is transposed, as in gradients
    for which, products in groups(position):
        rows_of_a = _wide(columns_of_a[left[products]], result).reshape(-1, rows).T
        result[which] = rows_of_a @ _wide(b[right[products]], result).reshape(-1, columns)


def _add(result: np.ndarray, position: np.ndarray, found: np.ndarray) -> None:
    """Adds each of the matrices `found` to the result at its position, in order."""
    rows = found.reshape(len(found), -1)
    apply_change(accumulation("add", result.reshape(len(result), -1), position, rows))


def _distinct(index: np.ndarray) -> int:
    return len(set(index.tolist()))


def _wide(x: np.ndarray, result: np.ndarray) -> np.ndarray:
    """Matrices in the dtype of the sums."""
    return x.astype(result.dtype, copy=False)


_STRATEGIES: tuple[Callable[..., None], ...] = (_by_left, _by_right, _by_result)


def gather_mm(
    a: array,
    b: array,
    /,
    lhs_indices: array | None = None,
    rhs_indices: array | None = None,
    *,
    sorted_indices: bool = False,
    stream: StreamLike = None,
) -> array:
    """Products of matrices that indices choose from two stacks.

    Args:
        a: Matrices in the last two axes.
        b: Matrices in the last two axes.
        lhs_indices: Which of the matrices of `a`, counted over all axes but the last two. By
            default all of them, in their shape.
        rhs_indices: Which of the matrices of `b`.
        sorted_indices: Whether the indices are sorted, which makes no difference here.
        stream: The stream or device to run on.

    Returns:
        The products, in the shape that the indices have when they are broadcast.
    """
    name = "gather_mm"
    if lhs_indices is None and rhs_indices is None:
        return matmul(a, b, stream=stream)
    if require_array(name, a).ndim == 1:
        row = gather_mm(expand_dims(a, 0), b, lhs_indices, rhs_indices, stream=stream)
        return row[..., 0, :]
    if require_array(name, b).ndim == 1:
        column = gather_mm(a, expand_dims(b, 1), lhs_indices, rhs_indices, stream=stream)
        return column[..., 0]
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError(f"[{name}] takes arrays with at least one axis, got a scalar.")
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"[{name}] cannot multiply matrices of {shape_text(a.shape)} by those of "
            f"{shape_text(b.shape)}: the last axis of the first must be as long as the second to "
            "last axis of the second."
        )
    dtype = promote(a.dtype, b.dtype)
    if not is_floating(dtype):
        raise ValueError(f"[{name}] takes real floating-point numbers, got {dtype.name}.")
    left, right, shape = indices_of(name, lhs_indices, rhs_indices, a.shape[:-2], b.shape[:-2])
    stacks = [reshape(astype(x, dtype), (size_of(x.shape[:-2]), *x.shape[-2:])) for x in (a, b)]
    count = size_of(shape)
    op = GatheredProducts(count)
    product = apply(op, *stacks, left, right, arange(count, dtype=int32), stream=stream)
    return reshape(product, (*shape, a.shape[-2], b.shape[-1]))


def indices_of(
    name: str, lhs_indices: Any, rhs_indices: Any, first: Shape, second: Shape
) -> tuple[array, array, Shape]:
    """Two vectors of indices into stacks of two shapes, and their broadcast shape."""
    left = _checked_indices(name, lhs_indices, first)
    right = _checked_indices(name, rhs_indices, second)
    shape = broadcast_shapes(name, left.shape, right.shape)
    flat = [reshape(broadcast_to(x, shape), (-1,)) for x in (left, right)]
    return flat[0], flat[1], shape


def _checked_indices(name: str, indices: Any, stack: Shape) -> array:
    """Nonnegative indices; of all matrices of a stack by default."""
    count = size_of(stack)
    if indices is None:
        return reshape(arange(count, dtype=int32), stack)
    if not is_integer(require_array(name, indices).dtype):
        raise ValueError(f"[{name}] indices must be integers, got {indices.dtype.name}.")
    return astype(indices, int64)
