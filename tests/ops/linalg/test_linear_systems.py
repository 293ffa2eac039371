"""Inverses, solutions of linear equations and determinants: values, dtypes, rules, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.linalg.matrix_checks import (
    accepted_by_mlx,
    accepted_dtypes,
    check_close,
    double,
    normal,
    refuses,
    regular,
    values,
)
from tests.support.derivative_checks import (
    Point,
    check_first_order,
    check_second_order,
    check_vmap_everywhere,
)

import ingot.core as mx

SHAPES = [
    (1, 1),
    (3, 3),
    (2, 3, 3),
    (2, 1, 4, 4),
    (9, 2, 3, 3),
    (70, 70),
    (2, 70, 70),
    (0, 0),
    (0, 3, 3),
]
FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "inv": lambda m, x: m.linalg.inv(x),
    "tri_inv": lambda m, x: m.linalg.tri_inv(x, upper=True),
    "cholesky_inv": lambda m, x: m.linalg.cholesky_inv(x),
    "solve": lambda m, x: m.linalg.solve(x, m.array([1.0, 2.0, 3.0])),
    "solve_triangular": lambda m, x: m.linalg.solve_triangular(x, m.array([1.0, 2.0, 3.0])),
    "det": lambda m, x: m.linalg.det(x),
    "slogdet": lambda m, x: m.linalg.slogdet(x),
}


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_inverses(shape: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = regular(*shape) + shape[-1] * np.eye(shape[-1])
    a = mx.array(x, dtype=dtype)
    tolerance = 1e-5 if dtype == mx.float32 else 1e-12
    check_close(mx.linalg.inv(a), np.linalg.inv(x), tolerance)
    check_close(mx.linalg.tri_inv(a), np.linalg.inv(np.tril(x)), tolerance)
    check_close(mx.linalg.tri_inv(a, upper=True), np.linalg.inv(np.triu(x)), tolerance)
    assert mx.linalg.inv(a).dtype == dtype


def test_triangular_inverses_are_triangular() -> None:
    inverse = values(mx.linalg.tri_inv(double(regular(5, 5)), True))
    np.testing.assert_array_equal(inverse, np.triu(inverse))


@pytest.mark.parametrize("upper", [False, True])
def test_inverses_from_cholesky_factors(upper: bool) -> None:
    factor = regular(2, 4, 4)
    triangle = np.triu(factor) if upper else np.tril(factor)
    transposed = np.swapaxes(triangle, -1, -2)
    product = transposed @ triangle if upper else triangle @ transposed
    check_close(mx.linalg.cholesky_inv(double(factor), upper), np.linalg.inv(product), 1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dtypes_are_those_of_mlx(name: str) -> None:
    assert accepted_dtypes(FUNCTIONS[name]) == accepted_by_mlx(FUNCTIONS[name])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 3), (3,)),
        ((3, 3), (3, 2)),
        ((2, 3, 3), (3,)),
        ((2, 3, 3), (3, 2)),
        ((2, 3, 3), (2, 3, 2)),
        ((3, 3), (5, 3, 2)),
        ((4, 1, 3, 3), (2, 3, 2)),
        ((9, 3, 3), (3, 2)),
        ((70, 70), (70,)),
        ((70, 70), (3, 70, 2)),
        ((2, 70, 70), (70, 3)),
        ((3, 3), (3, 0)),
        ((0, 0), (0, 2)),
        ((0, 3, 3), (3, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
def test_solutions(left: tuple[int, ...], right: tuple[int, ...], dtype: mx.Dtype) -> None:
    x = regular(*left) + left[-1] * np.eye(left[-1])
    y = normal(*right, seed=1)
    a, b = mx.array(x, dtype=dtype), mx.array(y, dtype=dtype)
    column = y[:, None] if y.ndim == 1 else y
    tolerance = 1e-5 if dtype == mx.float32 else 1e-12
    for found, matrix in (
        (mx.linalg.solve(a, b), x),
        (mx.linalg.solve_triangular(a, b), np.tril(x)),
        (mx.linalg.solve_triangular(a, b, upper=True), np.triu(x)),
        (mx.linalg.solve(mx.array(np.swapaxes(x, -1, -2), dtype=dtype).mT, b), x),
        (
            mx.linalg.solve_triangular(mx.array(np.swapaxes(x, -1, -2), dtype=dtype).mT, b),
            np.tril(x),
        ),
    ):
        expected = np.linalg.inv(matrix) @ column
        check_close(found, expected[..., 0] if y.ndim == 1 else expected, tolerance)


def test_solutions_take_the_promoted_dtype() -> None:
    single, integers = mx.array(regular(3, 3)), mx.array([1, 2, 3])
    assert mx.linalg.solve(single, integers).dtype == mx.float32
    assert mx.linalg.solve(single, double(normal(3))).dtype == mx.float64
    assert mx.linalg.solve_triangular(double(regular(3, 3)), integers).dtype == mx.float64


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 3), (5, 5), (2, 4, 4), (0, 0), (0, 2, 2)])
def test_determinants(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    check_close(mx.linalg.det(double(x)), np.linalg.det(x), 1e-12)
    sign, logarithm = mx.linalg.slogdet(double(x))
    check_close(sign, np.linalg.slogdet(x)[0])
    check_close(logarithm, np.linalg.slogdet(x)[1], 1e-12)


def test_determinants_of_half_types_and_integers_equal_mlx() -> None:
    x = np.array([[2, 1, 0], [1, 3, 1], [4, 1, 5]], np.float32)
    for dtype in ("float16", "bfloat16", "float32", "int32", "uint8", "bool_"):
        ours = mx.linalg.det(mx.array(x).astype(getattr(mx, dtype)))
        theirs = mlx.linalg.det(mlx.array(x).astype(getattr(mlx, dtype)))
        assert ours.item() == theirs.item()


def test_singular_matrices_have_determinant_zero() -> None:
    for singular in (np.ones((2, 2)), np.ones((4, 4))):
        assert mx.linalg.det(mx.array(singular)).item() == 0
        sign, logarithm = mx.linalg.slogdet(mx.array(singular))
        assert (sign.item(), logarithm.item()) == (0, -np.inf)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_derivatives_of_determinants_at_singular_matrices_equal_mlx(length: int) -> None:
    x = np.outer(np.arange(1, length + 1), np.arange(length)).astype(np.float32)
    ours = mx.grad(mx.linalg.det)(mx.array(x))
    theirs = mlx.grad(mlx.linalg.det)(mlx.array(x))
    np.testing.assert_array_equal(values(ours), np.array(theirs))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: [mx.linalg.solve(a, b[:, 0])],
        lambda a, b: [mx.linalg.solve(a, mx.stack([b, b * b]))],
        lambda a, b: [mx.linalg.solve_triangular(a, b, upper=True)],
        lambda a, b: [mx.linalg.cholesky_inv(a) @ b],
        lambda a, b: [mx.linalg.slogdet(a)[1] * mx.linalg.det(a)],
    ],
)
def test_derivatives_and_vmap_of_functions(function: Callable[..., list[mx.array]]) -> None:
    point = Point(function, [regular(3, 3), normal(3, 2)])
    check_first_order(point, 1e-4)
    check_second_order(point, 1e-4)
    check_vmap_everywhere(function, [regular(3, 3, 3), normal(3, 3, 2)])


def test_derivative_of_the_sign_of_determinants_is_zero() -> None:
    gradient = mx.grad(lambda x: mx.linalg.slogdet(x)[0])(double(regular(3, 3)))
    np.testing.assert_array_equal(values(gradient), np.zeros((3, 3)))


def test_compiled_functions_give_the_same() -> None:
    def function(a: mx.array, b: mx.array) -> mx.array:
        sign, logarithm = mx.linalg.slogdet(a * 2)
        return mx.linalg.solve(a, b) * sign + mx.linalg.inv(a + 1).sum() * logarithm

    a, b = mx.array(regular(3, 3)), mx.array(normal(3, 2))
    check_close(mx.compile(function)(a, b), values(function(a, b)))


def test_refusals() -> None:
    singular, square = mx.zeros((2, 2)), mx.eye(3)
    linalg = mx.linalg
    refuses(RuntimeError, "[inv] a matrix is singular", lambda: linalg.inv(singular))
    refuses(RuntimeError, "[inv] a matrix is singular", lambda: linalg.inv(mx.zeros((70, 70))))
    refuses(RuntimeError, "[inv] a matrix is singular", lambda: linalg.tri_inv(singular))
    stack = mx.zeros((9, 2, 2))
    refuses(RuntimeError, "[inv] a matrix is singular", lambda: linalg.tri_inv(stack))
    ones = mx.ones(2)
    refuses(RuntimeError, "[solve] a matrix is singular", lambda: linalg.solve(singular, ones))
    refuses(
        RuntimeError,
        "[solve] a matrix is singular",
        lambda: linalg.solve_triangular(singular, ones),
    )
    refuses(
        ValueError,
        "[linalg.inv] takes matrices of float32 or float64, got int32: convert with astype first.",
        lambda: linalg.inv(mx.array([[1, 2], [3, 4]])),
    )
    refuses(
        ValueError,
        "[linalg.inv] takes square matrices, got shape (2, 3).",
        lambda: linalg.inv(mx.ones((2, 3))),
    )
    refuses(
        ValueError,
        "[linalg.tri_inv] takes matrices, arrays with at least two axes, got shape (3).",
        lambda: linalg.tri_inv(mx.ones(3)),
    )
    refuses(TypeError, "[linalg.inv] a must be an array, got list", lambda: linalg.inv([[1.0]]))
    refuses(
        ValueError,
        "[linalg.solve] cannot solve matrices of shape (3, 3) for right sides of shape (2): "
        "both need the same number of rows.",
        lambda: linalg.solve(square, ones),
    )
    refuses(
        ValueError,
        "[linalg.solve] takes right sides with at least one axis",
        lambda: linalg.solve(square, mx.array(1.0)),
    )
    refuses(
        ValueError,
        "[linalg.solve] takes right sides that are real, got complex64",
        lambda: linalg.solve(square, mx.ones(3) * 1j),
    )
    refuses(
        ValueError,
        "[linalg.solve_triangular] shapes (2) and (4) cannot be broadcast together.",
        lambda: linalg.solve_triangular(mx.ones((2, 3, 3)), mx.ones((4, 3, 1))),
    )
    refuses(ValueError, "[linalg.det] takes real matrices", lambda: linalg.det(mx.eye(2) * 1j))
    refuses(
        ValueError,
        "[linalg.slogdet] takes square matrices, got shape (2, 3).",
        lambda: linalg.slogdet(mx.ones((2, 3))),
    )


def test_streams_are_taken() -> None:
    a = mx.array(regular(2, 2))
    for stream in (None, mx.cpu, mx.default_stream(mx.cpu)):
        check_close(mx.linalg.inv(a, stream=stream), values(mx.linalg.inv(a)))
