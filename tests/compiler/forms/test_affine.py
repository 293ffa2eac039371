"""Affine expressions: sums that cancel, products, and sizes as symbols."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.affine import Affine, Index, Symbol, affine, extent, size_of_extent
from ingot.compiler.forms.sizes import Sizes

VARIABLES = (Index(), Index(), Symbol("n"))
terms = st.dictionaries(st.sampled_from(VARIABLES), st.integers(-5, 5).filter(bool))
expressions = st.builds(Affine, terms, st.integers(-9, 9))
VALUES = dict(zip(VARIABLES, (3, -2, 7), strict=True))


def value(x: Affine) -> int:
    return x.constant + sum(VALUES[v] * factor for v, factor in x.terms.items())


@given(expressions, expressions, st.integers(-4, 4))
def test_arithmetic_is_that_of_numbers(a: Affine, b: Affine, factor: int) -> None:
    assert value(a + b) == value(a) + value(b)
    assert value(a - b) == value(a) - value(b)
    assert value(a * factor) == value(a) * factor
    for found in (a + b, a - b, a * factor):
        assert all(found.terms.values()), "terms that cancel are gone"


@given(expressions, expressions)
def test_equal_expressions_have_equal_keys(a: Affine, b: Affine) -> None:
    assert (a + b).key() == (b + a).key()
    assert ((a - b).key() == Affine({}).key()) == (a.key() == b.key())


def test_numbers_and_variables_are_expressions() -> None:
    index = Index()
    assert value(affine(4)) == 4
    assert affine(index).terms == {index: 1}
    same = affine(index)
    assert affine(same) is same


def test_sizes_become_symbols_and_back() -> None:
    sizes = Sizes()
    n, m = sizes.dimension(0, 5), sizes.dimension(1, 3)
    size = n * m * 2 + n + 1
    found = affine(size)
    assert found.constant == 1
    assert sorted(found.terms.values()) == [1, 2]
    assert size_of_extent(found).key == size.key
    assert affine(n * m).terms.keys() <= found.terms.keys(), "a product is always the same symbol"
    assert extent(7) == 7
    assert isinstance(extent(n), Affine)


def test_the_product_of_two_variables_is_not_affine() -> None:
    index, size = Index(), Sizes().dimension(0, 5)
    found = affine(index) * size  # a number from now on, which is a condition
    assert found.terms == {index: 5}


def test_extents_hold_no_indices() -> None:
    with pytest.raises(AssertionError, match="no index of a loop"):
        size_of_extent(affine(Index()))


def test_numpy_ints_are_numbers() -> None:
    assert int(affine(int(np.int64(3))).constant) == 3
