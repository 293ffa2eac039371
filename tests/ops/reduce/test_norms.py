"""Norms and cross products: values and derivatives against MLX and NumPy, refusals."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.linalg.matrix_checks import DTYPES, check_close, double, normal, refuses, values
from tests.support.derivative_checks import Point, check_first_order, check_second_order

import ingot.core as mx

VECTOR_ORDERS = (None, 0, 1, -1, 2, -2, 3, -3, 0.5, inf, -inf, True, np.float32(1))
MATRIX_ORDERS = (None, 1, -1, 2, -2, inf, -inf, "fro", "f", "nuc")
VECTOR = np.array([3.0, 0.0, -4.0])
MATRIX = np.array([[1.0, -2.0, 3.0], [4.0, 0.0, -6.0]])


def outcome(library: Any, x: np.ndarray, dtype: str, **arguments: Any) -> Any:
    """The norm that a library gives: its dtype and value, or the type of its error."""
    a = library.array(x.astype(np.float32)).astype(getattr(library, dtype))
    try:
        found = library.linalg.norm(a, **arguments)
        return str(found.dtype).rpartition(".")[2], found.shape, np.array(found.tolist())
    except (ValueError, IndexError, TypeError) as error:
        return type(error)


def check_equals_mlx(x: np.ndarray, dtype: str, **arguments: Any) -> None:
    ours, theirs = (outcome(library, x, dtype, **arguments) for library in (mx, mlx))
    if isinstance(theirs, type):
        assert ours is theirs
        return
    assert ours[:2] == theirs[:2]
    tolerance = 1e-2 if "float16" in dtype else 1e-5
    np.testing.assert_allclose(ours[2], theirs[2], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("order", VECTOR_ORDERS)
def test_norms_of_vectors_equal_mlx(order: Any) -> None:
    for dtype in DTYPES:
        check_equals_mlx(np.abs(VECTOR) if dtype == "uint8" else VECTOR, dtype, ord=order)
    for axis, keepdims in product((0, 1, -1, [2], 3, -4, 1.5, "a"), (False, True)):
        check_equals_mlx(normal(2, 3, 2), "float32", ord=order, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("order", MATRIX_ORDERS)
def test_norms_of_matrices_equal_mlx(order: Any) -> None:
    for dtype in DTYPES:
        check_equals_mlx(np.abs(MATRIX) if dtype == "uint8" else MATRIX, dtype, ord=order)
    axes = ((0, 1), (1, 0), (0, 2), (2, 0), [-2, -1], (0, -1), (0, 5), (0, 1, 2), ())
    for axis, keepdims in product(axes, (False, True)):
        check_equals_mlx(normal(2, 3, 4), "float32", ord=order, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("order", ["bad", "inf", 0, 3, 0.5, float("nan"), 1j])
def test_norms_that_matrices_do_not_have(order: Any) -> None:
    assert outcome(mlx, MATRIX, "float32", ord=order) in (ValueError, TypeError)
    check_equals_mlx(MATRIX, "float32", ord=order)


def test_norms_without_axes_equal_mlx() -> None:
    for x, order, keepdims in product(
        (normal(2, 2, 2), np.array(2.0), np.zeros(0)), (None, 1, 3, inf, "fro"), (False, True)
    ):
        check_equals_mlx(x, "float32", ord=order, keepdims=keepdims)


@pytest.mark.parametrize("order", [1, -1, inf, -inf, 2, -2, "nuc", "fro"])
@pytest.mark.parametrize("axis", [(-1, -2), (-1, 0), (2, 1)])
def test_axes_from_the_end_count_before_one_is_removed(order: Any, axis: tuple[int, int]) -> None:
    x = normal(2, 3, 4)
    check_close(mx.linalg.norm(double(x), order, axis), np.linalg.norm(x, order, axis), 1e-12)


def test_squares_of_integers_do_not_wrap() -> None:
    assert mx.linalg.norm(mx.array([100, 0], mx.int8)).item() == 100


@pytest.mark.parametrize("order", VECTOR_ORDERS)
@pytest.mark.parametrize("x", [VECTOR, np.zeros(3), np.array([1.0, -1.0, 1.0])], ids=str)
def test_derivatives_at_special_points_equal_mlx(order: Any, x: np.ndarray) -> None:
    def derivatives(library: Any) -> list[Any]:
        def function(a: Any) -> Any:
            return library.linalg.norm(a, order)

        here = library.array(x.astype(np.float32))
        _, (change,) = library.jvp(function, [here], [library.ones(3)])
        return [library.grad(function)(here), change]

    for ours, theirs in zip(derivatives(mx), derivatives(mlx), strict=True):
        np.testing.assert_allclose(values(ours), np.array(theirs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [None, 1, -1, 2, 3, 0.5, inf, -inf])
def test_derivatives_of_norms_of_vectors(order: Any) -> None:
    point = Point(lambda x: [mx.linalg.norm(x, order, axis=-1)], [normal(2, 3)])
    check_first_order(point, 1e-4)
    check_second_order(point, 1e-4)


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, inf, -inf])
def test_derivatives_of_norms_of_matrices(order: Any) -> None:
    point = Point(lambda x: [mx.linalg.norm(x, order, axis=(2, 0))], [normal(3, 2, 3)])
    check_first_order(point, 1e-4)
    check_second_order(point, 1e-4)


CROSS_SHAPES = [
    ((3,), (3,), -1),
    ((2,), (2,), -1),
    ((2,), (3,), -1),
    ((3,), (2,), 0),
    ((5, 3), (3,), -1),
    ((5, 3), (1, 3), 1),
    ((3, 5), (3, 5), 0),
    ((3, 5), (2, 5), 0),
    ((2, 2), (2, 2), -1),
    ((3, 5), (2, 3, 5), 0),
    ((0, 3), (0, 3), -1),
]


@pytest.mark.parametrize(("left", "right", "axis"), CROSS_SHAPES)
def test_cross_products_equal_mlx(left: Any, right: Any, axis: int) -> None:
    a, b = normal(*left).astype(np.float32), normal(*right, seed=1).astype(np.float32)
    theirs = mlx.linalg.cross(mlx.array(a), mlx.array(b), axis)
    check_close(mx.linalg.cross(mx.array(a), mx.array(b), axis), np.array(theirs))


def test_dtypes_of_cross_products_equal_mlx() -> None:
    for one, other in product(DTYPES, DTYPES):
        ours, theirs = (
            library.linalg.cross(
                library.array([1, 2, 3]).astype(getattr(library, one)),
                library.array([3, 1, 2]).astype(getattr(library, other)),
            )
            for library in (mx, mlx)
        )
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("axis", [0, 1])
def test_derivatives_of_cross_products(axis: int) -> None:
    shapes = ((3, 3), (3, 3)) if axis else ((2, 4), (3, 1))
    point = Point(
        lambda a, b: [mx.linalg.cross(a, b, axis)], [normal(*shapes[0]), normal(*shapes[1])]
    )
    check_first_order(point, 1e-4)
    check_second_order(point, 1e-4)


def test_refusals() -> None:
    norm, cross = mx.linalg.norm, mx.linalg.cross
    vector, matrix = mx.ones(3), mx.ones((2, 3))
    refuses(TypeError, "[linalg.norm] a must be an array, got list", lambda: norm([1.0]))
    refuses(
        TypeError,
        "[linalg.norm] ord must be a number, a string or None, got complex: 1j.",
        lambda: norm(vector, 1j),
    )
    refuses(
        ValueError,
        "[linalg.norm] the norm 'fro' is one of matrices, which have two axes, got 1",
        lambda: norm(vector, "fro"),
    )
    refuses(
        ValueError,
        "[linalg.norm] the norm 1.0 is one of vectors or matrices, which have one or two axes",
        lambda: norm(mx.ones((2, 2, 2)), 1),
    )
    refuses(
        ValueError, "[linalg.norm] matrices have no norm 3.0: it is one of", lambda: norm(matrix, 3)
    )
    refuses(
        ValueError,
        "[linalg.norm] the axes (0, 0) name one of the 2 twice.",
        lambda: norm(matrix, 1, (0, 0)),
    )
    refuses(
        ValueError,
        "[linalg.norm] takes matrices of float32, float64 or complex64, got int32",
        lambda: norm(matrix.astype(mx.int32), 2),
    )
    refuses(
        ValueError,
        "[linalg.cross] vectors have two or three elements, got 4 along axis -1 of the second "
        "array of shape (4).",
        lambda: cross(vector, mx.ones(4)),
    )
    refuses(IndexError, "[linalg.cross] axis 1 is out of range", lambda: cross(vector, vector, 1))
    refuses(TypeError, "[linalg.cross] a must be an array", lambda: cross([1.0, 2.0], vector))
    refuses(TypeError, "[linalg.cross] axis must be an int", lambda: cross(vector, vector, 1.5))
