"""The operands of a product of matrices: their lengths and strides, for builders of nests."""

from __future__ import annotations

from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.numbers import Numbers
from ingot.graph.dtype import uint32
from ingot.graph.shape import contiguous, size_of

__all__ = ["Matrices", "Product", "made_even", "product_of"]


def made_even(length: Number) -> Number:
    """A length, or one more."""
    return length + 1 if length % 2 != 0 else length


class Matrices(NamedTuple):
    """A stack of matrices in memory: of a value, or in scratch memory from an offset on."""

    step: Step | None
    dtype: Dtype
    stack: tuple[Number, ...]
    rows: Number
    columns: Number
    strides: tuple[Number, ...]  # of the stack's axes, the rows and the columns, in bytes
    offset: Number = 0

    @property
    def row_stride(self) -> Number:
        """Bytes from a row to the next."""
        return self.strides[-2]

    @property
    def column_stride(self) -> Number:
        """Bytes from a column to the next."""
        return self.strides[-1]

    @property
    def nbytes(self) -> Number:
        """What the elements take where they are next to each other."""
        return size_of((*self.stack, self.rows, self.columns)) * self.dtype.size

    def buffer(self, builder: NestBuilder, name: str, argument: int, numbers: Numbers) -> Buffer:
        """The memory as a kernel sees it. Numbers are called by the roles of axes, so that kernels
        for other sizes are equal.
        """
        size = self.dtype.size
        shape = [numbers(f"s{axis}", length) for axis, length in enumerate(self.stack)]
        strides = [
            numbers.stride(f"{name}.s{axis}", stride, size)
            for axis, stride in enumerate(self.strides[:-2])
        ]
        shape += [numbers(f"{name}.rows", self.rows), numbers(f"{name}.columns", self.columns)]
        strides += [
            numbers.stride(f"{name}.row", self.row_stride, size),
            numbers.stride(f"{name}.column", self.column_stride, size),
        ]
        offset = numbers(f"{name}.offset", self.offset) if self.offset else 0
        return builder.buffer(name, self.dtype, shape, strides, argument, offset, self.step)

    def transposed(self) -> Matrices:
        """The same elements with rows for columns."""
        *above, row, column = self.strides
        return self._replace(rows=self.columns, columns=self.rows, strides=(*above, column, row))

    def in_pairs(self) -> Matrices | None:
        """Rows of an even number of bfloat16 that are adjacent, as words of two; None if they are
        not such.
        """
        if self.column_stride != self.dtype.size or made_even(self.columns) != self.columns:
            return None
        return self.pairs()

    def pairs(self) -> Matrices:
        """Rows of an even number of adjacent bfloat16 as words of two."""
        strides = (*self.strides[:-1], 2 * self.dtype.size)
        return self._replace(dtype=uint32, columns=self.columns // 2, strides=strides)

    def padded(self, offset: Number) -> Matrices:
        """A copy in scratch memory, row by row, whose rows have an even number of elements."""
        columns = made_even(self.columns)
        strides = contiguous((*self.stack, self.rows, columns), self.dtype.size)
        return Matrices(None, self.dtype, self.stack, self.rows, columns, strides, offset)

    def converted(self, dtype: Dtype, offset: Number) -> Matrices:
        """The same matrices of another dtype in scratch memory, row by row."""
        strides = contiguous((*self.stack, self.rows, self.columns), dtype.size)
        return Matrices(None, dtype, self.stack, self.rows, self.columns, strides, offset)


class Product(NamedTuple):
    """left (m, k) times right (k, n), for each place in a stack."""

    left: Matrices
    right: Matrices
    result: Matrices
    dtype: Dtype  # of sums

    def transposed(self) -> Product:
        """The product whose result is the transpose of this one's."""
        left, right = self.right.transposed(), self.left.transposed()
        return Product(left, right, self.result.transposed(), self.dtype)

    @property
    def m(self) -> Number:
        """Rows of the result."""
        return self.left.rows

    @property
    def n(self) -> Number:
        """Columns of the result."""
        return self.right.columns

    @property
    def k(self) -> Number:
        """Products in a sum."""
        return self.left.columns

    @property
    def stack(self) -> tuple[Number, ...]:
        """The lengths of the axes of the stack."""
        return self.left.stack


def product_of(step: Step, strides_of: dict[Step, tuple[int, ...]], dtype: Dtype) -> Product:
    """The product that a step is, with sums of a dtype. The stack has no axes of length 1."""
    kept = [axis for axis, length in enumerate(step.shape[:-2]) if length != 1]

    def matrices(value: Step) -> Matrices:
        strides = strides_of[value]
        stack = tuple(value.shape[axis] for axis in kept)
        moved = (*(strides[axis] for axis in kept), *strides[-2:])
        rows, columns = value.shape[-2:]
        return Matrices(value, value.dtype, stack, rows, columns, moved)

    left, right = step.inputs
    return Product(matrices(left), matrices(right), matrices(step), dtype)
