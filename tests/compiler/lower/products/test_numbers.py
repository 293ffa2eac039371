"""Lengths and strides that kernels take as arguments."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.affine import Symbol
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.lower.products.numbers import Numbers, code_key, numbers_of
from ingot.graph.dtype import float32


def test_a_name_is_one_symbol() -> None:
    numbers = Numbers()
    rows = numbers("rows", 7)
    assert isinstance(rows, Symbol)
    assert numbers("rows", 7) is rows
    assert numbers("columns", 7) is not rows
    with pytest.raises(AssertionError, match="rows has two values"):
        numbers("rows", 8)


@pytest.mark.parametrize(("stride", "is_constant"), [(0, True), (4, True), (8, False), (-4, False)])
def test_unit_and_zero_strides_are_constants(stride: int, is_constant: bool) -> None:
    found = Numbers().stride("row", stride, 4)
    assert isinstance(found, int) == is_constant


def _key(rows: int, columns: int, dtype_size: int = 4) -> object:
    builder, numbers = NestBuilder(), Numbers()
    shape = [numbers("rows", rows), numbers("columns", columns)]
    strides = [numbers.stride("row", columns * dtype_size, 4), dtype_size]
    builder.buffer("a", float32, shape, strides, 0)
    return code_key(builder, numbers, "part")


def test_kernels_that_differ_in_sizes_share_code() -> None:
    assert _key(3, 5) == _key(30, 50)
    assert _key(3, 5) != _key(3, 5, dtype_size=8)  # elements are not adjacent
    assert _key(3, 5) != _key(3, 1)  # rows are


def test_lengths_of_tiny_matrices_are_constants_and_those_of_their_stack_are_not() -> None:
    tiny, large = numbers_of((1000,), (4, 4, 4)), numbers_of((1000,), (40, 40, 40))
    for name in ("s0", "d0", "a.s0", "a.offset", "tasks"):
        assert isinstance(tiny(name, 9), Symbol)
    for name in ("a.rows", "n", "e0.d1", "blocks"):
        assert tiny(name, 4) == 4
        assert isinstance(large(name, 40), Symbol)
    assert isinstance(numbers_of((), (4, 4, 4))("a.rows", 4), Symbol)  # one matrix


def test_symbolic_sizes_have_no_key() -> None:
    builder, numbers = NestBuilder(), Numbers()
    builder.buffer("a", float32, [numbers("rows", Sizes().dimension(0, 5))], [4], 0)
    assert code_key(builder, numbers) is None
