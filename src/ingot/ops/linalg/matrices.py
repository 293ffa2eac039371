"""Shared by all matrix functions: argument checks, evaluation by LAPACK, the base class.

Matrices are in the last two axes of an array; the axes in front are a stack. NumPy iterates over
stacks in C, but computes float32 as float64; SciPy computes float32 as such, one matrix at a time.
What has no routine of `routines.py`, or what that fails to compute, goes to NumPy, and large
matrices to SciPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, array
from ingot.graph.dtype import complex64, float32, float64
from ingot.graph.numerics.blocks import longest_axis
from ingot.graph.numerics.parallel import each_in_parallel
from ingot.graph.numerics.routines import routine_of
from ingot.graph.op import apply
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.graph.shape import shape_text, size_of
from ingot.ops.elementwise.comparison import where
from ingot.ops.elementwise.complex_numbers import conj
from ingot.ops.shape.creation import zeros
from ingot.ops.shape.diagonals import diagonal, eye, tril
from ingot.ops.shape.movement import matrix_transpose, require_array
from ingot.tuning_linalg import MIN_MATRIX_THREAD_ELEMENTS

__all__ = [
    "BY_LAPACK",
    "FLOATS",
    "FLOATS_AND_COMPLEX",
    "MatrixOp",
    "adjoint",
    "block_axis_of_stack",
    "by_matrix",
    "by_stack",
    "cotangent_or_zeros",
    "diagonal_matrix",
    "differences_inverted",
    "hermitian_part",
    "in_own_precision",
    "lower_with_half_diagonal",
    "raising",
    "real_dtype",
    "require_finite",
    "require_matrices",
    "require_square",
]

FLOATS = (float32, float64)
FLOATS_AND_COMPLEX = (float32, float64, complex64)

BY_LAPACK = "LAPACK computes it as a whole"
_LARGE = 64  # matrices with at least this many rows and columns keep their own precision


def block_axis_of_stack(op: Host, *inputs: np.ndarray) -> int | None:
    """The axis along which NumPy computes a stack in blocks. Routines look for signals themselves,
    and what they compute in lanes has other bits in blocks of few matrices.
    """
    if routine_of(op, *[(x.shape, x.dtype) for x in inputs]) is not None:
        return None
    return longest_axis(inputs[0].shape[:-2])


class MatrixOp(Host, abstract=True):
    """Ops on each matrix of a stack."""

    why_host = BY_LAPACK

    worth_cutting = 1 << 18

    def block_axis(self, *inputs: Any) -> int | None:
        return block_axis_of_stack(self, *inputs)

    def vmap(self, size: int, batched: tuple[bool], x: array) -> Any:
        # The batch axis is one more axis of the stack.
        return apply_multiple(self, x) if self.several_outputs else apply(self, x)


def require_matrices(name: str, a: array, dtypes: tuple[Dtype, ...] = FLOATS) -> array:
    """Check that `a` is a stack of matrices of one of these dtypes; returns it."""
    require_array(name, a)
    if a.dtype not in dtypes:
        *others, last = (dtype.name for dtype in dtypes)
        raise ValueError(
            f"[{name}] takes matrices of {', '.join(others)} or {last}, got {a.dtype.name}: "
            "convert with astype first."
        )
    if a.ndim < 2:
        raise ValueError(
            f"[{name}] takes matrices, arrays with at least two axes, got shape "
            f"{shape_text(a.shape)}."
        )
    return a


def require_square(name: str, a: array, dtypes: tuple[Dtype, ...] = FLOATS) -> array:
    """Check that `a` is a stack of square matrices of one of these dtypes; returns it."""
    require_matrices(name, a, dtypes)
    if a.shape[-2] != a.shape[-1]:
        raise ValueError(f"[{name}] takes square matrices, got shape {shape_text(a.shape)}.")
    return a


def real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of absolute values of that dtype."""
    return float32 if dtype is complex64 else dtype


