"""Strided views against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx

VIEWS: list[tuple[tuple[int, ...], tuple[int, ...], int]] = [
    ((3, 3), (3, 1), 0),
    ((2, 2), (1, 1), 1),  # overlapping
    ((3, 2, 2), (0, 2, 1), 2),  # repeated
    ((4,), (-2,), 7),  # backwards
    ((), (), 5),
    ((1, 2), (2**40, 3), 1),  # a stride that is never taken
    ((0, 3), (9, 9), 0),
]


@pytest.mark.parametrize(("shape", "strides", "offset"), VIEWS)
def test_values_and_rules(shape: Any, strides: Any, offset: int) -> None:
    x = doubles(4, 3)
    flat = x.ravel()[offset:]
    expected = as_strided(flat, shape, [stride * x.itemsize for stride in strides])

    def view(a: Any) -> Any:
        return mx.as_strided(a, shape, strides, offset)

    np.testing.assert_array_equal(value(view(exact(x))), expected)
    # Whatever the layout of the input, its elements count in row order.
    np.testing.assert_array_equal(value(view(exact(x.T.copy()).T)), expected)
    check_derivatives(view, x)
    check_vmap(view, doubles(4, 5, 3), in_axes=[1])


def test_defaults_are_those_of_row_order() -> None:
    x = mx.reshape(mx.arange(6), (2, 3))
    assert mx.as_strided(x).tolist() == x.tolist()
    assert mx.as_strided(x.T).tolist() == x.T.tolist()
    assert mx.as_strided(x, (2, 2)).tolist() == [[0, 1], [2, 3]]
    assert mx.as_strided(x, strides=(1, 2)).tolist() == [[0, 2, 4], [1, 3, 5]]


A = mx.arange(6)

ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mx.as_strided(A, (7,), (1,)),
        ValueError,
        "[as_strided] shape (7), strides (1) and offset 0 reach elements 0 to 6 "
        "of an array that has 6.",
    ),
    (
        lambda: mx.as_strided(A, (2,), (-1,)),
        ValueError,
        "[as_strided] shape (2), strides (-1) and offset 0 reach elements -1 to 0 "
        "of an array that has 6.",
    ),
    (
        lambda: mx.as_strided(A, (2,), (2**40,)),
        ValueError,
        "[as_strided] shape (2), strides (1099511627776) and offset 0 reach elements 0 to "
        "1099511627776 of an array that has 6.",
    ),
    (
        lambda: mx.as_strided(A, (2, 2), (1,)),
        ValueError,
        "[as_strided] shape (2, 2) needs as many strides, got (1).",
    ),
    (
        lambda: mx.as_strided(A, (2,), (1,), -1),
        TypeError,
        "[as_strided] an offset must be an int that is not negative, got -1.",
    ),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_nothing_reaches_beyond_the_array(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
