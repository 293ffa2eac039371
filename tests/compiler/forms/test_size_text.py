"""Conditions on shapes in words."""

from __future__ import annotations

from ingot.compiler.forms.size_text import condition_lines
from ingot.compiler.forms.sizes import Sizes


def lines(sizes: Sizes) -> list[str]:
    return condition_lines(sizes, lambda number: "mn"[number])


def test_ranges_are_printed() -> None:
    sizes = Sizes()
    m, n = sizes.dimension(0, 10), sizes.dimension(1, 3)
    assert m > 4
    assert m < 20
    assert m * n <= 100
    assert n != 7
    assert lines(sizes) == ["5 <= m <= 19", "m*n <= 100", "n != 7"]


def test_numbers_are_listed_with_what_needs_them() -> None:
    sizes = Sizes()
    m = sizes.dimension(0, 10)
    list(range(m))
    (line,) = lines(sizes)
    assert line.startswith("m == 10: ")
    assert "needs the number" in line


def test_quotients_are_printed_in_terms_of_dimensions() -> None:
    sizes = Sizes()
    m = sizes.dimension(0, 100)
    assert m // 8 > 10
    assert sizes.largest((m % 8, 3)) == 4
    found = lines(sizes)
    assert found[0] == "((m) // (8)) >= 11"
    assert any("max(" in line and line.endswith("== 4") for line in found)


def test_proven_conditions_are_not_listed() -> None:
    sizes = Sizes()
    m = sizes.dimension(0, 10)
    sizes.assume(m)
    assert m >= 0
    assert lines(sizes) == []
