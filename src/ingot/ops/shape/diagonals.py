"""Diagonals and triangles of matrices: extraction, construction and masking."""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.device import StreamLike
from ingot.graph.dtype import float32
from ingot.graph.errors import RangeError
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import apply
from ingot.graph.roles import Linear, View
from ingot.graph.shape import MAX_LENGTH, Shape, normalize_axis, shape_text
from ingot.ops.elementwise.casting import astype
from ingot.ops.elementwise.comparison import where
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.creation import arange, zeros
from ingot.ops.shape.movement import require_array, reshape, transpose
from ingot.ops.shape.slicing import SliceUpdate

__all__ = ["diag", "diagonal", "eye", "identity", "trace", "tri", "tril", "triu"]


def _diagonal_span(rows: int, columns: int, offset: int) -> tuple[int, int]:
    """The length of a diagonal and the flat position of its first element."""
    if offset >= 0:
        length = min(rows, columns - offset)
        return max(length, 0), min(offset, columns)
    length = min(rows + offset, columns)
    return max(length, 0), min(-offset, rows) * columns


@dataclass(frozen=True)
class Diagonal(Linear, View):
    """The diagonal at `offset` of the matrices in the last two axes, as a view."""

    offset: int

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        *outer, rows, columns = x.shape
        length, _ = _diagonal_span(rows, columns, self.offset)
        return (*outer, length), x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        return np.diagonal(x, self.offset, -2, -1)

    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape]:
        *outer, row, column = strides
        first = self.offset * column if self.offset >= 0 else -self.offset * row
        empty = _diagonal_span(shape[-2], shape[-1], self.offset)[0] == 0
        return 0 if empty else first, (*outer, row + column)

    def vjp(self, cotangent: array, out: array, x: array) -> tuple[array]:
        return (_matrix_with(cotangent, x.shape[-2], x.shape[-1], self.offset),)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        return apply(self, x)


def _matrix_with(values: array, rows: int, columns: int, offset: int) -> array:
    """Matrices of zeros with `values` (their last axis) on the diagonal at `offset`."""
    outer = values.shape[:-1]
    length, start = _diagonal_span(rows, columns, offset)
    flat = zeros((*outer, rows * columns), values.dtype)
    if length > 0:
        stop = start + (length - 1) * (columns + 1) + 1
        ones = (1,) * len(outer)
        position = SliceUpdate((0,) * len(outer) + (start,), (*outer, stop), (*ones, columns + 1))
        flat = apply(position, flat, values)
    return reshape(flat, (*outer, rows, columns))


def diagonal(
    a: array, offset: int = 0, axis1: int = 0, axis2: int = 1, stream: StreamLike = None
) -> array:
    """The diagonals of matrices.

    Args:
        a: An array with at least two axes.
        offset: How far to the right of the main diagonal; to the left if negative.
        axis1: The axis of the rows.
        axis2: The axis of the columns.
        stream: The stream or device to run on.

    Returns:
        The array without these two axes and with the diagonals along a new last axis.
    """
    return _diagonal("diagonal", a, offset, axis1, axis2, stream)


MAX_OFFSET = 2**31 - 1  # NumPy's: larger offsets are beyond every matrix anyway


def _diagonal(
    name: str, a: array, offset: int, axis1: int, axis2: int, stream: StreamLike
) -> array:
    ndim = require_array(name, a).ndim
    if not isinstance(offset, int):
        raise TypeError(f"[{name}] an offset must be an int, got {offset!r}.")
    if ndim < 2:
        raise ValueError(f"[{name}] needs at least 2 axes, got shape {shape_text(a.shape)}.")
    rows = normalize_axis(name, axis1, ndim)
    columns = normalize_axis(name, axis2, ndim)
    if rows == columns:
        raise ValueError(f"[{name}] axis1 and axis2 must differ, but both are axis {rows}.")
    others = [axis for axis in range(ndim) if axis not in (rows, columns)]
    matrices = transpose(a, [*others, rows, columns], stream=stream)
    offset = max(-MAX_OFFSET, min(offset, MAX_OFFSET))
    return apply(Diagonal(offset), matrices, stream=stream)


