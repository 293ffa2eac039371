"""Matrix functions as native routines: small matrices by loops of the extension, large ones by
LAPACK, called by address, in the precision of their elements.

Stacks of many small matrices have one matrix per vector lane; threads share stacks. LAPACK is
column-major: the memory of a row-major matrix is its transpose.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ingot.graph.numerics.blas import blas_address, lapack_address
from ingot.graph.numerics.routines import NO_OPERAND, Operand, Routine, RoutineBuilder, Spec
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

    def stacked(self, operand: Operand, elements: int, size: int | None = None) -> Operand:
        """A stack of matrices of that many elements, of `size` bytes if that is given."""
        return operand._replace(stride=elements * (self.item if size is None else size))

    def shared(self, elements: int, size: int | None = None) -> Operand:
        """Scratch memory for that many elements of each matrix."""
        stride = elements * (self.item if size is None else size)
        return self.builder.shared(stride * self.count, stride)

    def copy(
        self, source: Operand, target: Operand, rows: int, columns: int,
        *, strides: tuple[int, int] | None = None, part: int = _WHOLE,
    ) -> None:  # fmt: skip
        """Copies matrices to contiguous ones, from elements with these strides."""
        of_both = (*(strides or (columns, 1)), columns, 1)
        in_bytes = [stride * self.item for stride in of_both]
        numbers = (self.item, self.count, rows, columns, *in_bytes, part)
        self.builder.call("copy", (source, target), numbers)

    def unit(self, target: Operand) -> None:
        """Makes unit matrices."""
        self.builder.call("unit", [target], (self.item, self.count, self.rows))

    def transpose(self, source: Operand, target: Operand, rows: int, columns: int) -> None:
        """Copies matrices, which have that many columns and rows, to their transposes."""
        self.copy(source, target, rows, columns, strides=(1, rows))

    def lapack(
        self, name: str, work: int, operands: list[Operand], *, checked: bool = True
    ) -> None:
        """Calls a routine of LAPACK for each matrix; the last operand is its error code."""
        self.builder.can_fail |= checked
        info = len(operands) - 1 if checked else -1
        numbers = (self.count, 0 if self.is_wide else max(1, work), info)
        self.builder.call("lapack", operands, numbers, lapack_address(self._name(name)))

    def blas(self, name: str, work: int, operands: list[Operand]) -> None:
        """Calls a routine of BLAS for each matrix."""
        numbers = (self.count, 0 if self.is_wide else max(1, work), -1)
        self.builder.call("lapack", operands, numbers, blas_address(self._name(name)))

    def _name(self, name: str) -> str:
        return _PREFIXES[self.dtype.char] + name

    def workspace(self, name: str, *given: int | str, integers: bool = False) -> tuple[int, int]:
        """See `_workspace`."""
        return _workspace(self._name(name), *given, integers=integers)

    def info(self) -> Operand:
        """The error codes."""
        return self.shared(1, _INT)

    def dense(
        self, task: int, result: Operand, *, rhs: Operand = NO_OPERAND, rhs_columns: int = 0,
        second: Operand = NO_OPERAND, pivots: Operand | None = None,
    ) -> Routine:  # fmt: skip
        """The routine that computes small matrices one by one."""
        matrix = self.stacked(self.builder.inputs[0], self.rows * self.columns)
        scratch = self.builder.of_thread(self.rows * (self.columns + rhs_columns) * 8)
        found = pivots or self.builder.of_thread(self.rows * 4)
        operands = (matrix, rhs, result, second, found, scratch)
        numbers = (task, self.item, self.count, self.rows, self.columns, rhs_columns)
        self.builder.can_fail |= task not in (_DETERMINANTS, _FACTORS)
        self.builder.call("dense", operands, numbers)
        return self.builder.done()

    def is_dense(self) -> bool:
        """Whether small matrices are computed one by one."""
        return max(self.rows, self.columns) <= MAX_DENSE_LENGTH

    def fits_lanes(self, rhs_columns: int = 0) -> bool:
        """Whether there are so many small matrices that each has a vector lane."""
        return (
            self.count >= MIN_LANE_MATRICES
            and max(self.rows, self.columns) <= MAX_LU_LANE_LENGTH
            and self.rows * (self.columns + rhs_columns) <= 2 * MAX_LU_LANE_LENGTH**2
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
    operands = [builder.constant(value) if value else anything for value in given]
    operands += [work, builder.constant(-1)]
    if integers:
        operands += [ints, builder.constant(-1)]
    elif name.endswith("gesdd"):
        operands += [ints]
    operands += [builder.shared(_INT)]
    builder.call("lapack", operands, (1, 1, -1), lapack_address(name))
    found = builder.done().run()
    assert found is not None, "nothing is checked"
    return int(found[0][0]), int(found[1][0]) if integers else 0


def svd_routine(x: Spec, vectors: str) -> Routine | None:
    """Left vectors, singular values and right vectors: all of them ("A"), as many as there are
    values ("S"), or only the values ("N"). LAPACK reads columns, and is two to five times as fast
    at triangles of tall matrices as at those of wide ones, so tall ones are transposed.
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
    is_tall = rows > columns
    a = _finite_copy(stack, transposed=is_tall)
    found = [builder.shared(64), stack.stacked(builder.results[0], common), builder.shared(64)]
    if vectors != "N":
        sizes = (rows * height, common, width * columns)
        found = list(map(stack.stacked, builder.results, sizes))
    of_left, of_values, of_right = found
    if is_tall:
        if vectors != "N":
            of_left, of_right = stack.shared(rows * height), stack.shared(width * columns)
        of_a = (vectors, rows, columns, 0, rows, 0, 0, rows, 0, width)
        first, second = of_left, of_right
    else:  # the memory holds the transpose, whose left vectors are the right ones
        of_a = (vectors, columns, rows, 0, columns, 0, 0, columns, 0, height)
        first, second = of_right, of_left
    length, _ = stack.workspace("gesdd", *of_a)
    stack.lapack(
        "gesdd",
        8 * rows * columns * common,
        [
            *(stack.letter(vectors), number(of_a[1]), number(of_a[2]), a, number(of_a[4])),
            *(of_values, first, number(of_a[7]), second, number(of_a[9])),
            *(builder.of_thread(length * stack.item), number(length)),
            *(builder.of_thread(8 * common * _INT), stack.info()),
        ],
    )
    if is_tall and vectors != "N":
        stack.transpose(of_left, found[0], rows, height)
        stack.transpose(of_right, found[2], width, columns)
    return builder.done()


