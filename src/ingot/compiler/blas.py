"""BLAS: products of matrices as calls of the library that SciPy carries, by address."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from ingot._native import Dtype
from ingot.compiler.tape import Step
from ingot.graph.dtype import complex64, float32, float64
from ingot.graph.libraries import scipy_blas

__all__ = ["gemm_instruction", "has_gemm"]

_ROUTINES = {float32: "sgemm", float64: "dgemm", complex64: "cgemm"}

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides in bytes


def has_gemm(dtype: Any) -> bool:
    """Whether BLAS multiplies matrices of this dtype."""
    return dtype in _ROUTINES


@cache
def _address(routine: str) -> int:
    capsule = scipy_blas().__pyx_capi__[routine]
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address: int = pointer(capsule, name(capsule))
    return address


def gemm_instruction(step: Step, operands: Sequence[Layout]) -> tuple[Any, ...] | None:
    """The instruction for a product of stacks of matrices; None if BLAS cannot take an operand as
    it lies.

    BLAS counts by columns, so it is asked for the transposed product of the operands in the other
    order.
    """
    dtype: Dtype = step.dtype
    (a_shape, a_strides), (b_shape, b_strides) = operands
    m, k = a_shape[-2:]
    n = b_shape[-1]
    left = _matrix(a_shape[-2:], a_strides[-2:], dtype.size)
    right = _matrix(b_shape[-2:], b_strides[-2:], dtype.size)
    left_batch = _batch_stride(a_shape[:-2], a_strides[:-2])
    right_batch = _batch_stride(b_shape[:-2], b_strides[:-2])
    if left is None or right is None or left_batch is None or right_batch is None:
        return None
    count = 1
    for length in step.shape[:-2]:
        count *= length
    if left_batch and right_batch == 0 and left == ("N", k) and left_batch == m * k * dtype.size:
        m, count = m * count, 1  # one matrix on the right: all rows of the stack are one matrix
    return (
        "gemm",
        _address(_ROUTINES[dtype]),
        {float32: "s", float64: "d", complex64: "c"}[dtype],
        right[0] + left[0],
        n,
        m,
        k,
        right[1],
        left[1],
        max(1, n),
        count,
        right_batch,
        left_batch,
        m * n * dtype.size,
    )


def _matrix(shape: Sequence[int], strides: Sequence[int], size: int) -> tuple[str, int] | None:
    """How BLAS reads a matrix: as it is ("N") or transposed ("T"), and the distance of its rows (or
    columns).
    """
    rows, columns = shape
    row, column = strides
    if (
        (column == size or columns == 1)
        and row % size == 0
        and (row >= columns * size or rows == 1)
    ):
        return "N", max(1, columns, row // size if rows > 1 else columns)
    if (
        (row == size or rows == 1)
        and column % size == 0
        and (column >= rows * size or columns == 1)
    ):
        return "T", max(1, rows, column // size if columns > 1 else rows)
    return None


def _batch_stride(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The distance between matrices of a stack; None if no single one leads through all of them."""
    step: int | None = None
    expected = 0
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if length == 1:
            continue
        if step is None:
            step = stride
        elif stride != expected:
            return None
        expected = stride * length
    return step or 0
