"""Arithmetic on shapes and axes, and the sentences it raises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.dimension import Dimension, Guards, resolve, symbolic_shape
from ingot.graph.shape import (
    as_axes,
    as_lengths,
    as_shape,
    axes_tuple,
    broadcast_shapes,
    fill_length,
    normalize_axes,
    normalize_axis,
    shape_text,
    size_of,
)


def test_sizes_and_texts() -> None:
    assert size_of(()) == 1
    assert size_of((2, 0, 3)) == 0
    assert size_of((2, 3)) == 6
    assert shape_text(()) == "()"
    assert shape_text((2, 3)) == "(2, 3)"


@pytest.mark.parametrize("value", [(2, 3), [2, 3], np.array([2, 3]), range(2, 4)])
def test_lengths_come_from_sequences(value: Any) -> None:
    assert as_lengths("reshape", value) == (2, 3)
    assert all(type(length) is int for length in as_lengths("reshape", value))


def test_shapes_come_from_ints_too() -> None:
    assert as_shape("zeros", 3) == (3,)
    assert as_shape("zeros", [2, 0]) == (2, 0)


@pytest.mark.parametrize(
    ("lengths", "filled"), [((6,), (6,)), ((-1,), (6,)), ((2, -1), (2, 3)), ((1, -1, 6), (1, 1, 6))]
)
def test_fill_length(lengths: Any, filled: Any) -> None:
    assert fill_length("reshape", (2, 3), lengths) == filled


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        ([()], ()),
        ([(3, 1), (4,)], (3, 4)),
        ([(0,), (1,)], (0,)),
        ([(5, 1, 4), (1, 3, 1), ()], (5, 3, 4)),
    ],
)
def test_broadcast_shapes(shapes: Any, result: Any) -> None:
    assert broadcast_shapes("add", *shapes) == result
    assert broadcast_shapes("add", *shapes) == np.broadcast_shapes(*shapes)


def test_axes() -> None:
    assert normalize_axis("sum", -1, 3) == 2
    assert axes_tuple("sum", 1) == (1,)
    assert as_axes("roll", [-1, 0, -1], 2) == (1, 0, 1)
    assert normalize_axes("sum", None, 3) == (0, 1, 2)
    assert normalize_axes("sum", (-1, 0), 3) == (0, 2)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: fill_length("reshape", (5, 5, 3), (6, -1)),
            ValueError,
            "[reshape] cannot reshape (5, 5, 3) to (6, -1): 75 elements do not divide by 6.",
        ),
        (
            lambda: fill_length("reshape", (6,), (4, 2)),
            ValueError,
            "[reshape] cannot reshape (6) to (4, 2): 6 elements do not fill it.",
        ),
        (
            lambda: fill_length("reshape", (6,), (-2, -3)),
            ValueError,
            "[reshape] cannot reshape (6) to (-2, -3): 6 elements do not fill it.",
        ),
        (
            lambda: fill_length("reshape", (6,), (-1, -1)),
            ValueError,
            "[reshape] cannot reshape (6) to (-1, -1): only one length can be -1.",
        ),
        (
            lambda: fill_length("reshape", (0,), (0, -1)),
            ValueError,
            "[reshape] cannot reshape (0) to (0, -1): "
            "give the length for -1, which times 0 could be any.",
        ),
        (
            lambda: as_lengths("reshape", (2, 3.0)),  # type: ignore[arg-type]
            TypeError,
            "[reshape] a shape must be a sequence of ints, got (2, 3.0).",
        ),
        (
            lambda: as_shape("zeros", (-1, 2)),
            ValueError,
            "[zeros] a shape cannot have negative lengths, got (-1, 2).",
        ),
        (
            lambda: broadcast_shapes("add", (2,), (3,)),
            ValueError,
            "[add] shapes (2) and (3) cannot be broadcast together.",
        ),
        (
            lambda: normalize_axis("sum", 2, 1),
            IndexError,
            "[sum] axis 2 is out of range for an array with 1 axis.",
        ),
        (
            lambda: normalize_axis("sum", 1.5, 1),  # type: ignore[arg-type]
            TypeError,
            "[sum] an axis must be an int, got 1.5.",
        ),
        (
            lambda: axes_tuple("sum", 1.5),  # type: ignore[arg-type]
            TypeError,
            "[sum] axes must be an int or a sequence of ints, got 1.5.",
        ),
        (
            lambda: normalize_axes("sum", (0, -1), 1),
            ValueError,
            "[sum] the axes (0, -1) name one of the 1 twice.",
        ),
    ],
)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


def test_dimensions_stay_symbolic() -> None:
    guards = Guards()
    shape = symbolic_shape(0, (4, 6), guards)
    assert all(type(length) is Dimension for length in as_lengths("reshape", shape))  # type: ignore[comparison-overlap]
    filled = fill_length("reshape", shape, (-1, 2))
    merged = fill_length("reshape", shape, (shape[0] * shape[1],))
    assert resolve(filled, guards.values([(10, 6)]) or []) == (30, 2)
    assert resolve(merged, guards.values([(10, 7)]) or []) == (70,)


def test_shapes_beyond_all_memory_are_refused() -> None:
    with pytest.raises(OverflowError, match=r"\[zeros\] an array of shape .* has more elements"):
        mx.zeros((2**30, 2**30))
    with pytest.raises(OverflowError, match=r"\[zeros\] an axis has at most 2147483647 elements"):
        mx.zeros((2**31,))
    with pytest.raises(OverflowError, match=r"\[ones\] shape does not fit into 64 bits"):
        mx.ones((2**70,))
    with pytest.raises(ValueError, match=r"\[ones\] an array has at most 64 axes, got 65"):
        mx.ones((1,) * 65)