def _finite_copy(stack: _Stack, transposed: bool = False) -> Operand:
    """A copy of the matrices for LAPACK to overwrite; the routine fails if some elements are not
    finite, with which iterations would not converge.
    """
    elements = stack.rows * stack.columns
    source = stack.stacked(stack.builder.inputs[0], elements)
    stack.builder.call("finite", [source], (stack.item, stack.count * elements))
    stack.builder.can_fail = True
    a = stack.shared(elements)
    if transposed:
        stack.transpose(source, a, stack.columns, stack.rows)
    else:
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
            stack.stacked(builder.results[0], length),
            *(builder.of_thread(numbers * stack.item), number(numbers)),
            *(builder.of_thread(ints * _INT), number(ints), stack.info()),
        ],
    )
    if vectors:
        stack.transpose(a, stack.stacked(builder.results[1], length**2), length, length)
    return builder.done()


def qr_routine(x: Spec) -> Routine | None:
    """Orthonormal columns and upper triangles of matrices with at least as many rows as columns."""
    if not _is_real(x):
        return None
    (*batch, rows, columns), dtype = x
    stack = _Stack([x], [x, ((*batch, columns, columns), dtype)])
    builder, number = stack.builder, stack.number
    a, factors, info = stack.shared(rows * columns), stack.shared(columns), stack.info()
    q, r = map(stack.stacked, builder.results, (rows * columns, columns**2))
    stack.transpose(stack.stacked(builder.inputs[0], rows * columns), a, columns, rows)
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
        stack.stacked(operand, rows * columns)
        for operand in (builder.inputs[0], builder.results[0])
    )
    pivots, positions = (
        stack.stacked(operand, length, 4)
        for operand, length in zip(builder.results[1:], (rank, rows), strict=True)
    )
    if stack.fits_lanes():
        operands = (source, NO_OPERAND, factors, NO_OPERAND, pivots, positions)
        numbers = (_LANE_FACTORS, stack.item, stack.count, rows, columns, 0)
        builder.call("lanes", operands, numbers)
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
    results = [stack.stacked(operand, 1) for operand in stack.builder.results]
    if stack.fits_lanes():
        return _determinants_in_lanes(stack, results)
    if not stack.is_dense():
        return None
    second = results[1] if logarithms else NO_OPERAND
    return stack.dense(_DETERMINANTS, results[0], second=second)


def _determinants_in_lanes(stack: _Stack, results: list[Operand]) -> Routine:
    builder, count, length = stack.builder, stack.count, stack.rows
    source, found = builder.inputs[0], results
    if stack.dtype != _FLOAT64:
        source = builder.shared(count * length**2 * 8)
        builder.call("convert", (builder.inputs[0], source), (1, count * length**2))
        found = [builder.shared(count * 8) for _ in results]
    second = found[1] if len(found) > 1 else NO_OPERAND
    operands = (source, NO_OPERAND, found[0], second, NO_OPERAND, NO_OPERAND)
    builder.call("lanes", operands, (_LANE_DETERMINANTS, 8, count, length, length, 0))
    if stack.dtype != _FLOAT64:
        for operand, result in zip(found, results, strict=True):
            builder.call("convert", (operand, result), (0, count))
    return builder.done()


