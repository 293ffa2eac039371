"""Maps: one parallel loop, in tiles where rows are long."""

from __future__ import annotations

from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

from ingot.tuning import MAP_TILE


def test_a_map_of_one_axis_is_one_vector_loop() -> None:
    (text,) = texts_of(lambda x, y: x * y + 1, numbers(40), numbers(40))
    assert "parallel i in 0..40 vector" in text
    assert "for " not in text


def test_axes_are_joined_where_operands_allow_it() -> None:
    (nest,) = nests_of(lambda x, y: x * y, numbers(4, 5, 6), numbers(4, 5, 6))
    assert nest.parallel[0].lengths == (120,)
    (nest,) = nests_of(lambda x, y: x * y, numbers(4, 5, 6), numbers(4, 1, 6))
    assert nest.parallel[0].lengths == (4, 5)


def test_long_rows_are_tiles_in_parallel() -> None:
    (nest,) = nests_of(lambda x, y: x + y, numbers(2, MAP_TILE + 8), numbers(2, 1))
    (region,) = nest.parallel
    assert region.lengths == (2, 2)
    assert region.work == MAP_TILE
    (nest,) = nests_of(lambda x, y: x + y, numbers(2, MAP_TILE), numbers(2, 1))
    assert nest.parallel[0].lengths == (2,)


def test_a_scalar_is_one_iteration() -> None:
    (nest,) = nests_of(lambda x, y: x * y, numbers(), numbers())
    assert nest.parallel[0].lengths == ()


def test_maps_say_that_they_are_elementwise() -> None:
    """So that a result may take the memory of an operand."""
    (nest,) = nests_of(lambda x: -x, numbers(40))
    assert nest.elementwise
