"""Winograd's transforms: how a few results of three taps take fewer products.

F(2, 3) computes two neighbouring results of a filter with three taps from four elements d of the
input: A^T [(G g) * (B^T d)], four products instead of six. Along two axes that is 16 products for
36. Sums over channels are taken between the transforms, which are linear. All entries of A and B
are 0, 1 or -1, so transforms add and subtract; those of G are halves, which scale exactly.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant, Repeated, Value

__all__ = [
    "ELEMENTS",
    "FILTER",
    "INPUT",
    "OUTPUT",
    "OUTPUTS",
    "TAPS",
    "of_filters",
    "of_input",
    "of_products",
]

Matrix = tuple[tuple[float, ...], ...]
Grid = list[list[Value]]  # of bundles

OUTPUTS = 2  # along an axis
TAPS = 3
ELEMENTS = 4  # of the input, and products

INPUT: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))  # B^T
FILTER: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))  # G
OUTPUT: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))  # A^T


def of_input(builder: NestBuilder, elements: Grid) -> Grid:
    """B^T d B."""
    return _transformed(builder, INPUT, elements)


def of_filters(builder: NestBuilder, filters: Grid) -> Grid:
    """G g G^T."""
    return _transformed(builder, FILTER, filters)


def of_products(builder: NestBuilder, products: Grid) -> Grid:
    """A^T m A: the results."""
    return _transformed(builder, OUTPUT, products)


def _transformed(builder: NestBuilder, matrix: Matrix, grid: Grid) -> Grid:
    """A matrix times a grid times the transposed matrix."""
    columns = [_combined(builder, matrix, column) for column in zip(*grid, strict=True)]
    return [_combined(builder, matrix, row) for row in zip(*columns, strict=True)]


def _combined(builder: NestBuilder, matrix: Matrix, values: Sequence[Value]) -> list[Value]:
    return [_sum(builder, row, values) for row in matrix]


def _sum(builder: NestBuilder, factors: Sequence[float], values: Sequence[Value]) -> Value:
    """A sum of multiples. A sum that begins with a difference has its first positive term first."""
    words = builder.words
    terms = [(f, value) for f, value in zip(factors, values, strict=True) if f]
    terms.sort(key=lambda term: term[0] < 0)
    total: Value | None = None
    scale = 1.0
    if len({abs(f) for f, _ in terms}) == 1:  # one multiplication for all
        scale = abs(terms[0][0])
    for factor, value in terms:
        if total is None:
            total = value
        elif factor < 0:
            total = words.subtract(total, value)
        else:
            total = words.add(total, value)
    assert total is not None
    if scale != 1:
        half = Repeated(total.dtype, Constant(total.dtype, scale), total.lanes)
        total = words.multiply(total, half)
    return total
