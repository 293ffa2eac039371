"""Products of matrices and tensors, all built on one op.

`Matmul` takes stacks of matrices of equal floating-point dtype and equal batch axes. Everything
else that users may write (vectors, broadcast batches, mixed dtypes, products over any axes) is
brought into that form by casts and movements, which are views wherever strides can express them.
`WideMatmul` leaves products of half types in float32, for `addmm` to add to before it rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from functools import partial as deferred
from typing import Any, NoReturn

import numpy as np

from ingot import _native
from ingot._native import Dtype, array, make, wrap
from ingot.graph.boundary import at_boundary
from ingot.graph.device import StreamLike
from ingot.graph.dtype import bfloat16, complex64, float16, float32, is_inexact, promote
from ingot.graph.numerics.blas import matrix_product
from ingot.graph.roles import Product
from ingot.graph.shape import (
    Shape,
    as_axes,
    broadcast_shapes,
    normalize_axis,
    same_shape,
    shape_text,
    size_of,
)
from ingot.ops.elementwise.casting import AsType, astype
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.internal.adjoints import Reshape, Transpose
from ingot.ops.reduce.reduction import sum
from ingot.ops.shape.movement import broadcast_to, reshape, transpose
from ingot.tuning import MAX_FOLDED_COLUMNS

__all__ = ["addmm", "inner", "kron", "matmul", "outer", "tensordot", "vecdot"]


class Matmul(Product):
    """Products of the matrices in the last two axes; dtypes and the axes in front are equal."""

    def infer(self, a: array, b: array) -> tuple[Shape, Dtype]:
        return (*a.shape[:-1], b.shape[-1]), a.dtype

    def evaluate(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        product = matrix_product(_for_blas(a), _for_blas(b))
        if product.itemsize != a.itemsize:
            product = product.astype(a.dtype)
        if product.ndim > 2 and product.shape[:-2] != a.shape[:-2]:
            product = np.broadcast_to(product, (*a.shape[:-1], b.shape[-1]))
        return product

    def vjp(self, cotangent: array, out: array, a: array, b: array) -> tuple[Any, Any]:
        return deferred(_cotangent_of_a, cotangent, a, b), deferred(
            _cotangent_of_b, cotangent, a, b
        )

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, a: array, b: array
    ) -> array | None:
        by_a = None if tangents[0] is None else _product(tangents[0], b)
        by_b = None if tangents[1] is None else _product(a, tangents[1])
        if by_a is None or by_b is None:
            return by_b if by_a is None else by_a
        return by_a + by_b

    def vmap(self, size: int, batched: tuple[bool, ...], a: array, b: array) -> array:
        # An input without the batch axis in front broadcasts along it.
        return matmul(a, b)


class WideMatmul(Product):
    """Products of the matrices of half types in the last two axes, in the float32 of their sums."""

    def is_left_to_blas(self, left: Shape, right: Shape) -> bool:
        return size_of(left) * right[-1] == 0

    # BLAS has no such products, and those that native code computes by it are rounded

    def has_gemm(self, dtype: Dtype, left: Shape, right: Shape) -> bool:
        return False

    def small_product(self, *values: np.ndarray) -> None:
        return None

    def infer(self, a: array, b: array) -> tuple[Shape, Dtype]:
        return (*a.shape[:-1], b.shape[-1]), float32

    def evaluate(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        product = matrix_product(_for_blas(a), _for_blas(b))
        return np.broadcast_to(product, (*a.shape[:-1], b.shape[-1]))

    def vjp(self, cotangent: array, out: array, a: array, b: array) -> tuple[Any, Any]:
        cotangent = _downcast(cotangent, a.dtype)
        return deferred(_cotangent_of_a, cotangent, a, b), deferred(
            _cotangent_of_b, cotangent, a, b
        )

    def jvp(
        self, tangents: tuple[array | None, ...], out: array, a: array, b: array
    ) -> array | None:
        by_a = None if tangents[0] is None else _product(tangents[0], b, op=_WIDE_MATMUL)
        by_b = None if tangents[1] is None else _product(a, tangents[1], op=_WIDE_MATMUL)
        if by_a is None or by_b is None:
            return by_b if by_a is None else by_a
        return by_a + by_b

    def vmap(self, size: int, batched: tuple[bool, ...], a: array, b: array) -> array:
        return _stacked_product("addmm", a, b, None, _WIDE_MATMUL)


_MATMUL = Matmul()
_WIDE_MATMUL = WideMatmul()


def _downcast(cotangent: array, dtype: Dtype) -> array:
    """A cotangent in a half type: if it was upcast from that, what it was before, so that no kernel
    has to copy it.
    """
    node = cotangent._node
    while isinstance(node.op, Reshape):
        node = node.inputs[0]
    if isinstance(node.op, AsType) and node.inputs[0].dtype is dtype:
        return _reshaped(wrap(node.inputs[0]), cotangent.shape, None)
    return astype(cotangent, dtype)


def _for_blas(x: np.ndarray) -> np.ndarray:
    """`x` as BLAS takes it: half types as float32, matrices that are repeated once, and copied
    unless the elements of a row or a column are adjacent and rows, or columns, do not overlap."""
    if x.ndim > 2:
        x = x[tuple(slice(0, 1 if stride == 0 else None) for stride in x.strides[:-2])]
    if x.itemsize == 2:
        x = x.astype(np.float32)
    if x.flags.c_contiguous:
        return x
    row, column = x.strides[-2:]
    rows, columns = x.shape[-2:]
    adjacent = x.itemsize
    if column == adjacent and row >= columns * adjacent:
        return x
    if row == adjacent and column >= rows * adjacent:
        return x
    return np.ascontiguousarray(x)


def _product(a: array, b: array, stream: StreamLike = None, op: Product = _MATMUL) -> array:
    """The product of stacks in the form that `Matmul` takes."""
    dtype = a.dtype if op is _MATMUL else float32
    return make(op, (a, b), a.shape[:-1] + b.shape[-1:], dtype, stream)


@cache
def _swap(ndim: int) -> Transpose:
    return Transpose((*range(ndim - 2), ndim - 1, ndim - 2))


def _transposed(x: array, stream: StreamLike = None) -> array:
    """`x` with its last two axes exchanged."""
    shape = x.shape
    return make(_swap(len(shape)), (x,), shape[:-2] + shape[:-3:-1], x.dtype, stream)


def _conjugate(x: array) -> array:
    return conj(x) if x.dtype is complex64 else x


def _adjoint(x: array) -> array:
    return _transposed(_conjugate(x))


def _is_transposed(x: array) -> bool:
    op = x._node.op
    return isinstance(op, Transpose) and op.axes[-2:] == (x.ndim - 1, x.ndim - 2)


# The cotangent of a transposed matrix is transposed next. Computed as the transpose of a product,
# it becomes that product in row-major order.


def _cotangent_of_a(cotangent: array, a: array, b: array) -> array:
    if _is_transposed(a):
        return _transposed(_product(_conjugate(b), _transposed(cotangent)))
    return _product(cotangent, _adjoint(b))


def _cotangent_of_b(cotangent: array, a: array, b: array) -> array:
    if _is_transposed(b):
        return _transposed(_product(_transposed(cotangent), _conjugate(a)))
    return _product(_adjoint(a), cotangent)


def matmul(a: array, b: array, /, *, stream: StreamLike = None) -> array:
    """The product of two matrices, or of two stacks of matrices.

    Args:
        a: An array with at least one axis; a vector counts as a matrix of one row.
        b: An array with at least one axis; a vector counts as a matrix of one column.
        stream: The stream or device to run on.

    Returns:
        The products of the matrices in the last two axes. The axes in front of these are
        broadcast. The axis that a vector lacked is removed again.
    """
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("matmul", a, b)
    dtype = a.dtype
    if dtype is not b.dtype or not is_inexact(dtype):
        dtype = _common_dtype("matmul", a, b)
        a = astype(a, dtype, stream)
        b = astype(b, dtype, stream)
    shape_a = a.shape
    shape_b = b.shape
    if len(shape_a) != 2 or len(shape_b) != 2:
        return _stacked_product("matmul", a, b, stream)
    if shape_a[1] != shape_b[0]:
        _refuse_shapes("matmul", shape_a, shape_b)
    return make(_MATMUL, (a, b), (shape_a[0], shape_b[1]), dtype, stream)


def _stacked_product(
    name: str, a: array, b: array, stream: StreamLike, op: Product = _MATMUL
) -> array:
    """The product of arrays of equal dtype, whose shapes are not checked yet."""
    shape_a = a.shape
    shape_b = b.shape
    if not shape_a or not shape_b:
        raise ValueError(
            f"[{name}] takes arrays with at least one axis, got shapes {shape_text(shape_a)} "
            f"and {shape_text(shape_b)}: multiply by a scalar with *."
        )
    if shape_a[-1] != shape_b[-2 if len(shape_b) > 1 else 0]:
        _refuse_shapes(name, shape_a, shape_b)
    rows = shape_a[-2:-1]  # empty for a vector; likewise the columns
    columns = shape_b[-1:] if len(shape_b) > 1 else ()
    left = a if rows else _reshaped(a, (1, *shape_a), stream)
    right = b if columns else _reshaped(b, (*shape_b, 1), stream)
    batch = broadcast_shapes(name, shape_a[:-2], shape_b[:-2])
    product = _batched(left, right, batch, stream, op)
    return _reshaped(product, (*batch, *rows, *columns), stream)


def _batched(a: array, b: array, batch: Shape, stream: StreamLike, op: Product = _MATMUL) -> array:
    """The products of stacks whose axes in front broadcast to `batch`."""
    rows, common = a.shape[-2:]
    columns = b.shape[-1]
    if b.ndim == 2 and batch:
        flat = _reshaped(a, (size_of(batch) * rows, common), stream)
        return _reshaped(_product(flat, b, stream, op), (*batch, rows, columns), stream)
    if a.ndim == 2 and batch and columns <= MAX_FOLDED_COLUMNS:
        product = _batched(_transposed(b, stream), _transposed(a, stream), batch, stream, op)
        return _transposed(product, stream)
    left = broadcast_to(a, (*batch, rows, common), stream=stream)
    right = broadcast_to(b, (*batch, common, columns), stream=stream)
    return _product(left, right, stream, op)


def _reshaped(a: array, shape: Shape, stream: StreamLike) -> array:
    """`reshape` without its checks."""
    if same_shape(a.shape, shape):
        return a
    return make(Reshape(shape), (a,), shape, a.dtype, stream)


def addmm(
    c: array,
    a: array,
    b: array,
    /,
    alpha: float = 1.0,
    beta: float = 1.0,
    *,
    stream: StreamLike = None,
) -> array:
    """`alpha * (a @ b) + beta * c`.

    Args:
        c: What is added; it broadcasts to the shape of the product.
        a: The first factor of the product, as `matmul` takes it.
        b: The second factor.
        alpha: A factor for the product; if it is 0, `a` and `b` have no influence.
        beta: A factor for `c`; if it is 0, `c` has no influence.
        stream: The stream or device to run on.
    """
    if not (isinstance(a, array) and isinstance(b, array) and isinstance(c, array)):
        _refuse_operands("addmm", c, a, b)
    product_factor = _as_factor("alpha", alpha)
    addend_factor = _as_factor("beta", beta)
    dtype = _common_dtype("addmm", c, a, b)
    # half types are rounded once, after the addition
    is_half = dtype is bfloat16 or dtype is float16
    op, wide = (_WIDE_MATMUL, float32) if is_half else (_MATMUL, dtype)
    a, b = astype(a, dtype, stream), astype(b, dtype, stream)
    product = _stacked_product("addmm", a, b, stream, op)
    shape = broadcast_shapes("addmm", c.shape, product.shape)
    # MLX lets the product broadcast as well, but for complex numbers only.
    if shape != product.shape and dtype is not complex64:
        raise ValueError(
            f"[addmm] c of shape {shape_text(c.shape)} does not broadcast to the shape "
            f"{shape_text(product.shape)} of the product."
        )
    addend = broadcast_to(astype(c, wide, stream), shape, stream=stream)
    if product_factor == 0:
        return astype(addend * addend_factor, dtype, stream)
    if product_factor != 1:
        product = product * product_factor
    if addend_factor == 0:
        return astype(broadcast_to(product, shape, stream=stream), dtype, stream)
    if addend_factor != 1:
        addend = addend * addend_factor
    return astype(product + addend, dtype, stream)


def tensordot(
    a: array,
    b: array,
    /,
    axes: int | list[Sequence[int]] = 2,
    *,
    stream: StreamLike = None,
) -> array:
    """The sum of products over some axes of two arrays.

    Args:
        a: The first array.
        b: The second array.
        axes: How many of the last axes of `a` are summed with as many of the first axes of `b`, or
            two sequences: the axes of `a` and those of `b` that are summed with them.
        stream: The stream or device to run on.

    Returns:
        An array with the remaining axes of `a`, then those of `b`.
    """
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("tensordot", a, b)
    summed_a, summed_b = _summed_axes(axes, a.ndim, b.ndim)
    lengths = [a.shape[axis] for axis in summed_a]
    if lengths != [b.shape[axis] for axis in summed_b]:
        raise ValueError(
            f"[tensordot] cannot sum over the axes {shape_text(summed_a)} of shape "
            f"{shape_text(a.shape)} and {shape_text(summed_b)} of shape {shape_text(b.shape)}: "
            "their lengths differ."
        )
    kept_a = [axis for axis in range(a.ndim) if axis not in summed_a]
    kept_b = [axis for axis in range(b.ndim) if axis not in summed_b]
    rows = [a.shape[axis] for axis in kept_a]
    columns = [b.shape[axis] for axis in kept_b]
    common = size_of(lengths)
    left = transpose(a, [*kept_a, *summed_a], stream=stream)
    right = transpose(b, [*summed_b, *kept_b], stream=stream)
    product = matmul(
        reshape(left, (size_of(rows), common), stream=stream),
        reshape(right, (common, size_of(columns)), stream=stream),
        stream=stream,
    )
    return reshape(product, (*rows, *columns), stream=stream)


def _summed_axes(axes: Any, ndim_a: int, ndim_b: int) -> tuple[Shape, Shape]:
    """The axes of each array that `tensordot` sums over."""
    if isinstance(axes, int):
        if not 0 <= axes <= min(ndim_a, ndim_b):
            raise ValueError(
                f"[tensordot] cannot sum over {axes} axes of arrays with {ndim_a} and {ndim_b} "
                "axes."
            )
        return tuple(range(ndim_a - axes, ndim_a)), tuple(range(axes))
    if not isinstance(axes, (list, tuple)) or any(isinstance(part, int) for part in axes):
        raise TypeError(f"[tensordot] axes must be an int or two sequences of ints, got {axes!r}.")
    if len(axes) != 2 or len(axes[0]) != len(axes[1]):
        raise ValueError(f"[tensordot] axes must be two sequences of equal length, got {axes!r}.")
    summed = (as_axes("tensordot", axes[0], ndim_a), as_axes("tensordot", axes[1], ndim_b))
    for part in summed:
        if len(set(part)) != len(part):
            raise ValueError(f"[tensordot] the axes {axes!r} name an axis twice.")
    return summed


def inner(a: array, b: array, /, *, stream: StreamLike = None) -> array:
    """The sum of products over the last axes of both arrays; a product if one is a scalar."""
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("inner", a, b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"[inner] the last axes of shapes {shape_text(a.shape)} and {shape_text(b.shape)} "
            "must have the same length."
        )
    return tensordot(a, b, [[-1], [-1]], stream=stream)


def outer(a: array, b: array, /, *, stream: StreamLike = None) -> array:
    """All products of an element of `a` and one of `b`, as a matrix with a row for each of `a`."""
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("outer", a, b)
    return reshape(a, (size_of(a.shape), 1), stream=stream) * reshape(
        b, (size_of(b.shape),), stream=stream
    )


def vecdot(a: array, b: array, /, axis: int = -1, *, stream: StreamLike = None) -> array:
    """The dot products of the vectors along an axis; those of `a` are conjugated if complex.

    Args:
        a: The first array.
        b: The second array. The other axes of the two are broadcast.
        axis: The axis of the vectors, in both arrays counted from the front.
        stream: The stream or device to run on.
    """
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("vecdot", a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("[vecdot] takes arrays with at least one axis: multiply scalars with *.")
    position = normalize_axis("vecdot", axis, a.ndim)
    if position >= b.ndim or a.shape[position] != b.shape[position]:
        raise ValueError(
            f"[vecdot] shapes {shape_text(a.shape)} and {shape_text(b.shape)} must have the same "
            f"length along axis {position}."
        )
    conjugate = conj(a)
    return sum(conjugate * b, position, stream=stream)


def kron(a: array, b: array, *, stream: StreamLike = None) -> array:
    """The Kronecker product: each element of `a` becomes a block, that element times `b`."""
    if not (isinstance(a, array) and isinstance(b, array)):
        _refuse_operands("kron", a, b)
    if a.size == 0 or b.size == 0:
        raise ValueError(
            f"[kron] takes arrays with elements, got shapes {shape_text(a.shape)} and "
            f"{shape_text(b.shape)}."
        )
    ndim = max(a.ndim, b.ndim)
    blocks = (1,) * (ndim - a.ndim) + a.shape
    block = (1,) * (ndim - b.ndim) + b.shape
    spread_a = [length for pair in ((n, 1) for n in blocks) for length in pair]
    spread_b = [length for pair in ((1, n) for n in block) for length in pair]
    products = reshape(a, spread_a, stream=stream) * reshape(b, spread_b, stream=stream)
    lengths = [outside * inside for outside, inside in zip(blocks, block, strict=True)]
    return reshape(products, lengths, stream=stream)


def _common_dtype(name: str, *operands: array) -> Dtype:
    dtype = operands[0].dtype
    for operand in operands:
        dtype = promote(dtype, operand.dtype)
    if is_inexact(dtype):
        return dtype
    found = " and ".join(operand.dtype.name for operand in operands)
    raise ValueError(
        f"[{name}] takes floating-point or complex numbers, got {found}: "
        "convert with astype(mx.float32) first."
    )


def _as_factor(which: str, value: Any) -> float:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"[addmm] {which} must be a real number, got {value!r}.")
    try:
        return float(value)
    except ValueError:
        raise TypeError(f"[addmm] {which} must be a single number, got {value!r}.") from None


def _refuse_operands(name: str, *operands: Any) -> NoReturn:
    found = ", ".join(type(operand).__name__ for operand in operands)
    raise TypeError(f"[{name}] takes arrays, got {found}: make arrays with mx.array first.")


def _refuse_shapes(name: str, shape_a: Shape, shape_b: Shape) -> NoReturn:
    where = "first" if len(shape_b) == 1 else "second to last"
    raise ValueError(
        f"[{name}] cannot multiply {shape_text(shape_a)} by {shape_text(shape_b)}: the last axis "
        f"of the first must be as long as the {where} axis of the second."
    )


def _matmul_operator(a: Any, b: Any) -> array:
    """`a @ b`. Its operands are checked by `matmul`, whose error says what to do with numbers."""
    return matmul(a, b)


_native.set_operator("matmul", at_boundary(_matmul_operator, "matmul"))
