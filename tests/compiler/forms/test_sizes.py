"""What is known of sizes: proofs that hold for all shapes, conditions where there is none."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.sizes import Sizes


def test_what_holds_for_all_lengths_is_no_condition() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 10)
    sizes.assume(n)
    assert n * 2 + 1 > n
    assert n // 4 * 4 <= n
    assert -(-n // 4) * 4 >= n
    assert n % 4 < 4
    assert not any(known.is_condition for known in sizes.ranges.values())


def test_what_holds_for_the_example_is_a_condition() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 10)
    assert n > 8
    assert [known.low for known in sizes.ranges.values() if known.is_condition] == [9]
    assert n > 3  # follows from it
    assert len([known for known in sizes.ranges.values() if known.is_condition]) == 1


def test_pinned_sizes_are_numbers() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 3)
    assert list(range(n)) == [0, 1, 2]
    assert sizes.number(n * n, [3]) == 9
    assert sizes.is_zero(n - 3)


@pytest.mark.parametrize("value", [1, 7, 8, 9, 64])
def test_numbers_of_all_kinds_of_atoms(value: int) -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 20)
    sizes.assume(n - 1)
    for size, expected in (
        (n // 8, value // 8),
        (n % 8, value % 8),
        (sizes.largest((n, 16)), max(value, 16)),
        (n * n - n, value * value - value),
    ):
        assert sizes.number(size, [value]) == expected


def test_other_hints_keep_what_is_known() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 20)
    sizes.assume(n - 10)
    other = sizes.with_hints([50])
    moved = sizes.moved(n * 2, other, [50])
    assert moved.hint == 100
    assert other.proves(moved - 20)


def test_sizes_that_come_later_are_defined_once() -> None:
    sizes = Sizes()
    n = sizes.dimension(0, 4)
    later = sizes.later(12)
    sizes.define(later, n * 3)
    assert sizes.number(later, [4]) == 12
    assert sizes.number(later, [5]) == 15
    assert is_symbolic(later)


def test_nothing_is_divided_by_zero() -> None:
    sizes = Sizes()
    with pytest.raises(ZeroDivisionError):
        sizes.dimension(0, 4) // sizes.dimension(1, 0)
