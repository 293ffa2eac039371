"""Derivatives at points where there are several answers, or none: the ones that MLX gives."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

INF, NAN = float("inf"), float("nan")
POINTS = [0.0, -0.0, 1.0, -1.0, 4.0, INF, -INF, NAN]
BASES = [0.0, 0.0, 0.0, 0.0, 1.0, -1.0, 2.0, -2.0, INF, 0.0, NAN, 1.0, 1.0]
EXPONENTS = [0.0, 1.0, 2.0, -1.0, 0.0, 2.0, 0.5, 0.5, 2.0, 0.5, 1.0, NAN, 1.0]
ROWS = [[3.0, 1.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 2.0, -3.0, 0.0]]

UNARY = (
    "abs sqrt rsqrt square sign reciprocal log log2 log10 log1p exp expm1 sin cos tan sinh cosh "
    "tanh arcsin arccos arctan arcsinh arccosh arctanh erf erfinv sigmoid floor ceil round "
    "negative nan_to_num isnan"
).split()
BINARY = "power maximum minimum divide remainder floor_divide arctan2 logaddexp multiply".split()
ALONG_ROWS = "max min sum prod mean var std logsumexp softmax cumsum logcumsumexp sort".split()

OTHERS: dict[str, tuple[Any, list[Any]]] = {
    "x ** 2": (lambda m, x: x**2, POINTS),
    "x ** 0.5": (lambda m, x: x**0.5, POINTS),
    "x ** 3": (lambda m, x: x**3, POINTS),
    "x ** 0": (lambda m, x: x**0, POINTS),
    "2 ** x": (lambda m, x: 2**x, POINTS),
    "0 ** x": (lambda m, x: 0**x, POINTS),
    "clip at the limits": (lambda m, x: m.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0]),
    "maximum with itself": (lambda m, x: m.maximum(x, x), POINTS),
    "where": (lambda m, x: m.where(x > 0, x, x * 2), POINTS),
    "norm": (lambda m, x: m.linalg.norm(x, axis=-1), ROWS),
    "norm of all": (lambda m, x: m.linalg.norm(x), ROWS),
    "norm of zeros": (lambda m, x: m.linalg.norm(x * 0), ROWS),
    "norm 1": (lambda m, x: m.linalg.norm(x, 1, axis=-1), ROWS),
    "norm inf": (lambda m, x: m.linalg.norm(x, float("inf"), axis=-1), ROWS),
    "max of all": (lambda m, x: m.max(x), ROWS),
    "max over two axes": (lambda m, x: m.max(x, axis=(0, 1)), ROWS),
    "complex abs at 0": (lambda m, x: m.abs(x.astype(m.complex64)), [0.0, 1.0, -2.0]),
}

CASES: dict[str, tuple[Any, list[Any]]] = {
    **{name: (lambda m, x, name=name: getattr(m, name)(x), [POINTS]) for name in UNARY},
    **{
        name: (lambda m, x, y, name=name: getattr(m, name)(x, y), [BASES, EXPONENTS])
        for name in BINARY
    },
    **{
        f"{name} along rows": (lambda m, x, name=name: getattr(m, name)(x, axis=-1), [ROWS])
        for name in ALONG_ROWS
    },
    **{name: (function, [points]) for name, (function, points) in OTHERS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_equals_mlx(name: str) -> None:
    function, inputs = CASES[name]
    for number in range(len(inputs)):
        found, expected = (
            m.grad(lambda *xs, m=m: function(m, *xs).astype(m.float32).sum(), argnums=number)(
                *[m.array(x) for x in inputs]
            )
            for m in (mx, mlx)
        )
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in CASES if name not in BINARY])
def test_tangents_equal_mlx(name: str) -> None:
    function, inputs = CASES[name]
    found, expected = (
        m.jvp(
            lambda x, m=m: function(m, x).astype(m.float32),
            [m.array(inputs[0])],
            [m.ones(m.array(inputs[0]).shape)],
        )[1][0]
        for m in (mx, mlx)
    )
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5, atol=1e-6)


def test_equal_elements_share_the_gradient_of_a_maximum() -> None:
    found = mx.grad(lambda x: x.max())(mx.array([2.0, 3.0, 3.0, 3.0]))
    np.testing.assert_allclose(np.array(found), [0, 1 / 3, 1 / 3, 1 / 3], rtol=1e-6)
    by_x, by_y = mx.grad(lambda x, y: mx.maximum(x, y).sum(), argnums=(0, 1))(
        mx.array([1.0, 2.0]), mx.array([1.0, 1.0])
    )
    assert by_x.tolist() == [0, 1]
    assert by_y.tolist() == [1, 0]


def test_scans_that_mlx_does_not_differentiate() -> None:
    rows = mx.array(ROWS)
    found = mx.grad(lambda x: mx.cumprod(x, -1).sum())(rows)
    assert found.tolist() == [[5, 12, 3, 9], [1, 0, 0, 0], [-3, -2, 2, -6]]
    found = mx.grad(lambda x: mx.cummax(x, -1).sum())(rows)
    assert found.tolist() == [[2, 0, 2, 0], [1, 1, 1, 1], [1, 3, 0, 0]]
