"""a[mask] = values against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, value

import ingot.core as mx

TRUE, FALSE = True, False
ROWS = [TRUE, FALSE]
CELLS = [[TRUE, FALSE, TRUE], [FALSE, FALSE, TRUE]]

CASES = [
    (ROWS, 7.0),
    (ROWS, [1.0, 2.0, 3.0]),
    (ROWS, [[1.0, 2.0, 3.0]]),
    (ROWS, [5.0]),
    ([TRUE, TRUE], [[1.0], [2.0]]),
    (ROWS, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),  # more rows than needed
    ([FALSE, FALSE], [[1.0, 2.0, 3.0]]),
    (CELLS, 7.0),
    (CELLS, [7.0, 8.0, 9.0]),
    (CELLS, [7.0, 8.0, 9.0, 10.0]),
    (TRUE, 3.0),
    (FALSE, 3.0),
    (TRUE, [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    (TRUE, [[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]),
]


@pytest.mark.parametrize(("mask", "values"), CASES)
def test_assignment_matches_mlx(mask: Any, values: Any) -> None:
    def assigned(m: Any, given: Any) -> np.ndarray:
        a = m.zeros((2, 3))
        a[given] = m.array(values)
        return np.array(a)

    expected = assigned(mlx, mlx.array(mask))
    np.testing.assert_array_equal(assigned(mx, mx.array(mask)), expected)
    np.testing.assert_array_equal(assigned(mx, mask), expected)  # a list or a bool
    np.testing.assert_array_equal(assigned(mx, np.array(mask)), expected)


def test_no_values_for_no_true() -> None:
    a = mx.ones((2, 3))
    a[mx.array([FALSE, FALSE])] = mx.zeros((0, 3))
    assert a.tolist() == [[1, 1, 1], [1, 1, 1]]


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0]])
def test_too_few_values_raise_when_evaluated(values: Any) -> None:
    a = mx.zeros((2, 3))
    a[mx.array(CELLS)] = mx.array(values)
    with pytest.raises(RuntimeError, match=f"3 True elements, but there are only {len(values)}"):
        mx.eval(a)


@pytest.mark.parametrize(
    ("mask", "shape", "message"),
    [
        ([TRUE, FALSE, TRUE], (), "does not match the first axes"),
        ([[TRUE], [FALSE]], (), "does not match the first axes"),
        ([[[TRUE]]], (), "does not match the first axes"),
        (CELLS, (1, 3), "have more axes than one row"),
        (ROWS, (2, 2), "cannot broadcast"),
    ],
)
def test_errors(mask: Any, shape: tuple[int, ...], message: str) -> None:
    a = mx.zeros((2, 3))
    with pytest.raises(ValueError, match=message):
        a[mx.array(mask)] = mx.ones(shape)


def put(a: Any, mask: Any, values: Any) -> Any:
    a = a * 1
    a[mask] = values
    return a


def test_derivatives() -> None:
    cells, rows = mx.array(CELLS), mx.array(ROWS)
    check_derivatives(lambda a, v: put(a, cells, v), doubles(2, 3), doubles(4, seed=1))
    check_derivatives(lambda a, v: put(a, rows, v), doubles(2, 3), doubles(1, 3, seed=1))
    check_derivatives(lambda a, v: put(a, rows, v), doubles(2, 3), doubles(3, seed=1))
    check_derivatives(lambda a: put(a, a > 1, a[0] * 0), doubles(2, 3), order=1)


def test_vmap() -> None:
    masks = np.array([CELLS, [[TRUE] * 3, [FALSE] * 3]])
    x, values = doubles(2, 2, 3), doubles(2, 6, seed=1)
    check_vmap(put, x, masks, values, in_axes=[0, 0, 0])
    check_vmap(put, x[0], masks, values[0], in_axes=[None, 0, None])
    check_vmap(put, x, masks[0], values, in_axes=[0, None, 0])


def test_large_masks() -> None:
    rng = np.random.default_rng(0)
    x, mask = rng.standard_normal(10_000).astype(np.float32), rng.random(10_000) < 0.3
    values = rng.standard_normal(mask.sum()).astype(np.float32)
    a = mx.array(x)
    a[mx.array(mask)] = mx.array(values)
    x[mask] = values
    np.testing.assert_array_equal(value(a), x)
