"""Decompositions of stacks of matrices, on all threads: LAPACK's routines, called by address, and
for small systems of equations loops with one matrix per vector lane.

NumPy computes stacks in C, but float32 as float64 and on one thread; SciPy takes one matrix at a
time. Here native code calls the routine for each matrix, in the precision of its elements. LAPACK
is column-major: the memory of a row-major matrix is its transpose.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ingot import _native
from ingot.graph.numerics.blas import lapack_address
from ingot.graph.shape import size_of
from ingot.tuning_linalg import (
    MAX_ALONE_LENGTH,
    MAX_LU_LANE_LENGTH,
    MAX_SPARSE_LANE_LENGTH,
    MAX_STACKED_LENGTH,
    MIN_LANE_MATRICES,
)

__all__ = [
    "determinants_of_stack",
    "eigen_of_stack",
    "fits_lanes",
    "is_stack",
    "log_determinants_of_stack",
    "lu_of_stack",
    "qr_of_stack",
    "solved_stack",
    "svd_of_stack",
]

_PREFIXES = {"f": "s", "d": "d"}  # of LAPACK's names, by NumPy's type codes
Argument = tuple[np.ndarray, int, bool]


def is_stack(x: np.ndarray) -> bool:
    """Whether the functions below take a stack: of real matrices that one thread decomposes. Small
    ones alone are such stacks too, so that vectors have the same signs in a stack and alone.
    """
    longest = max(x.shape[-2:])
    return (
        x.size > 0
        and x.dtype.char in _PREFIXES
        and longest <= (MAX_STACKED_LENGTH if x.ndim > 2 else MAX_ALONE_LENGTH)
    )


def fits_lanes(x: np.ndarray, wide: int = 0) -> bool:
    """Whether elimination with one matrix per vector lane takes less time than LAPACK, for matrices
    with `wide` columns of right sides each.
    """
    rows, columns = x.shape[-2:]
    is_sparse = x.size < MIN_LANE_MATRICES * rows * columns
    limit = MAX_SPARSE_LANE_LENGTH if is_sparse else MAX_LU_LANE_LENGTH
    return (
        x.ndim > 2
        and x.size > 0
        and max(rows, columns) <= limit
        and rows * (columns + wide) <= 2 * limit**2
    )


@cache
def _number(value: int) -> Argument:
    return np.array([value], np.intc), 0, False


@cache
def _letter(value: str) -> Argument:
    return np.frombuffer(value.encode(), np.uint8), 0, False


def _each(stack: np.ndarray) -> Argument:
    """Something of which each matrix has its own."""
    return stack, stack.nbytes // len(stack), False


def _scratch(length: int, dtype: Any) -> Argument:
    """Memory for each thread."""
    room = np.empty((_native.get_num_threads(), max(1, length)), dtype)
    return room, room.nbytes // len(room), True


@cache
def _workspace(name: str, *given: int | str, integers: bool = False) -> tuple[int, int]:
    """How many numbers, and ints if it takes `integers`, a routine wants besides its arguments,
    which are letters, numbers, and 0 where an array stands.
    """
    dtype = np.dtype(np.float32 if name[0] == "s" else np.float64)
    anything = np.zeros(8, dtype), 0, False
    arguments = [
        _letter(value) if isinstance(value, str) else _number(value) if value else anything
        for value in given
    ]
    work, ints = np.zeros(1, dtype), np.zeros(1, np.intc)
    more = [(work, 0, False), _number(-1)]
    if integers:
        more += [(ints, 0, False), _number(-1)]
    elif name.endswith("gesdd"):
        more += [(ints, 0, False)]
    _call(name, 1, 1, [*arguments, *more, (np.zeros(1, np.intc), 0, False)])
    return int(work[0]), int(ints[0])


def _call(name: str, count: int, work: int, arguments: list[Argument]) -> None:
    _native.call_lapack(lapack_address(name), count, max(1, work), tuple(arguments))


def _flat(x: np.ndarray) -> tuple[np.ndarray, int, int, int]:
    """A copy of a stack as one with a single axis in front, and its three lengths."""
    count, rows, columns = size_of(x.shape[:-2]), *x.shape[-2:]
    return np.array(x.reshape(count, rows, columns), order="C"), count, rows, columns


def _require_success(info: np.ndarray) -> None:
    if info.any():
        raise np.linalg.LinAlgError


def svd_of_stack(x: np.ndarray, vectors: str) -> Any:
    """Left vectors, singular values and right vectors: all of them ("A"), as many as there are
    values ("S"), or only the values ("N").
    """
    a, count, rows, columns = _flat(x)
    common = min(rows, columns)
    letter = _PREFIXES[x.dtype.char]
    width = {"N": 1, "S": common, "A": columns}[vectors]
    height = {"N": 1, "S": common, "A": rows}[vectors]
    # the memory holds the transpose, whose left vectors are the right ones
    right = np.empty((count, width, columns) if vectors != "N" else (1, 1, 1), x.dtype)
    left = np.empty((count, rows, height) if vectors != "N" else (1, 1, 1), x.dtype)
    values = np.empty((count, common), x.dtype)
    info = np.zeros(count, np.intc)
    given = (vectors, columns, rows, 0, columns, 0, 0, columns, 0, height)
    length, _ = _workspace(f"{letter}gesdd", *given)
    outputs = [(y, 0, False) if vectors == "N" else _each(y) for y in (right, left)]
    _call(
        f"{letter}gesdd",
        count,
        8 * rows * columns * common,
        [
            *(_letter(vectors), _number(columns), _number(rows), _each(a), _number(columns)),
            *(_each(values), outputs[0], _number(columns), outputs[1], _number(height)),
            *(_scratch(length, x.dtype), _number(length), _scratch(8 * common, np.intc)),
            _each(info),
        ],
    )
    _require_success(info)
    batch = x.shape[:-2]
    values = values.reshape(*batch, common)
    if vectors == "N":
        return values
    return left.reshape(*batch, rows, height), values, right.reshape(*batch, width, columns)


def eigen_of_stack(x: np.ndarray, lower: bool, vectors: bool) -> Any:
    """Eigenvalues of symmetric matrices, of which one triangle is read, and eigenvectors."""
    a, count, length, _ = _flat(x)
    name = f"{_PREFIXES[x.dtype.char]}syevd"
    values, info = np.empty((count, length), x.dtype), np.zeros(count, np.intc)
    job, triangle = "V" if vectors else "N", "U" if lower else "L"  # of the transpose
    numbers, ints = _workspace(name, job, triangle, length, 0, length, 0, integers=True)
    _call(
        name,
        count,
        (8 if vectors else 2) * length**3,
        [
            *(_letter(job), _letter(triangle), _number(length), _each(a), _number(length)),
            *(_each(values), _scratch(numbers, x.dtype), _number(numbers)),
            *(_scratch(ints, np.intc), _number(ints), _each(info)),
        ],
    )
    _require_success(info)
    values = values.reshape(x.shape[:-1])
    return (values, np.swapaxes(a, -1, -2).reshape(x.shape)) if vectors else values


def qr_of_stack(x: np.ndarray) -> Any:
    """Orthonormal columns and upper triangles of matrices with at least as many rows as columns."""
    a, count, columns, rows = _flat(np.swapaxes(x, -1, -2))
    letter = _PREFIXES[x.dtype.char]
    factors, info = np.empty((count, columns), x.dtype), np.zeros(count, np.intc)
    work = 2 * rows * columns**2
    length, _ = _workspace(f"{letter}geqrf", rows, columns, 0, rows, 0)
    shape = [_number(rows), _number(columns)]
    rest = [_each(a), _number(rows), _each(factors)]
    room = [_scratch(length, x.dtype), _number(length), _each(info)]
    _call(f"{letter}geqrf", count, work, [*shape, *rest, *room])
    upper = np.triu(np.swapaxes(a[:, :, :columns], -1, -2))
    length, _ = _workspace(f"{letter}orgqr", rows, columns, columns, 0, rows, 0)
    room = [_scratch(length, x.dtype), _number(length), _each(info)]
    _call(f"{letter}orgqr", count, work, [*shape, _number(columns), *rest, *room])
    q = np.swapaxes(a, -1, -2).reshape(x.shape)
    return q, upper.reshape(*x.shape[:-2], columns, columns)


def lu_of_stack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both triangles in one matrix, the pivots, and the positions of rows after all exchanges. Of
    real matrices that fit lanes.
    """
    *batch, rows, columns = x.shape
    matrices = _matrices(x)
    factors = np.empty_like(matrices)
    pivots = np.empty((len(matrices), min(rows, columns)), np.uint32)
    positions = np.empty((len(matrices), rows), np.uint32)
    _native.lu_in_lanes(matrices, factors, pivots, positions)
    return (
        factors.reshape(x.shape),
        pivots.reshape(*batch, min(rows, columns)),
        positions.reshape(*batch, rows),
    )