# Evaluation


def in_own_precision(x: np.ndarray) -> bool:
    """Whether SciPy computes these matrices, one at a time."""
    return x.size > 0 and min(x.shape[-2:]) >= _LARGE


def by_matrix(function: Callable[..., Any], *stacks: np.ndarray) -> Any:
    """Apply `function` to each matrix of a nonempty stack, and stack the results.

    For stacks of equal shape in front it takes one matrix of each. It returns an array or a tuple
    of arrays, and so does this.
    """
    batch = stacks[0].shape[:-2]
    if not batch:
        return function(*stacks)
    results = [function(*[stack[position] for stack in stacks]) for position in np.ndindex(batch)]
    if not isinstance(results[0], tuple):
        return _stacked(results, batch)
    return tuple(_stacked(column, batch) for column in zip(*results, strict=True))


def by_stack(function: Callable[..., Any], *stacks: np.ndarray) -> Any:
    """Apply a NumPy function to stacks of small matrices, in blocks on all threads.

    It returns an array or a tuple of arrays, whose first axes are those of the stacks.
    """
    batch = stacks[0].shape[:-2]
    count = size_of(batch)
    threads = min(_native.get_num_threads(), count)
    if threads <= 1 or stacks[0].size < MIN_MATRIX_THREAD_ELEMENTS:
        return function(*stacks)
    flat = [stack.reshape((count, *stack.shape[-2:])) for stack in stacks]
    ends = [count * number // threads for number in range(threads + 1)]
    blocks = [[stack[begin:end] for stack in flat] for begin, end in pairwise(ends)]
    results = each_in_parallel(lambda block: function(*block), blocks)
    if not isinstance(results[0], tuple):
        return _joined(results, batch)
    return tuple(_joined(column, batch) for column in zip(*results, strict=True))


def _joined(results: Any, batch: tuple[int, ...]) -> np.ndarray:
    whole = np.concatenate(results)
    return whole.reshape((*batch, *whole.shape[1:]))


def _stacked(results: Any, batch: tuple[int, ...]) -> np.ndarray:
    stack = np.stack(results)
    return stack.reshape((*batch, *stack.shape[1:]))


@contextmanager
def raising(sentence: str) -> Iterator[None]:
    """Raise RuntimeError, as MLX does, where LAPACK fails."""
    try:
        yield
    except np.linalg.LinAlgError:
        raise RuntimeError(sentence) from None


def require_finite(name: str, x: np.ndarray) -> None:
    """Reject elements with which iterations would not converge."""
    if not np.isfinite(x).all():
        raise RuntimeError(f"[{name}] takes finite numbers, got some that are NaN or infinite.")


# Helpers of derivative rules


def adjoint(x: array) -> array:
    """The conjugate transposes of the matrices."""
    return matrix_transpose(conj(x))


def hermitian_part(x: array) -> array:
    """The Hermitian part of matrices: derivatives with respect to symmetric matrices
    are symmetric.
    """
    return (x + adjoint(x)) * 0.5


def diagonal_matrix(values: array) -> array:
    """Matrices with `values` on their diagonals."""
    return values[..., None] * eye(values.shape[-1], dtype=values.dtype)


def lower_with_half_diagonal(x: array) -> array:
    """The lower triangle with half the diagonal; a symmetric matrix is the sum of it and its
    transpose.
    """
    return tril(x) - diagonal_matrix(diagonal(x, 0, -2, -1)) * 0.5


def differences_inverted(values: array) -> array:
    """1 / (values[j] - values[i]) at row i and column j; 0 where they are equal."""
    differences = values[..., None, :] - values[..., :, None]
    equal = differences == 0
    return where(equal, 0, 1 / where(equal, 1, differences))


def cotangent_or_zeros(cotangent: array | None, like: array) -> array:
    """The cotangent of an output, which is None if nothing depends on it."""
    return zeros(like.shape, like.dtype) if cotangent is None else cotangent
