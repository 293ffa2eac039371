"""Structures of sizes as functions: what they make, and for which shapes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.size_code import (
    DeferredCall,
    DimensionValue,
    compiled,
    depends_on_shapes,
    evaluated,
)
from ingot.compiler.forms.sizes import Sizes


@given(st.integers(1, 50), st.integers(1, 50))
def test_the_function_computes_every_size(m: int, n: int) -> None:
    sizes = Sizes()
    a, b = sizes.dimension(0, 6), sizes.dimension(1, 4)
    sizes.assume(b - 1)
    structure = (a, [a * b + 1, -(-a // 8)], sizes.largest((a, b)), a % b, "kept", 3)
    assert compiled(sizes, structure)([m, n]) == (
        m,
        [m * n + 1, -(-m // 8)],
        max(m, n),
        m % n,
        "kept",
        3,
    )


def test_shapes_that_do_not_meet_the_conditions_get_nothing() -> None:
    sizes = Sizes()
    a = sizes.dimension(0, 6)
    assert a > 4
    assert a != 9
    function = compiled(sizes, (a,))
    assert function([4]) is None
    assert function([9]) is None
    assert function([5]) == (5,)


def test_numbers_that_ops_need_are_conditions() -> None:
    sizes = Sizes()
    sizes.numbers[0] = 2.5
    function = compiled(sizes, (1,))
    assert function([2.5]) == (1,)
    assert function([3.5]) is None


def test_what_is_made_is_made_for_each_shape() -> None:
    sizes = Sizes()
    a = sizes.dimension(0, 6)
    calls: list[Any] = []

    def remember(*arguments: Any) -> int:
        calls.append(arguments)
        return len(calls)

    function = compiled(sizes, [DeferredCall(remember, (a + 1, DimensionValue(0)))])
    assert function([2]) == [1]
    assert function([3]) == [2]
    assert calls == [(3, 2), (4, 3)]


def test_structures_without_sizes_are_made_at_once() -> None:
    assert evaluated((1, [DeferredCall(max, (2, DeferredCall(min, (5, 7))))])) == (1, [5])


def test_what_depends_on_shapes() -> None:
    a = Sizes().dimension(0, 6)
    assert depends_on_shapes((1, [a]))
    assert depends_on_shapes(DeferredCall(max, (1, a)))
    assert not depends_on_shapes((1, [2, "a"]))


@pytest.mark.parametrize("constant", [1, 2**70])  # no code can be written with the second
@pytest.mark.parametrize(("m", "n"), [(3, 5), (2**40, 2**41)])
def test_numbers_beyond_64_bits(m: int, n: int, constant: int) -> None:
    sizes = Sizes()
    a, b = sizes.dimension(0, 6), sizes.dimension(1, 4)
    sizes.assume(a - 1)
    structure = (
        a * b,
        [a * constant, DimensionValue(1)],
        (a * b,),
        DeferredCall(max, (a, b, 7)),
        "kept",
    )
    assert compiled(sizes, structure)([m, n]) == (
        m * n,
        [m * constant, n],
        (m * n,),
        max(m, n, 7),
        "kept",
    )
