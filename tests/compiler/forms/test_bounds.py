"""Bounds of affine expressions, against all iterations of real loops."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.bounds import Bounds
from ingot.compiler.forms.sizes import Sizes

ROW, COLUMN = Index(), Index()


def loops(length: int, tile: int) -> tuple[Bounds, list[dict[Index, int]]]:
    """i in 0..length, j in tile * i .. tile * i + tile, and all their iterations."""
    bounds = Bounds()
    bounds.define(ROW, [affine(0)], [affine(length - 1)])
    first = affine(ROW) * tile
    bounds.define(COLUMN, [first], [first + (tile - 1)])
    found = [{ROW: i, COLUMN: tile * i + k} for i, k in product(range(length), range(tile))]
    return bounds, found


@given(st.integers(1, 4), st.integers(1, 3), st.integers(-3, 3), st.integers(-3, 3))
def test_bounds_hold_for_all_iterations(length: int, tile: int, a: int, b: int) -> None:
    bounds, iterations = loops(length, tile)
    x = affine(ROW) * a + affine(COLUMN) * b
    values = [x.constant + sum(at[v] * c for v, c in x.terms.items()) for at in iterations]
    (least,), (most,) = bounds.least(x), bounds.most(x)
    assert least.constant == min(values)  # and they are reached
    assert most.constant == max(values)
    assert bounds.is_not_negative(x) == (min(values) >= 0)


def test_what_is_kept_stays() -> None:
    bounds, _ = loops(4, 3)
    (least,) = bounds.least(affine(COLUMN) + 1, keep={ROW})
    assert least.terms == {ROW: 3}
    assert least.constant == 1


def test_several_ends_are_alternatives() -> None:
    bounds = Bounds()
    bounds.define(ROW, [affine(0)], [affine(9), affine(4)])
    assert bounds.is_not_negative(affine(4) - ROW)
    assert not bounds.is_not_negative(affine(3) - ROW)
    with bounds.narrowed(ROW, [affine(3)]):
        assert bounds.is_not_negative(affine(3) - ROW)
    assert not bounds.is_not_negative(affine(3) - ROW)


def test_symbols_are_what_their_sizes_are_known_to_be() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 40)
    tiles = -(-n // 8)
    bounds = Bounds()
    assert bounds.is_not_negative(affine(n))
    assert bounds.is_not_negative(affine(tiles * 8 - n))
    assert not bounds.is_not_negative(affine(n - tiles * 8))
    assert not bounds.is_not_negative(Affine({}, -1))


def test_indices_in_scope_are_known() -> None:
    bounds = Bounds()
    assert not bounds.knows(ROW)
    bounds.define(ROW, [affine(1)], [affine(2)])
    assert bounds.knows(ROW)
    assert [x.constant for side in bounds.range_of(ROW) for x in side] == [1, 2]
