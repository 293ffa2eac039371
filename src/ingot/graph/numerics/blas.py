"""Matrix products by the BLAS library that NumPy bundles, called by address.

`product_of` plans how BLAS is to read operands with their strides; native programs store the plan,
`matrix_product` runs it at once. The library is NumPy's own OpenBLAS, which is already loaded; if
NumPy was built with another one, SciPy's is used.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ingot import _native
from ingot.graph.dtype import bfloat16, complex64, float16, float32, float64
from ingot.graph.libraries import prepare_blas, scipy_blas, scipy_lapack
from ingot.graph.shape import size_of
from ingot.tuning import MAX_BLAS_STACK, MAX_BLAS_WORK, MIN_PRODUCT_THREAD_WORK

__all__ = [
    "Layout",
    "blas_address",
    "has_gemm",
    "is_small",
    "lapack_address",
    "matrix_product",
    "prepare_products",
    "product_of",
    "small_product",
]

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides in bytes
Product = tuple[Any, ...]  # what `_native.multiply` takes

_ROUTINES = ("sgemm", "dgemm", "cgemm", "sgemv", "dgemv", "cgemv")
_LETTERS = {
    float32.numpy: "s",
    float64.numpy: "d",
    complex64.numpy: "c",
    float16.numpy: "h",
}
_BFLOAT16_LETTER = "b"  # ml_dtypes, which has the dtype, may not be imported yet
_MAX_STACK_AXES = 6
_SHORT_INTEGERS = 1 << 31


def has_gemm(dtype: Any, left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Whether BLAS multiplies stacks of these shapes and this dtype: half types, which it takes as
    float32, if the product is small.
    """
    return dtype in (float32, float64, complex64) or (
        dtype in (float16, bfloat16) and is_small(left, right)
    )


@cache
def prepare_products() -> int:
    """Tell the native code the addresses of BLAS. Returns the largest matrix dimension
    it supports.
    """
    file = _bundled_library()
    if file is not None:
        library = ctypes.CDLL(file)
        names = [f"scipy_{name}_64_" for name in _ROUTINES]
        names += [f"scipy_openblas_{verb}_num_threads64_" for verb in ("get", "set")]
        if all(hasattr(library, name) for name in names):
            prepare_blas()
            addresses = [ctypes.cast(library[name], ctypes.c_void_p).value for name in names]
            _native.use_blas(*(address or 0 for address in addresses))
            return np.iinfo(np.int64).max
    found = [blas_address(routine) for routine in _ROUTINES]
    _native.use_blas(*found, 0, 0)
    return _SHORT_INTEGERS - 1


def _bundled_library() -> str | None:
    """The file of the OpenBLAS that NumPy's wheels bring along."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    files = os.listdir(folder) if os.path.isdir(folder) else []
    found = [f for f in files if f.startswith("libscipy_openblas64_") and f.endswith(".so")]
    return os.path.join(folder, found[0]) if len(found) == 1 else None


@cache
def lapack_address(routine: str) -> int:
    """The address of a routine of SciPy's LAPACK, such as "sgetrf"; its integers are C ints."""
    prepare_blas()
    return _address(scipy_lapack().__pyx_capi__[routine])


@cache
def blas_address(routine: str) -> int:
    """The same of SciPy's BLAS, such as "strsm"."""
    prepare_blas()
    return _address(scipy_blas().__pyx_capi__[routine])


def _address(capsule: Any) -> int:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer(capsule, name(capsule))
    return address


def product_of(
    dtype: np.dtype[Any], left: Layout, right: Layout, copies: bool = False
) -> Product | None:
    """Plan the product of two stacks of matrices into a contiguous one; None if BLAS cannot read an
    operand in place, unless it may be copied first, as those of small products are.

    BLAS is column-major, so it computes the transposed product, with the operands swapped.
    """
    (left_shape, left_strides), (right_shape, right_strides) = left, right
    size = dtype.itemsize
    m, k = left_shape[-2:]
    n = right_shape[-1]
    rows = _matrix(left_shape[-2:], left_strides[-2:], size, copies)
    columns = _matrix(right_shape[-2:], right_strides[-2:], size, copies)
    if rows is None or columns is None:
        return None
    lengths, strides = _stack(left_shape[:-2], left_strides[:-2], right_strides[:-2], m * n * size)
    if (
        len(lengths) == 1
        and strides[0] == (0,)
        and rows[0] == "N"
        and rows[2] == 1
        and strides[1] == (m * rows[1] * size,)
    ):
        m *= lengths[0]  # one matrix on the right: all rows of the stack form one matrix
        lengths, strides = (), ((), (), ())
    longest = prepare_products()
    if len(lengths) > _MAX_STACK_AXES or any(
        length > longest for length in (m, n, k, rows[1], columns[1])
    ):
        return None
    letter = _BFLOAT16_LETTER if dtype.kind == "V" else _LETTERS[dtype]
    transposes = columns[0] + rows[0]
    found = (
        letter, transposes, n, m, k, columns[1], rows[1], max(1, n), lengths, strides,
    )  # fmt: skip
    steps = (columns[2], rows[2])
    return found if steps == (1, 1) else (*found, steps)


