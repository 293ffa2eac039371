"""Maps: one parallel loop, in tiles where rows are long."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Loop
from ingot.tuning import MAP_TILE
from ingot.tuning_vectors import MAX_SHORT_ROW, MIN_ROWS_ACROSS


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


def test_vectors_run_across_short_rows() -> None:
    def product(x: mx.array, y: mx.array) -> mx.array:
        return x[:, None] * y

    (nest,) = nests_of(product, numbers(6, 3), numbers(40, 3))
    assert nest.parallel[0].lengths == (6,)
    (loop,) = nest.parallel[0].body
    assert isinstance(loop, Loop)
    assert loop.kind == "vector"
    (nest,) = nests_of(lambda x, y: x * y, numbers(40, 3), numbers(40, 1))
    assert (nest.parallel[0].lengths, nest.parallel[0].kind) == ((40,), "vector")
    # tiles of many rows are shared by threads; few rows, and longer ones, have vectors of their own
    (nest,) = nests_of(product, numbers(2, 3), numbers(2 * MAP_TILE, 3))
    assert nest.parallel[0].lengths == (2, 2)
    for count, length in [(MIN_ROWS_ACROSS - 1, 3), (40, MAX_SHORT_ROW + 1)]:
        (nest,) = nests_of(product, numbers(6, length), numbers(count, length))
        assert nest.parallel[0].lengths == (6, count)


@pytest.mark.parametrize("length", [2, 3, MAX_SHORT_ROW])
@pytest.mark.parametrize("count", [MIN_ROWS_ACROSS, 19, MAP_TILE + 5])
def test_short_rows_are_those_of_numpy(count: int, length: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-9, 9, (n, length)).astype(np.float32) for n in (3, count))
    scale = rng.integers(1, 9, count).astype(np.float32)

    def boxes(x: mx.array, y: mx.array) -> mx.array:
        return mx.maximum(x[:, None], y[None]) - mx.minimum(x[:, None], y[None, :, ::-1])

    def scaled(y: mx.array, scale: mx.array) -> mx.array:
        return mx.where(scale[:, None] > 4, y[:, ::-1] * scale[:, None], y)

    first = np.maximum(x[:, None], y) - np.minimum(x[:, None], y[:, ::-1])
    second = np.where(scale[:, None] > 4, y[:, ::-1] * scale[:, None], y)
    for shapeless in (False, True):
        found = mx.compile(boxes, shapeless=shapeless)(mx.array(x), mx.array(y))
        np.testing.assert_array_equal(np.array(found), first)
        found = mx.compile(scaled, shapeless=shapeless)(mx.array(y), mx.array(scale))
        np.testing.assert_array_equal(np.array(found), second)