class _Systems(_Stack):
    """Linear systems, or matrices to invert if there are no right-hand sides."""

    def __init__(self, a: Spec, b: Spec | None) -> None:
        super().__init__([a] if b is None else [a, b], [b or a])
        inputs, (result,) = self.builder.inputs, self.builder.results
        self.rhs_columns = (b or a)[0][-1]
        self.matrix = self.stacked(inputs[0], self.rows**2)
        self.result = self.stacked(result, self.rows * self.rhs_columns)
        self.rhs = NO_OPERAND if b is None else self.stacked(inputs[1], self.result.stride, 1)

    def solved(self, task: int) -> Routine:
        """The routine that solves small systems one by one."""
        return self.dense(task, self.result, rhs=self.rhs, rhs_columns=self.rhs_columns)


def solve_routine(a: Spec, b: Spec | None) -> Routine | None:
    """The solutions of a @ x = b, or the inverses of `a`."""
    if not _is_real(a) or not _is_real(b or a):
        return None
    systems = _Systems(a, b)
    builder, length, rhs_columns = systems.builder, systems.rows, systems.rhs_columns
    if systems.fits_lanes(rhs_columns):
        builder.can_fail = True
        operands = (systems.matrix, systems.rhs, systems.result, *[NO_OPERAND] * 3)
        shape = (systems.count, length, length, rhs_columns)
        builder.call("lanes", operands, (_LANE_SOLUTIONS, systems.item, *shape))
        return builder.done()
    if systems.is_dense():
        return systems.solved(_INVERT if b is None else _SOLVE)
    return _solved_by_lapack(systems)


def _solved_by_lapack(stack: _Systems) -> Routine:
    """The transposes are factorised, which need no copy of their own: their inverses, transposed,
    solve the equations.
    """
    builder, number, length = stack.builder, stack.number, stack.rows
    matrix, rhs, result, rhs_columns = stack.matrix, stack.rhs, stack.result, stack.rhs_columns
    is_inverse = rhs is NO_OPERAND
    factors, pivots, info = stack.shared(length**2), stack.shared(length, _INT), stack.info()
    stack.copy(matrix, factors, length, length)
    columns = result if is_inverse or rhs_columns == 1 else stack.shared(length * rhs_columns)
    if is_inverse:  # the memory of the solution is its transpose too
        stack.unit(columns)
    else:
        stack.transpose(rhs, columns, rhs_columns, length)
    n, transposed = number(length), stack.letter("N" if is_inverse else "T")
    stack.lapack("getrf", length**3, [n, n, factors, n, pivots, info])
    stack.lapack(
        "getrs",
        2 * rhs_columns * length**2,
        [transposed, n, number(rhs_columns), factors, n, pivots, columns, n, info],
    )
    if columns is not result:
        stack.transpose(columns, result, length, rhs_columns)
    return builder.done()


def triangular_routine(a: Spec, b: Spec | None, lower: bool) -> Routine | None:
    """The solutions of a @ x = b for triangles of `a`, or their inverses."""
    if not _is_real(a) or not _is_real(b or a):
        return None
    stack = _Systems(a, b)
    builder, number, letter, length = stack.builder, stack.number, stack.letter, stack.rows
    matrix, rhs, result, rhs_columns = stack.matrix, stack.rhs, stack.result, stack.rhs_columns
    if stack.is_dense():
        return stack.solved(_SOLVE_LOWER if lower else _SOLVE_UPPER)
    builder.can_fail = True
    builder.call("nonsingular", [matrix], (stack.item, stack.count, length))
    if b is None:
        stack.unit(result)
    else:
        stack.copy(rhs, result, length, rhs_columns)
    n, triangle = number(length), letter("U" if lower else "L")  # of the transpose
    if rhs_columns == 1:
        operands = [triangle, letter("T"), letter("N"), n, matrix, n, result, number(1)]
        stack.blas("trsv", length**2, operands)
        return builder.done()
    one = builder.constant(np.ones(1, stack.dtype))
    operands = [letter("R"), triangle, letter("N"), letter("N"), number(rhs_columns), n, one]
    stack.blas("trsm", rhs_columns * length**2, [*operands, matrix, n, result, number(rhs_columns)])
    return builder.done()


def cholesky_routine(x: Spec, upper: bool) -> Routine | None:
    """Triangular factors of positive definite matrices."""
    if not _is_real(x):
        return None
    stack = _Stack([x], [x])
    builder, number, length = stack.builder, stack.number, stack.rows
    source, result = (
        stack.stacked(operand, length**2) for operand in (builder.inputs[0], builder.results[0])
    )
    builder.can_fail = True
    if stack.count >= MIN_LANE_MATRICES and length <= MAX_LANE_LENGTH:
        builder.call("definite", (source, result), (stack.item, stack.count, length, int(upper)))
        return builder.done()
    if stack.is_dense():
        return stack.dense(_UPPER if upper else _LOWER, result)
    stack.copy(source, result, length, length, part=_UPPER_PART if upper else _LOWER_PART)
    triangle = stack.letter("L" if upper else "U")  # of the transpose
    operands = [triangle, number(length), result, number(length), stack.info()]
    stack.lapack("potrf", length**3, operands)
    return builder.done()
