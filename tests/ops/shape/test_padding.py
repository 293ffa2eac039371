"""Padding in all modes against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx

MODES = ["constant", "edge", "reflect", "symmetric"]
WIDTHS = [0, 1, (2,), (1, 2), [(1, 2), (0, 3)], ((0, 0), (9, 7))]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", WIDTHS)
def test_values_and_rules(mode: Any, width: Any) -> None:
    x = doubles(3, 4)
    expected = np.pad(x, width, mode)
    np.testing.assert_array_equal(value(mx.pad(exact(x), width, mode)), expected)
    theirs = np.array(mlx.pad(mlx.array(x.astype(np.float32)), width, mode))
    np.testing.assert_array_equal(theirs, expected.astype(np.float32))
    check_derivatives(lambda a: mx.pad(a, width, mode), x)
    check_vmap(lambda a: mx.pad(a, width, mode), doubles(3, 5, 4), in_axes=[1])


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric"])
def test_one_element_is_repeated(mode: Any) -> None:
    assert mx.pad(mx.array([5]), 2, mode).tolist() == [5, 5, 5, 5, 5]


def test_nothing_has_an_edge_of_zeros() -> None:
    assert mx.pad(mx.zeros((0,)), 1, "edge").tolist() == [0.0, 0.0]


def test_the_constant_is_differentiable_and_one_for_a_batch() -> None:
    x, constant = doubles(2, 3), doubles(seed=1)
    check_derivatives(lambda a, c: mx.pad(a, 1, constant_values=c), x, constant)

    def padded(a: Any, c: Any) -> Any:
        return mx.pad(a, ((1, 0), (0, 2)), constant_values=c)

    for arrays, in_axes in (((4, 2, 3), (0, 0)), ((2, 3), (None, 0))):
        with pytest.raises(ValueError, match="vmap over constant_values is not supported"):
            mx.vmap(padded, in_axes)(mx.ones(arrays), mx.ones(4))
    one = exact(constant) * 2
    check_vmap(lambda a: padded(a, one), doubles(4, 2, 3), in_axes=[0])


@pytest.mark.parametrize(
    ("dtype", "constant", "result"),
    [("int32", 5.7, 5), ("int32", True, 1), ("bool_", 2, True), ("float32", 2 + 3j, 2.0)],
)
def test_the_constant_takes_the_dtype_of_the_array(dtype: str, constant: Any, result: Any) -> None:
    padded = mx.pad(mx.array([0, 1], getattr(mx, dtype)), (1, 0), constant_values=constant)
    assert padded.dtype is getattr(mx, dtype)
    assert padded.tolist()[0] == result


A = mx.arange(6)

ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mx.pad(A, (1, -1)),
        ValueError,
        "[pad] widths cannot be negative, got (1, -1): remove elements with a slice.",
    ),
    (
        lambda: mx.pad(A, [(1, 1), (2, 2)]),
        ValueError,
        "[pad] 2 pairs of widths were given for 1 axes.",
    ),
    (
        lambda: mx.pad(A, (1, 2, 3)),
        TypeError,
        "[pad] pad_width must be an int, a pair of ints or one pair for each axis, got (1, 2, 3).",
    ),
    (
        lambda: mx.pad(A, ((1,),)),
        TypeError,
        "[pad] pad_width must be an int, a pair of ints or one pair for each axis, got ((1,),).",
    ),
    (
        lambda: mx.pad(A, 1.5),
        TypeError,
        "[pad] pad_width must be an int, a pair of ints or one pair for each axis, got 1.5.",
    ),
    (
        lambda: mx.pad(A, 1, "wrong"),
        ValueError,
        '[pad] mode is "constant", "edge", "reflect" or "symmetric", got \'wrong\'.',
    ),
    (
        lambda: mx.pad(A, 1, constant_values=None),
        TypeError,
        "[pad] constant_values must be a number or an array of one element, got None.",
    ),
    (
        lambda: mx.pad(A, 1, constant_values=mx.array([])),
        ValueError,
        "[pad] constant_values must be one number, got an empty array.",
    ),
    (
        lambda: mx.pad(mx.zeros((0,)), 1, "reflect"),
        ValueError,
        '[pad] axis 0 of shape (0) is empty: mode "reflect" has nothing to mirror.',
    ),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
