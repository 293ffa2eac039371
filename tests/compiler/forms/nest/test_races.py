"""Whether iterations meet: proofs compared with all iterations, one by one."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.bounds import Bounds
from ingot.compiler.forms.nest.data import Buffer, Split
from ingot.compiler.forms.nest.races import Access, are_disjoint, never_meet
from ingot.graph.dtype import float32

X = Buffer("x", float32, (99,), (4,), 0)
ROW, COLUMN = Index(), Index()


def ranges(length: int, inner: int) -> Bounds:
    bounds = Bounds()
    bounds.define(ROW, [affine(0)], [affine(length - 1)])
    bounds.define(COLUMN, [affine(0)], [affine(inner - 1)])
    return bounds


def elements(x: Affine, i: int, inner: int) -> set[int]:
    found = set()
    for j in range(inner):
        values = {ROW: i, COLUMN: j}
        found.add(x.constant + sum(values[v] * c for v, c in x.terms.items()))
    return found


affines = st.builds(
    lambda a, b, c: affine(ROW) * a + affine(COLUMN) * b + c,
    st.integers(-4, 4),
    st.integers(-2, 2),
    st.integers(0, 3),
)


@given(affines, affines, st.integers(1, 4), st.integers(1, 3))
def test_no_proof_is_wrong(x: Affine, y: Affine, length: int, inner: int) -> None:
    accesses = [Access(X, (x,), True), Access(X, (y,), False)]
    if not are_disjoint(ranges(length, inner), (ROW,), accesses):
        return
    for i, k in product(range(length), repeat=2):
        if i != k:
            written = elements(x, i, inner)
            assert not written & elements(x, k, inner)
            assert not written & elements(y, k, inner)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 3))
def test_blocks_are_distinguished(length: int, inner: int, gap: int) -> None:
    """Proofs of blocks are found whenever they are right."""
    x = affine(ROW) * (inner + gap) + COLUMN
    assert are_disjoint(ranges(length, inner), (ROW,), [Access(X, (x,), True)])
    if inner > 1 and length > 1:
        overlapping = affine(ROW) * (inner - 1) + COLUMN
        assert not are_disjoint(ranges(length, inner), (ROW,), [Access(X, (overlapping,), True)])


def test_reads_may_meet() -> None:
    assert are_disjoint(ranges(4, 1), (ROW,), [Access(X, (affine(0),), False)])
    assert not are_disjoint(ranges(4, 1), (ROW,), [Access(X, (affine(0),), True)])
    assert are_disjoint(ranges(1, 1), (ROW,), [Access(X, (affine(0),), True)])


def test_two_loops_that_never_meet() -> None:
    low, high = Access(X, (affine(ROW),), True), Access(X, (affine(ROW) + 4,), False)
    assert never_meet(ranges(4, 1), [low], [high])
    assert not never_meet(ranges(5, 1), [low], [high])


def test_numbers_that_are_split() -> None:
    """Blocks of two in rows of three blocks, by the number of the block."""
    bounds = ranges(6, 2)
    row, block = Index(), Index()
    bounds.define(row, [affine(0)], [affine(1)])
    bounds.define(block, [affine(0)], [affine(2)])
    split = Split((row, block), affine(ROW), (2, 3))
    grid = Buffer("grid", float32, (2, 6), (24, 4), 0)

    def access(by: int) -> Access:
        return Access(grid, (affine(row), affine(block) * by + COLUMN), True, splits=(split,))

    assert are_disjoint(bounds, (ROW,), [access(2)])
    assert not are_disjoint(bounds, (ROW,), [access(1)])
    found = [{(n // 3, n % 3 * 2 + j) for j in range(2)} for n in range(6)]
    assert not any(a & b for a, b in combinations(found, 2))


def test_splits_of_what_was_split() -> None:
    """Blocks of two in matrices of six elements, by the number of the block."""
    bounds = ranges(6, 2)
    matrix, block, row, column = Index(), Index(), Index(), Index()
    for index, length in ((matrix, 2), (block, 3), (row, 3), (column, 2)):
        bounds.define(index, [affine(0)], [affine(length - 1)])
    outer = Split((matrix, block), affine(ROW), (2, 3))
    stack = Buffer("stack", float32, (2, 3, 2), (24, 8, 4), 0)

    def access(by: int, is_outer_known: bool = True) -> Access:
        inner = Split((row, column), affine(block) * by + COLUMN, (3, 2))
        splits = (outer, inner) if is_outer_known else (inner,)
        return Access(stack, (affine(matrix), affine(row), affine(column)), True, splits=splits)

    assert are_disjoint(bounds, (ROW,), [access(2)])
    assert not are_disjoint(bounds, (ROW,), [access(1)])
    assert not are_disjoint(bounds, (ROW,), [access(2, False)])
    found = [{(n // 3, *divmod(n % 3 * 2 + j, 2)) for j in range(2)} for n in range(6)]
    assert not any(a & b for a, b in combinations(found, 2))


def test_limits_of_masks_count() -> None:
    bounds = ranges(4, 8)
    x = affine(ROW) * 3 + COLUMN
    assert not are_disjoint(bounds, (ROW,), [Access(X, (x,), True)])
    assert are_disjoint(bounds, (ROW,), [Access(X, (x,), True, limits=((COLUMN, affine(3)),))])