def _matrices(x: np.ndarray) -> np.ndarray:
    """A contiguous stack with a single axis in front."""
    return np.ascontiguousarray(x).reshape(-1, *x.shape[-2:])


def determinants_of_stack(x: np.ndarray) -> np.ndarray:
    """The determinants of matrices that fit lanes, in double precision."""
    matrices = _matrices(x.astype(np.float64, copy=False))
    found = np.empty(len(matrices))
    _native.determinants_in_lanes(matrices, found, None)
    return found.reshape(x.shape[:-2])


def log_determinants_of_stack(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The signs of determinants and the logarithms of their absolute values, likewise."""
    matrices = _matrices(x.astype(np.float64, copy=False))
    signs, logarithms = np.empty(len(matrices)), np.empty(len(matrices))
    _native.determinants_in_lanes(matrices, signs, logarithms)
    return signs.reshape(x.shape[:-2]), logarithms.reshape(x.shape[:-2])


def solved_stack(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    """The solutions of a @ x = b, or the inverses of `a`."""
    if fits_lanes(a, (a if b is None else b).shape[-1]):
        sides = None if b is None else _matrices(b)
        matrices = _matrices(a)
        solutions = np.empty_like(matrices if sides is None else sides)
        if not _native.solve_in_lanes(matrices, sides, solutions):
            raise np.linalg.LinAlgError
        return solutions.reshape((a if b is None else b).shape)
    return _solved_by_lapack(a, b)


def _solved_by_lapack(a: np.ndarray, b: np.ndarray | None) -> np.ndarray:
    if b is None:  # the memory of the solution is its transpose too
        matrices, count, length, _ = _flat(a)
        solution = np.zeros(matrices.shape, a.dtype)
        solution[:, np.arange(length), np.arange(length)] = 1
    else:
        matrices, count, length, _ = _flat(np.swapaxes(a, -1, -2))
        solution = _flat(np.swapaxes(b, -1, -2))[0]
    wide = solution.shape[1]
    info, pivots = np.zeros(count, np.intc), _scratch(length, np.intc)
    _call(
        f"{_PREFIXES[a.dtype.char]}gesv",
        count,
        length * length * (length + 2 * wide),
        [
            *(_number(length), _number(wide), _each(matrices), _number(length), pivots),
            *(_each(solution), _number(length), _each(info)),
        ],
    )
    _require_success(info)
    if b is None:
        return solution.reshape(a.shape)
    return np.swapaxes(solution, -1, -2).reshape(b.shape)