def _matrix(
    shape: Sequence[int], strides: Sequence[int], size: int, copies: bool
) -> tuple[str, int, int] | None:
    """How BLAS reads a matrix: as it is ("N") or transposed ("T"), its leading dimension, and the
    distance of adjacent elements, which is 1 unless copies are made.
    """
    rows, columns = shape
    row, column = strides
    if (
        (column == size or columns == 1)
        and row % size == 0
        and (row >= columns * size or rows == 1)
    ):
        return "N", max(1, columns, row // size if rows > 1 else columns), 1
    if (
        (row == size or rows == 1)
        and column % size == 0
        and (column >= rows * size or columns == 1)
    ):
        return "T", max(1, rows, column // size if columns > 1 else rows), 1
    if copies and row % size == column % size == 0:
        return "N", row // size, column // size
    return None


def _stack(
    lengths: Sequence[int], left: Sequence[int], right: Sequence[int], nbytes: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The batch axes, merged where every operand allows it: their lengths, and the strides of the
    right operand, of the left one, and of results of `nbytes` each.
    """
    joined: list[tuple[int, int, int, int]] = []  # innermost first: length and strides
    step = nbytes
    for length, left_step, right_step in zip(
        reversed(lengths), reversed(left), reversed(right), strict=True
    ):
        if length != 1:
            last = joined[-1] if joined else None
            if last is not None and (right_step, left_step) == (
                last[0] * last[1],
                last[0] * last[2],
            ):
                joined[-1] = (last[0] * length, *last[1:])
            else:
                joined.append((length, right_step, left_step, step))
        step *= length
    joined.reverse()
    by_axis = [tuple(axis[number] for axis in joined) for number in range(4)]
    return by_axis[0], tuple(by_axis[1:])


def is_small(left: tuple[int, ...], right: tuple[int, ...]) -> bool:
    """Whether a product of stacks of these shapes is left to BLAS, because it is too small to
    justify code of its own. Tiles of empty matrices would have no rows or columns.
    """
    work = size_of(left) * right[-1]
    return work <= MAX_BLAS_WORK and (size_of(left[:-2]) <= MAX_BLAS_STACK or work == 0)


def small_product(left: np.ndarray, right: np.ndarray) -> _native.SmallProduct | None:
    """The product of two stacks of these layouts without Python; None if it has too many axes."""
    if left.ndim > _MAX_STACK_AXES + 2:
        return None
    layouts = ((left.shape, left.strides), (right.shape, right.strides))
    product = product_of(left.dtype, *layouts, copies=True)
    if product is None:
        return None
    return _native.SmallProduct(product, (*left.shape[:-1], right.shape[-1]))


def matrix_product(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """`left @ right` of two stacks of float32, float64 or complex64 matrices, on the pool's
    threads.
    """
    work = left.shape[-2] * left.shape[-1] * right.shape[-1]
    # For complex matrices and scalars NumPy makes other calls, with different rounding.
    is_number = left.shape[-2] == right.shape[-1] == 1
    if (
        work <= MIN_PRODUCT_THREAD_WORK
        and (left.ndim == 2 or left.size * right.shape[-1] <= MIN_PRODUCT_THREAD_WORK)
        and not (is_number or left.dtype.kind == "c")
    ):
        prepare_blas()
        return np.matmul(left, right)
    if left.shape[:-2] != right.shape[:-2]:
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left = np.broadcast_to(left, (*stack, *left.shape[-2:]))
        right = np.broadcast_to(right, (*stack, *right.shape[-2:]))
    product = product_of(left.dtype, (left.shape, left.strides), (right.shape, right.strides))
    if product is None:
        return np.matmul(left, right)
    result: np.ndarray = np.empty((*left.shape[:-1], right.shape[-1]), left.dtype)
    _native.multiply(product, right, left, result)
    return result
