"""Matrix products."""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype, SmallProduct
from ingot.graph.numerics.blas import has_gemm, is_small, small_product
from ingot.graph.roles.products.tiled import Tiled

__all__ = ["Product"]


class Product(Tiled, role=True):
    """Products of the matrices in the last two axes of two inputs, whose dtypes and other axes are
    equal: (..., m, k) and (..., k, n) give (..., m, n).

    Write the rules. Compiled programs have loop nests for it, into which elementwise consumers are
    fused; small products, and those of few rows of complex matrices, are BLAS calls.
    """

    why_host = "BLAS computes it as a whole"

    def is_left_to_blas(self, left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        """Whether compiled programs leave a product of stacks of these shapes to BLAS."""
        return is_small(left, right)

    def has_gemm(self, dtype: Dtype, left: tuple[int, ...], right: tuple[int, ...]) -> bool:
        """Whether BLAS can compute a product of stacks of this dtype and these shapes."""
        return has_gemm(dtype, left, right)

    def runs_alone(self, *shapes: tuple[int, ...]) -> bool:
        return not is_small(*shapes)

    def small_product(self, *values: np.ndarray) -> SmallProduct | None:
        return small_product(*values)
