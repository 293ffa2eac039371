"""The Hadamard transform: products with orthogonal matrices of plus and minus one.

The matrix for length m * 2 ** k is the Kronecker product of one of order m and k of order 2, and so
the transform is a few products with small matrices, which BLAS computes, along axes of their own.
"""

from __future__ import annotations

from functools import cache
from math import sqrt
from typing import Any

import numpy as np

from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float16, float32, is_floating
from ingot.graph.shape import shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.products.contraction import matmul
from ingot.ops.shape.movement import require_array, reshape, swapaxes
from ingot.tuning import MAX_HADAMARD_FACTOR

__all__ = ["hadamard_transform"]

# Matrices of 4 x 4 circulant blocks, each given by its first row.
_CIRCULANT_BLOCKS = {
    20: """
        +---- -++++ --++- -+--+
        +---- +---- +-++- --++-
        ++--+ -+--+ +---- +----
        +-++- ++--+ -++++ +----
    """,
    28: """
        +------ --++++- -+-++-+ -++--++
        ++----+ +------ +--++-- -+-++-+
        +-+--+- -++--++ +------ ++----+
        +--++-- +-+--+- --++++- +------
    """,
}
_ORDERS = (1, 12, 20, 28)


def _matrix_of_12() -> np.ndarray:
    """Paley's construction, from the quadratic residues modulo 5."""
    core = np.array([0, 1, -1, -1, 1])
    conference = np.ones((6, 6), int)
    conference[0, 0] = 0
    for row in range(5):
        conference[row + 1, 1:] = np.roll(core, row)
    return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(
        np.eye(6, dtype=int), [[1, -1], [-1, -1]]
    )


@cache
def _matrix(order: int) -> np.ndarray:
    """The matrix of one of the orders, or of a power of two."""
    if order == 12:
        return _matrix_of_12()
    if order not in _CIRCULANT_BLOCKS:
        result = np.ones((1, 1), int)
        while len(result) < order:
            result = np.kron(result, [[1, 1], [1, -1]])
        return result
    rows = []
    for line in _CIRCULANT_BLOCKS[order].split("\n"):
        firsts = [[1 if sign == "+" else -1 for sign in block] for block in line.split()]
        for shift in range(order // 4 if firsts else 0):
            rows.append(np.concatenate([np.roll(first, shift) for first in firsts]))
    return np.array(rows)


def _factors(length: int) -> list[int] | None:
    """The orders of matrices whose Kronecker product has a length; None if there are none."""
    for order in _ORDERS:
        power, rest = divmod(length, order)
        if rest == 0 and power & (power - 1) == 0 and power > 0:
            found = [order] if order > 1 else []
            while power > 1:
                found.append(min(power, MAX_HADAMARD_FACTOR))
                power //= found[-1]
            return found
    return None


def hadamard_transform(a: Any, scale: float | None = None, stream: StreamLike = None) -> array:
    """Products of the rows along the last axis with a Hadamard matrix.

    Args:
        a: An array whose last axis is m * 2 ** k long, with m one of 1, 12, 20 and 28.
        scale: A factor for the result; by default the inverse root of the length, with
            which the matrix is orthogonal.
        stream: The stream or device to run on.
    """
    x = require_array("hadamard_transform", a)
    length = x.shape[-1] if x.ndim > 0 else 1
    if x.size == 0:
        raise ValueError(
            f"[hadamard_transform] takes arrays with elements, got shape {shape_text(x.shape)}."
        )
    factors = _factors(length)
    if factors is None:
        raise ValueError(
            "[hadamard_transform] lengths are m * 2 ** k with m one of 1, 12, 20 and 28, got "
            f"{length}."
        )
    dtype = x.dtype if is_floating(x.dtype) else float32
    y = astype(x, float32 if dtype.size <= float16.size else dtype, stream)
    after = length
    for factor in factors:
        after //= factor
        matrix = astype(array(_matrix(factor)), y.dtype)
        rows = swapaxes(reshape(y, (-1, factor, after)), -1, -2)
        y = swapaxes(matmul(rows, matrix, stream=stream), -1, -2)
    result = reshape(y, x.shape) * (1 / sqrt(length) if scale is None else float(scale))
    return astype(result, dtype, stream)