def diag(a: array, /, k: int = 0, *, stream: StreamLike = None) -> array:
    """The k-th diagonal of a matrix, or the matrix with a vector on its k-th diagonal.

    Args:
        a: An array with one or two axes.
        k: How far to the right of the main diagonal; to the left if negative.
        stream: The stream or device to run on.
    """
    shape = require_array("diag", a).shape
    if not isinstance(k, int):
        raise TypeError(f"[diag] k must be an int, got {k!r}.")
    if len(shape) == 2:
        return _diagonal("diag", a, k, 0, 1, stream)
    if len(shape) != 1:
        raise ValueError(f"[diag] takes an array with 1 or 2 axes, got shape {shape_text(shape)}.")
    length = shape[0] + abs(k)
    return _matrix_with(a, length, length, k)


def trace(
    a: array,
    /,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """The sums of diagonals.

    Args:
        a: An array with at least two axes.
        offset: How far to the right of the main diagonal; to the left if negative.
        axis1: The axis of the rows.
        axis2: The axis of the columns.
        dtype: What elements are converted to before they are added.
        stream: The stream or device to run on.
    """
    elements = _diagonal("trace", a, offset, axis1, axis2, stream)
    if dtype is not None:
        elements = astype(elements, dtype, stream)
    return sum(elements, -1, stream=stream)


def _below(rows: int, columns: int, k: int, stream: StreamLike) -> array:
    """True at and below the k-th diagonal."""
    row = reshape(arange(rows, stream=stream), (rows, 1))
    column = reshape(arange(-k, columns - k, stream=stream), (1, columns))
    return row >= column


def _check_matrix_size(name: str, *numbers: int) -> None:
    for number in numbers:
        if not isinstance(number, int):
            raise TypeError(f"[{name}] takes ints for rows, columns and diagonal, got {number!r}.")
        if type(number) is int and not -MAX_LENGTH - 1 <= number <= MAX_LENGTH:
            raise RangeError(f"[{name}] a matrix has at most {MAX_LENGTH} rows, got {number}.")


def eye(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: Dtype | None = float32,
    *,
    stream: StreamLike = None,
) -> array:
    """A matrix with ones on a diagonal and zeros elsewhere.

    Args:
        n: The number of rows.
        m: The number of columns; as many as rows without it.
        k: How far the ones are to the right of the main diagonal; to the left if negative.
        dtype: The dtype of the matrix.
        stream: The stream or device to run on.
    """
    columns = n if m is None else m
    _check_matrix_size("eye", n, columns, k)
    if n < 0 or columns < 0:
        raise ValueError(f"[eye] a matrix cannot have the shape {shape_text((n, columns))}.")
    row = reshape(arange(k, n + k, stream=stream), (n, 1))
    column = reshape(arange(columns, stream=stream), (1, columns))
    return astype(row == column, dtype or float32, stream)


def identity(n: int, dtype: Dtype | None = float32, *, stream: StreamLike = None) -> array:
    """A square matrix with ones on its diagonal and zeros elsewhere."""
    return eye(n, dtype=dtype, stream=stream)


def tri(
    n: int,
    m: int | None = None,
    k: int = 0,
    dtype: Dtype | None = None,
    *,
    stream: StreamLike = None,
) -> array:
    """A matrix with ones at and below a diagonal and zeros elsewhere.

    Args:
        n: The number of rows.
        m: The number of columns; as many as rows without it.
        k: How far the diagonal is to the right of the main one; to the left if negative.
        dtype: The dtype of the matrix; float32 without it.
        stream: The stream or device to run on.
    """
    columns = n if m is None else m
    _check_matrix_size("tri", n, columns, k)
    return astype(_below(max(n, 0), max(columns, 0), k, stream), dtype or float32, stream)


def _triangle(name: str, x: array, k: int, lower: bool, stream: StreamLike) -> array:
    shape = require_array(name, x).shape
    _check_matrix_size(name, k)
    if len(shape) < 2:
        raise ValueError(f"[{name}] needs at least 2 axes, got shape {shape_text(shape)}.")
    rows, columns = shape[-2:]
    zero = zeros((), x.dtype)
    if lower:
        return where(_below(rows, columns, k, stream), x, zero, stream=stream)
    return where(_below(rows, columns, k - 1, stream), zero, x, stream=stream)


def tril(x: array, k: int = 0, *, stream: StreamLike = None) -> array:
    """The elements of matrices at and below the k-th diagonal, and zeros above it."""
    return _triangle("tril", x, k, True, stream)


def triu(x: array, k: int = 0, *, stream: StreamLike = None) -> array:
    """The elements of matrices at and above the k-th diagonal, and zeros below it."""
    return _triangle("triu", x, k, False, stream)
