"""Moves sums of products out of loops.

The cotangent of a matrix that a loop multiplies by in every step is a sum of one product per step.
If it is accumulated in the loop, each step reads and writes the whole matrix. But the sum is also a
single product of the stacked operands: `sum_t a[t].T @ b[t] = concatenate(a).T @ concatenate(b)`.
"""

from __future__ import annotations

from typing import Any

from ingot._native import Node, array
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.roles import Product
from ingot.ops.internal.adjoints import Transpose
from ingot.ops.products.contraction import matmul
from ingot.ops.shape.movement import moveaxis, reshape, swapaxes

__all__ = ["SummedProduct", "summed_product"]


@dataclass(frozen=True, eq=False)
class SummedProduct:
    """A product to be summed over all steps, given by its operands before transposition. `flips`
    says which of left, right and result to transpose.
    """

    left: Node
    right: Node
    flips: tuple[bool, bool, bool]

    def total(self, left: array, right: array) -> array:
        """The sum, from the operands of all steps, stacked along their first axis."""
        flip_left, flip_right, flip_result = self.flips
        rows = _joined(left) if flip_left else _joined(_swapped(left))
        columns = _joined(_swapped(right)) if flip_right else _joined(right)
        if flip_result:  # exchanging the factors transposes the product without a copy
            rows, columns = columns, rows
        return matmul(swapaxes(rows, 0, 1), columns)


def _swapped(stack: array) -> array:
    """A stack of matrices, each transposed."""
    return moveaxis(stack, 1, 2)


def _joined(stack: array) -> array:
    """The rows of all matrices of a stack, concatenated."""
    return reshape(stack, (stack.shape[0] * stack.shape[1], stack.shape[2]))


def summed_product(share: array) -> SummedProduct | None:
    """The product that a cotangent is, if stacking its operands moves less data than accumulating
    it.
    """
    node, flip_result = _without_transposes(share._node)
    if not isinstance(node.op, Product) or len(node.shape) != 2:
        return None
    left, right = node.inputs
    if node.dtype is not left.dtype:
        return None  # a product that is not rounded to the dtype of its operands
    (rows, inner), columns = left.shape, right.shape[1]
    if 2 * rows * columns <= inner * (rows + columns):
        return None
    (left, flip_left), (right, flip_right) = map(_without_transposes, (left, right))
    return SummedProduct(left, right, (flip_left, flip_right, flip_result))


def _without_transposes(node: Node) -> tuple[Node, bool]:
    """The matrix below transposes, and whether it is transposed."""
    flipped = False
    op: Any = node.op
    while isinstance(op, Transpose) and op.axes == (1, 0):
        node, flipped = node.inputs[0], not flipped
        op = node.op
    return node, flipped
