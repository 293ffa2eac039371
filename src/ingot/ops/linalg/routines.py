"""Matrix functions as native routines: small matrices by loops of the extension, large ones by
LAPACK, called by address, in the precision of their elements.

Stacks of many small matrices have one matrix per vector lane; threads share stacks. LAPACK is
column-major: the memory of a row-major matrix is its transpose.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ingot.graph.numerics.blas import blas_address, lapack_address
from ingot.graph.numerics.routines import NOWHERE, Place, Routine, RoutineBuilder, Spec
from ingot.graph.shape import size_of
from ingot.tuning_linalg import (
    MAX_DENSE_LENGTH,
    MAX_LANE_LENGTH,
    MAX_LU_LANE_LENGTH,
    MAX_STACKED_LENGTH,
    MIN_LANE_MATRICES,
)

__all__ = [
    "cholesky_routine",
    "determinant_routine",
    "eigen_routine",
    "lu_routine",
    "qr_routine",
    "solve_routine",
    "svd_routine",
    "triangular_routine",
]

_PREFIXES = {"f": "s", "d": "d"}  # of LAPACK's names, by NumPy's type codes
_UINT32 = np.dtype(np.uint32)
_FLOAT64 = np.dtype(np.float64)
_INT = 4  # bytes of LAPACK's integers

# What the call "dense" computes, and the call "lanes"
_SOLVE, _INVERT, _SOLVE_LOWER, _SOLVE_UPPER, _DETERMINANTS, _LOWER, _UPPER, _FACTORS = range(8)
_LANE_FACTORS, _LANE_SOLUTIONS, _LANE_DETERMINANTS = range(3)
_WHOLE, _LOWER_PART, _UPPER_PART = range(3)  # of matrices to copy


class _Stack:
    """A stack of real matrices that a routine reads, and the routine."""

    def __init__(self, inputs: list[Spec], results: list[Spec]) -> None:
        (shape, self.dtype) = inputs[0]
        *self.batch, self.rows, self.columns = shape
        self.count = size_of(self.batch)
        self.item = self.dtype.itemsize
        self.builder = RoutineBuilder(inputs, results)
        self.number = self.letter = self.builder.constant

    @property
    def is_wide(self) -> bool:
        """Whether threads of the library share a matrix."""
        return max(self.rows, self.columns) > MAX_STACKED_LENGTH

    def each(self, place: Place, elements: int, size: int | None = None) -> Place:
        """The place in a stack of which each matrix has that many elements."""
        return place._replace(step=elements * (self.item if size is None else size))

    def shared(self, elements: int, size: int | None = None) -> Place:
        """Memory for that many elements of each matrix."""
        step = elements * (self.item if size is None else size)
        return self.builder.shared(step * self.count, step)

    def copy(
        self, source: Place, target: Place, rows: int, columns: int,
        *, strides: tuple[int, int] | None = None, part: int = _WHOLE,
    ) -> None:  # fmt: skip
        """Copies matrices to contiguous ones, from elements with these strides."""
        row, column = strides or (columns, 1)
        steps = (row, column, columns, 1)
        numbers = (self.item, self.count, rows, columns, *(n * self.item for n in steps), part)
        self.builder.call("copy", (source, target), numbers)

    def unit(self, target: Place) -> None:
        """Makes unit matrices."""
        self.builder.call("unit", [target], (self.item, self.count, self.rows))

    def transpose(self, source: Place, target: Place, rows: int, columns: int) -> None:
        """Copies matrices, which have that many columns and rows, to their transposes."""
        self.copy(source, target, rows, columns, strides=(1, rows))

    def lapack(self, name: str, work: int, places: list[Place], *, checked: bool = True) -> None:
        """Calls a routine for each matrix; the last place is its error code."""
        self.builder.can_fail |= checked
        info = len(places) - 1 if checked else -1
        numbers = (self.count, 0 if self.is_wide else max(1, work), info)
        address = lapack_address(_PREFIXES[self.dtype.char] + name)
        self.builder.call("lapack", places, numbers, address)

    def blas(self, name: str, work: int, places: list[Place]) -> None:
        """Calls a routine of BLAS for each matrix."""
        numbers = (self.count, 0 if self.is_wide else max(1, work), -1)
        self.builder.call("lapack", places, numbers, blas_address(self._name(name)))

    def _name(self, name: str) -> str:
        return _PREFIXES[self.dtype.char] + name

    def workspace(self, name: str, *given: int | str, integers: bool = False) -> tuple[int, int]:
        """See `_workspace`."""
        return _workspace(self._name(name), *given, integers=integers)

    def info(self) -> Place:
        """The error codes."""
        return self.shared(1, _INT)

    def dense(
        self, task: int, result: Place, *, sides: Place = NOWHERE, wide: int = 0,
        second: Place = NOWHERE, pivots: Place | None = None,
    ) -> Routine:  # fmt: skip
        """The routine that computes small matrices one by one."""
        matrix = self.each(self.builder.inputs[0], self.rows * self.columns)
        scratch = self.builder.of_thread(self.rows * (self.columns + wide) * 8)
        found = pivots or self.builder.of_thread(self.rows * 4)
        places = (matrix, sides, result, second, found, scratch)
        numbers = (task, self.item, self.count, self.rows, self.columns, wide)
        self.builder.can_fail |= task not in (_DETERMINANTS, _FACTORS)
        self.builder.call("dense", places, numbers)
        return self.builder.done()

    def is_dense(self) -> bool:
        """Whether small matrices are computed one by one."""
        return max(self.rows, self.columns) <= MAX_DENSE_LENGTH

    def fits_lanes(self, wide: int = 0) -> bool:
        """Whether there are so many small matrices that each has a vector lane."""
        return (
            self.count >= MIN_LANE_MATRICES
            and max(self.rows, self.columns) <= MAX_LU_LANE_LENGTH
            and self.rows * (self.columns + wide) <= 2 * MAX_LU_LANE_LENGTH**2
        )


def _is_real(spec: Spec) -> bool:
    shape, dtype = spec
    return dtype.char in _PREFIXES and size_of(shape) > 0


@cache
def _workspace(name: str, *given: int | str, integers: bool = False) -> tuple[int, int]:
    """How many numbers, and ints if it takes `integers`, a routine wants besides its arguments,
    which are letters, numbers, and 0 where an array stands.
    """
    dtype = np.dtype(np.float32 if name[0] == "s" else np.float64)
    builder = RoutineBuilder([], [((1,), dtype), ((1,), np.dtype(np.intc))])
    anything = builder.shared(64)
    work, ints = builder.results
    places = [builder.constant(value) if value else anything for value in given]
    places += [work, builder.constant(-1)]
    if integers:
        places += [ints, builder.constant(-1)]
    elif name.endswith("gesdd"):
        places += [ints]
    places += [builder.shared(_INT)]
    builder.call("lapack", places, (1, 1, -1), lapack_address(name))
    found = builder.done().run()
    assert found is not None, "nothing is checked"
    return int(found[0][0]), int(found[1][0]) if integers else 0


def svd_routine(x: Spec, vectors: str) -> Routine | None:
    """Left vectors, singular values and right vectors: all of them ("A"), as many as there are
    values ("S"), or only the values ("N").
    """
    if not _is_real(x):
        return None
    (*batch, rows, columns), dtype = x
    common = min(rows, columns)
    width = {"N": 1, "S": common, "A": columns}[vectors]
    height = {"N": 1, "S": common, "A": rows}[vectors]
    values = ((*batch, common), dtype)
    left, right = ((*batch, rows, height), dtype), ((*batch, width, columns), dtype)
    stack = _Stack([x], [values] if vectors == "N" else [left, values, right])
    builder, number = stack.builder, stack.number
    a = _finite_copy(stack)
    if vectors == "N":
        places = [builder.shared(64), stack.each(builder.results[0], common), builder.shared(64)]
    else:
        sizes = (rows * height, common, width * columns)
        places = list(map(stack.each, builder.results, sizes))
    # the memory holds the transpose, whose left vectors are the right ones
    given = (vectors, columns, rows, 0, columns, 0, 0, columns, 0, height)
    length, _ = stack.workspace("gesdd", *given)
    stack.lapack(
        "gesdd",
        8 * rows * columns * common,
        [
            *(stack.letter(vectors), number(columns), number(rows), a, number(columns)),
            *(places[1], places[2], number(columns), places[0], number(height)),
            *(builder.of_thread(length * stack.item), number(length)),
            *(builder.of_thread(8 * common * _INT), stack.info()),
        ],
    )
    return builder.done()


def _finite_copy(stack: _Stack) -> Place:
    """A copy of the matrices for LAPACK to overwrite; the routine fails if some elements are not
    finite, with which iterations would not converge.
    """
    elements = stack.rows * stack.columns
    source = stack.each(stack.builder.inputs[0], elements)
    stack.builder.call("finite", [source], (stack.item, stack.count * elements))
    stack.builder.can_fail = True
    a = stack.shared(elements)
    stack.copy(source, a, stack.rows, stack.columns)
    return a


def eigen_routine(x: Spec, lower: bool, vectors: bool) -> Routine | None:
    """Eigenvalues of symmetric matrices, of which one triangle is read, and eigenvectors."""
    if not _is_real(x):
        return None
    shape, dtype = x
    length = shape[-1]
    stack = _Stack([x], [(shape[:-1], dtype), x] if vectors else [(shape[:-1], dtype)])
    builder, number = stack.builder, stack.number
    a = _finite_copy(stack)
    job, triangle = "V" if vectors else "N", "U" if lower else "L"  # of the transpose
    given = (job, triangle, length, 0, length, 0)
    numbers, ints = stack.workspace("syevd", *given, integers=True)
    stack.lapack(
        "syevd",
        (8 if vectors else 2) * length**3,
        [
            *(stack.letter(job), stack.letter(triangle), number(length), a, number(length)),
            stack.each(builder.results[0], length),
            *(builder.of_thread(numbers * stack.item), number(numbers)),
            *(builder.of_thread(ints * _INT), number(ints), stack.info()),
        ],
    )
    if vectors:
        stack.transpose(a, stack.each(builder.results[1], length**2), length, length)
    return builder.done()


def qr_routine(x: Spec) -> Routine | None:
    """Orthonormal columns and upper triangles of matrices with at least as many rows as columns."""
    if not _is_real(x):
        return None
    (*batch, rows, columns), dtype = x
    stack = _Stack([x], [x, ((*batch, columns, columns), dtype)])
    builder, number = stack.builder, stack.number
    a, factors, info = stack.shared(rows * columns), stack.shared(columns), stack.info()
    q, r = map(stack.each, builder.results, (rows * columns, columns**2))
    stack.transpose(stack.each(builder.inputs[0], rows * columns), a, columns, rows)
    work = 2 * rows * columns**2
    shape, rest = [number(rows), number(columns)], [a, number(rows), factors]
    length, _ = stack.workspace("geqrf", rows, columns, 0, rows, 0)
    room = [builder.of_thread(length * stack.item), number(length), info]
    stack.lapack("geqrf", work, [*shape, *rest, *room], checked=False)
    stack.copy(a, r, columns, columns, strides=(1, rows), part=_UPPER_PART)
    length, _ = stack.workspace("orgqr", rows, columns, columns, 0, rows, 0)
    room = [builder.of_thread(length * stack.item), number(length), info]
    stack.lapack("orgqr", work, [*shape, number(columns), *rest, *room], checked=False)
    stack.transpose(a, q, rows, columns)
    return builder.done()


def lu_routine(x: Spec) -> Routine | None:
    """Both triangles in one matrix, the pivots, and the positions of rows after all exchanges."""
    if not _is_real(x):
        return None
    *batch, rows, columns = x[0]
    rank = min(rows, columns)
    stack = _Stack([x], [x, ((*batch, rank), _UINT32), ((*batch, rows), _UINT32)])
    builder, number = stack.builder, stack.number
    source, factors = (
        stack.each(place, rows * columns) for place in (builder.inputs[0], builder.results[0])
    )
    pivots, positions = (
        stack.each(place, length, 4)
        for place, length in zip(builder.results[1:], (rank, rows), strict=True)
    )
    if stack.fits_lanes():
        places = (source, NOWHERE, factors, NOWHERE, pivots, positions)
        numbers = (_LANE_FACTORS, stack.item, stack.count, rows, columns, 0)
        builder.call("lanes", places, numbers)
        return builder.done()
    if stack.is_dense():
        return stack.dense(_FACTORS, factors, second=positions, pivots=pivots)
    a, found = stack.shared(rows * columns), stack.shared(rank, _INT)
    stack.transpose(source, a, columns, rows)
    arguments = [number(rows), number(columns), a, number(rows), found, stack.info()]
    stack.lapack("getrf", rows * columns * rank, arguments, checked=False)
    stack.transpose(a, factors, rows, columns)
    builder.call("positions", (found, pivots, positions), (stack.count, rank, rows))
    return builder.done()


def determinant_routine(x: Spec, logarithms: bool) -> Routine | None:
    """Determinants, or their signs and the logarithms of their absolute values, computed in double
    precision.
    """
    if not _is_real(x):
        return None
    (*batch, _, _), dtype = x
    stack = _Stack([x], [(tuple(batch), dtype)] * (1 + logarithms))
    results = [stack.each(place, 1) for place in stack.builder.results]
    if stack.fits_lanes():
        return _determinants_in_lanes(stack, results)
    if not stack.is_dense():
        return None
    second = results[1] if logarithms else NOWHERE
    return stack.dense(_DETERMINANTS, results[0], second=second)


def _determinants_in_lanes(stack: _Stack, results: list[Place]) -> Routine:
    builder, count, length = stack.builder, stack.count, stack.rows
    source, found = builder.inputs[0], results
    if stack.dtype != _FLOAT64:
        source = builder.shared(count * length**2 * 8)
        builder.call("convert", (builder.inputs[0], source), (1, count * length**2))
        found = [builder.shared(count * 8) for _ in results]
    second = found[1] if len(found) > 1 else NOWHERE
    places = (source, NOWHERE, found[0], second, NOWHERE, NOWHERE)
    builder.call("lanes", places, (_LANE_DETERMINANTS, 8, count, length, length, 0))
    if stack.dtype != _FLOAT64:
        for place, result in zip(found, results, strict=True):
            builder.call("convert", (place, result), (0, count))
    return builder.done()


def solve_routine(a: Spec, b: Spec | None) -> Routine | None:
    """The solutions of a @ x = b, or the inverses of `a`."""
    if not _is_real(a) or not _is_real(b or a):
        return None
    stack = _Stack([a] if b is None else [a, b], [b or a])
    builder, length = stack.builder, stack.rows
    wide = (b or a)[0][-1]
    matrix = stack.each(builder.inputs[0], length**2)
    result = stack.each(builder.results[0], length * wide)
    sides = NOWHERE if b is None else stack.each(builder.inputs[1], length * wide)
    if stack.fits_lanes(wide):
        builder.can_fail = True
        places = (matrix, sides, result, NOWHERE, NOWHERE, NOWHERE)
        builder.call(
            "lanes", places, (_LANE_SOLUTIONS, stack.item, stack.count, length, length, wide)
        )
        return builder.done()
    if stack.is_dense():
        return stack.dense(_INVERT if b is None else _SOLVE, result, sides=sides, wide=wide)
    return _solved_by_lapack(stack, matrix, sides, result, wide)


def _solved_by_lapack(
    stack: _Stack, matrix: Place, sides: Place, result: Place, wide: int
) -> Routine:
    """The transposes are factorised, which need no copy of their own: their inverses, transposed,
    solve the equations.
    """
    builder, number, length = stack.builder, stack.number, stack.rows
    is_inverse = sides is NOWHERE
    factors, pivots, info = stack.shared(length**2), stack.shared(length, _INT), stack.info()
    stack.copy(matrix, factors, length, length)
    columns = result if is_inverse or wide == 1 else stack.shared(length * wide)
    if is_inverse:  # the memory of the solution is its transpose too
        stack.unit(columns)
    else:
        stack.transpose(sides, columns, wide, length)
    n, transposed = number(length), stack.letter("N" if is_inverse else "T")
    stack.lapack("getrf", length**3, [n, n, factors, n, pivots, info])
    stack.lapack(
        "getrs",
        2 * wide * length**2,
        [transposed, n, number(wide), factors, n, pivots, columns, n, info],
    )
    if columns is not result:
        stack.transpose(columns, result, length, wide)
    return builder.done()


def triangular_routine(a: Spec, b: Spec | None, lower: bool) -> Routine | None:
    """The solutions of a @ x = b for triangles of `a`, or their inverses."""
    if not _is_real(a) or not _is_real(b or a):
        return None
    stack = _Stack([a] if b is None else [a, b], [b or a])
    builder, number, letter, length = stack.builder, stack.number, stack.letter, stack.rows
    wide = (b or a)[0][-1]
    matrix = stack.each(builder.inputs[0], length**2)
    result = stack.each(builder.results[0], length * wide)
    sides = NOWHERE if b is None else stack.each(builder.inputs[1], length * wide)
    if stack.is_dense():
        task = _SOLVE_LOWER if lower else _SOLVE_UPPER
        return stack.dense(task, result, sides=sides, wide=wide)
    builder.can_fail = True
    builder.call("regular", [matrix], (stack.item, stack.count, length))
    if b is None:
        stack.unit(result)
    else:
        stack.copy(sides, result, length, wide)
    n, triangle = number(length), letter("U" if lower else "L")  # of the transpose
    if wide == 1:
        places = [triangle, letter("T"), letter("N"), n, matrix, n, result, number(1)]
        stack.blas("trsv", length**2, places)
        return builder.done()
    one = builder.constant(np.ones(1, stack.dtype))
    places = [letter("R"), triangle, letter("N"), letter("N"), number(wide), n, one]
    stack.blas("trsm", wide * length**2, [*places, matrix, n, result, number(wide)])
    return builder.done()


def cholesky_routine(x: Spec, upper: bool) -> Routine | None:
    """Triangular factors of positive definite matrices."""
    if not _is_real(x):
        return None
    stack = _Stack([x], [x])
    builder, number, length = stack.builder, stack.number, stack.rows
    source, result = (
        stack.each(place, length**2) for place in (builder.inputs[0], builder.results[0])
    )
    builder.can_fail = True
    if stack.count >= MIN_LANE_MATRICES and length <= MAX_LANE_LENGTH:
        builder.call("definite", (source, result), (stack.item, stack.count, length, int(upper)))
        return builder.done()
    if stack.is_dense():
        return stack.dense(_UPPER if upper else _LOWER, result)
    stack.copy(source, result, length, length, part=_UPPER_PART if upper else _LOWER_PART)
    triangle = stack.letter("L" if upper else "U")  # of the transpose
    places = [triangle, number(length), result, number(length), stack.info()]
    stack.lapack("potrf", length**3, places)
    return builder.done()
