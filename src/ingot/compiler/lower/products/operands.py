"""The operands of matrix products: lengths, strides and buffers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ingot._native import Dtype
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer
from ingot.compiler.forms.nests import Area
from ingot.compiler.forms.size import Number
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.products.numbers import Numbers
from ingot.graph.dtype import uint32
from ingot.graph.shape import contiguous, size_of

__all__ = ["Matrices", "Product", "made_even", "merged", "product_of"]


def merged(
    lengths: Sequence[Number], strides: Sequence[Number]
) -> tuple[list[Number], list[Number]]:
    """Lengths and strides of the fewest axes with the same elements in the same order: none of
    length 1, and no two at a constant stride.
    """
    found: tuple[list[Number], list[Number]] = ([], [])
    for length, stride in zip(lengths, strides, strict=True):
        if length == 1:
            continue
        if found[0] and found[1][-1] == stride * length:
            found[0][-1] *= length
            found[1][-1] = stride
        else:
            found[0].append(length)
            found[1].append(stride)
    return found


def made_even(length: Number) -> Number:
    """A length rounded up to an even number."""
    return length + 1 if length % 2 != 0 else length


class Matrices(NamedTuple):
    """A stack of matrices: the memory of a value, or scratch memory from an offset on."""

    step: Step | Area | None
    dtype: Dtype
    stack: tuple[Number, ...]
    rows: Number
    columns: Number
    strides: tuple[Number, ...]  # in bytes; of the axes of the stack, then rows and columns
    offset: Number = 0
    # whether they stay the same in many products, so that packing them pays off for any number of
    # rows of results
    is_fixed: bool = False

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
        """The size of the elements without gaps."""
        return size_of((*self.stack, self.rows, self.columns)) * self.dtype.size

    def buffer(self, builder: NestBuilder, name: str, argument: int, numbers: Numbers) -> Buffer:
        """Declares the memory as a buffer. Symbols are named after the roles of axes, so that
        kernels for different sizes are equal.
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
        step = self.step if isinstance(self.step, Step) else None
        return builder.buffer(name, self.dtype, shape, strides, argument, offset, step)

    def transposed(self) -> Matrices:
        """The transposed matrices, in the same memory."""
        *above, row, column = self.strides
        return self._replace(rows=self.columns, columns=self.rows, strides=(*above, column, row))

    def in_pairs(self) -> Matrices | None:
        """Rows of an even number of adjacent bfloat16 as uint32 pairs; None if the rows are not of
        this form.
        """
        if self.column_stride != self.dtype.size or made_even(self.columns) != self.columns:
            return None
        return self.pairs()

    def pairs(self) -> Matrices:
        """Rows of an even number of adjacent bfloat16 as uint32 pairs."""
        strides = (*self.strides[:-1], 2 * self.dtype.size)
        return self._replace(dtype=uint32, columns=self.columns // 2, strides=strides)

    def padded(self, offset: Number, area: Area | None = None) -> Matrices:
        """A contiguous copy in scratch memory whose rows have an even number of elements."""
        columns = made_even(self.columns)
        strides = contiguous((*self.stack, self.rows, columns), self.dtype.size)
        return self._replace(step=area, columns=columns, strides=strides, offset=offset)

    def converted(self, dtype: Dtype, offset: Number, area: Area | None = None) -> Matrices:
        """A contiguous copy in scratch memory with another dtype."""
        strides = contiguous((*self.stack, self.rows, self.columns), dtype.size)
        return self._replace(step=area, dtype=dtype, strides=strides, offset=offset)


class Product(NamedTuple):
    """left (m, k) times right (k, n), for each index along the stack."""

    left: Matrices
    right: Matrices
    result: Matrices
    dtype: Dtype  # of the sums
    is_transposed: bool = False  # whether the result of the step is the transpose of this one

    def transposed(self) -> Product:
        """The product whose result is the transpose of this one's."""
        left, right = self.right.transposed(), self.left.transposed()
        result = self.result.transposed()
        return Product(left, right, result, self.dtype, not self.is_transposed)

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
        """Terms of each sum."""
        return self.left.columns

    @property
    def stack(self) -> tuple[Number, ...]:
        """The lengths of the axes of the stack."""
        return self.left.stack

    @property
    def has_transposed_operands(self) -> bool:
        """Whether both operands are stored by columns: products then have to transpose one, unless
        they compute the transpose of the result.
        """
        return all(
            each.row_stride == each.dtype.size != each.column_stride and each.rows > 1
            for each in (self.left, self.right)
        )


def product_of(
    step: Step,
    strides_of: dict[Step, tuple[int, ...]],
    dtype: Dtype,
    fixed: Collection[Step] = (),
) -> Product:
    """The product of a step, with sums of a dtype. Axes of length 1 are dropped from the stack. The
    operands in `fixed` stay the same in many products.
    """
    kept = [axis for axis, length in enumerate(step.shape[:-2]) if length != 1]

    def matrices(value: Step) -> Matrices:
        strides = strides_of[value]
        stack = tuple(value.shape[axis] for axis in kept)
        moved = (*(strides[axis] for axis in kept), *strides[-2:])
        rows, columns = value.shape[-2:]
        is_fixed = value in fixed
        return Matrices(value, value.dtype, stack, rows, columns, moved, is_fixed=is_fixed)

    left, right = step.inputs
    return Product(matrices(left), matrices(right), matrices(step), dtype)
