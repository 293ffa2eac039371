"""Maps: one parallel loop, in tiles where rows are long."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.compiler.forms.nest.data import Loop
from ingot.compiler.lower.reductions.register_rows import MASKED_VECTOR_BYTES
from ingot.runtime.processor import vector_bytes
from ingot.tuning import MAP_TILE
from ingot.tuning_vectors import (
    MAX_ROW_IN_LOOP,
    MAX_SHORT_ROW,
    MAX_SINGLE_ELEMENTS,
    MIN_ROWS_ACROSS,
)


def test_a_map_of_one_axis_is_one_vector_loop() -> None:
    (text,) = texts_of(lambda x, y: x * y + 1, numbers(40), numbers(40))
    assert "parallel i in 0..40 vector" in text
    assert "for " not in text


def test_axes_are_joined_where_operands_allow_it() -> None:
    (nest,) = nests_of(lambda x, y: x * y, numbers(4, 5, 6), numbers(4, 5, 6))
    assert nest.parallel[0].lengths == (120,)
    (nest,) = nests_of(lambda x, y: x * y, numbers(4, 5, 66), numbers(4, 1, 66))
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
        (row,) = nest.parallel[0].body
        assert isinstance(row, Loop)
        assert (row.kind, row.ends[0].constant) == ("for", count)


def test_short_rows_of_three_axes_are_a_loop_that_threads_share() -> None:
    def product(x: mx.array, y: mx.array) -> mx.array:
        return x[:, None] * y

    (nest,) = nests_of(product, numbers(6, 8), numbers(40, 8))
    assert (nest.parallel[0].lengths, nest.parallel[0].work) == ((6,), 320)
    (nest,) = nests_of(product, numbers(2, 8), numbers(MAP_TILE, 8))
    assert nest.parallel[0].lengths == (2, 8)
    (nest,) = nests_of(product, numbers(6, MAX_ROW_IN_LOOP + 1), numbers(40, MAX_ROW_IN_LOOP + 1))
    assert nest.parallel[0].lengths == (6, 40)


def _kinds_of_last_loops(function: Callable[..., mx.array], *given: mx.array) -> list[str]:
    (nest,) = nests_of(function, *given)
    return [each.kind for each in nest.parallel[0].body if isinstance(each, Loop)]


def test_the_end_of_a_row_of_functions_is_a_masked_vector() -> None:
    def function(x: mx.array, y: mx.array) -> mx.array:
        return mx.tanh(x) * y

    lanes = vector_bytes() // 4
    ends = {1: 1, lanes // 2 + MAX_SINGLE_ELEMENTS: 1, lanes // 2 + MAX_SINGLE_ELEMENTS + 1: 2}
    for rest, count in ends.items():
        kinds = _kinds_of_last_loops(function, numbers(9, lanes + rest), numbers(lanes + rest))
        has_masks = vector_bytes() >= MASKED_VECTOR_BYTES
        assert kinds == ["vector", "masked"][: count if has_masks else 1]
    # not of fast ones
    kinds = _kinds_of_last_loops(
        lambda x, y: x * y, numbers(9, 2 * lanes - 1), numbers(2 * lanes - 1)
    )
    assert kinds == ["vector"]


@pytest.mark.parametrize("length", [5, 8, 19, 23, 29, 31, 64, 77, 1000])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16, mx.float64, mx.int32])
def test_rows_with_masked_ends_are_those_of_numpy(length: int, dtype: mx.Dtype) -> None:
    rng = np.random.default_rng(0)
    x, y, scale = (rng.integers(-4, 5, n) for n in ((3, length), (7, length), (3, 7)))

    def rows(x: mx.array, y: mx.array, scale: mx.array) -> tuple[mx.array, mx.array]:
        exponent = (x[:, None] - y) * scale[:, :, None]
        return exponent, mx.exp(exponent.astype(mx.float32) * 0.125)

    given = [mx.array(each).astype(dtype) for each in (x, y, scale)]
    products, found = mx.compile(rows)(*given)
    expected = (x[:, None] - y) * scale[:, :, None]
    np.testing.assert_array_equal(np.array(products.astype(mx.float64)), expected)
    np.testing.assert_allclose(np.array(found), np.exp(expected * 0.125), rtol=1e-6)


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
