"""Slices at static and at computed places, and their updates."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx
from ingot.graph.op import apply
from ingot.ops.shape.slicing import Slice, SliceUpdate

STATIC = [
    (Slice((1, 0), (3, 5), (1, 2)), np.s_[1:3, 0:5:2]),
    (Slice((3, 4), (-1, 0), (-2, -1)), np.s_[3::-2, 4:0:-1]),
    (Slice((0, 0), (0, 5), (1, 1)), np.s_[0:0, 0:5]),
    (Slice((2, 0), (3, 5), (1, 1), (0,)), np.s_[2]),
    (Slice((2, 4), (3, 5), (1, 1), (0, 1)), np.s_[2, 4]),
]


@pytest.mark.parametrize(("op", "index"), STATIC)
def test_slice(op: Slice, index: Any) -> None:
    x = doubles(4, 5)
    np.testing.assert_array_equal(value(apply(op, exact(x))), x[index])
    check_derivatives(lambda a: apply(op, a), x)
    check_vmap(lambda a: apply(op, a), doubles(4, 3, 5), in_axes=[1])


@pytest.mark.parametrize(("op", "index"), [pair for pair in STATIC if not pair[0].dropped])
def test_slice_update(op: Slice, index: Any) -> None:
    update = SliceUpdate(op.start, op.stop, op.strides)
    x, v = doubles(4, 5), doubles(*op.kept_shape, seed=1)
    expected = x.copy()
    expected[index] = v
    np.testing.assert_array_equal(value(apply(update, exact(x), exact(v))), expected)
    check_derivatives(lambda a, b: apply(update, a, b), x, v)
    batch = doubles(3, *op.kept_shape)
    check_vmap(lambda a, b: apply(update, a, b), x, batch, in_axes=[None, 0])
    check_vmap(lambda a, b: apply(update, a, b), doubles(3, 4, 5), v, in_axes=[0, None])


def test_a_slice_of_an_evaluated_array_is_a_view() -> None:
    a = exact(doubles(100, 100))
    mx.eval(a)
    for part in (a[3], a[5:9], a[::-2, 1], a[None, 4], a[..., 7:8]):
        mx.eval(part)
        assert np.shares_memory(part._data, a._data)


def test_dynamic_slice() -> None:
    x = doubles(4, 5)

    def part(a: Any, start: Any) -> Any:
        return mx.slice(a, start, (0, -1), (2, 3))

    start = np.array([1, 2], np.int32)
    np.testing.assert_array_equal(value(part(exact(x), mx.array(start))), x[1:3, 2:5])
    check_derivatives(lambda a: part(a, mx.array(start)), x)
    starts = np.array([[0, 0], [2, 1], [1, 2]], np.int32)
    check_vmap(part, doubles(3, 4, 5), starts, in_axes=[0, 0])
    check_vmap(part, x, starts, in_axes=[None, 0])
    check_vmap(part, doubles(3, 4, 5), start, in_axes=[0, None])


def test_dynamic_slice_update() -> None:
    x, v = doubles(4, 5), doubles(2, 3, seed=1)

    def put(a: Any, b: Any, start: Any) -> Any:
        return mx.slice_update(a, b, start, (0, 1))

    start = np.array([1, 2], np.int32)
    expected = x.copy()
    expected[1:3, 2:5] = v
    result = put(exact(x), exact(v), mx.array(start))
    np.testing.assert_array_equal(value(result), expected)
    check_derivatives(lambda a, b: put(a, b, mx.array(start)), x, v)
    starts = np.array([[0, 0], [2, 1], [1, 2]], np.int32)
    check_vmap(put, doubles(3, 4, 5), doubles(3, 2, 3), starts, in_axes=[0, 0, 0])
    check_vmap(put, x, v, starts, in_axes=[None, None, 0])
    check_vmap(put, x, doubles(3, 2, 3), start, in_axes=[None, 0, None])


@pytest.mark.parametrize(
    ("shape", "start", "axes"),
    [
        ((2, 2), [0, 1], (0, 1)),
        ((2,), [1, 1], (0, 1)),
        ((2,), [1], (1,)),  # repeated along the axis that it lacks and that has no start
        ((2,), [1], (0,)),
        ((), [1], (0,)),
        ((), [1, 1], (0, 1)),
        ((2, 1), [1], (0,)),
        ((2, 2), [], ()),
        ((), [], ()),
        ((0, 2), [0], (0,)),
    ],
)
def test_updates_lacking_axes_match_mlx(
    shape: tuple[int, ...], start: list[int], axes: tuple[int, ...]
) -> None:
    results = [
        np.array(m.slice_update(m.zeros((3, 3)), m.ones(shape), m.array(start, m.int32), axes))
        for m in (mx, mlx)
    ]
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("start", [[-1, 0], [3, 0], [0, 3]])
def test_slices_outside_of_the_array_raise_when_evaluated(start: list[int]) -> None:
    part = mx.slice(mx.zeros((4, 5)), mx.array(start), (0, 1), (2, 3))
    with pytest.raises(IndexError, match="does not lie within an axis of length"):
        mx.eval(part)
    put = mx.slice_update(mx.zeros((4, 5)), mx.ones((2, 3)), mx.array(start), (0, 1))
    with pytest.raises(IndexError, match="does not lie within an axis of length"):
        mx.eval(put)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: mx.slice(a, mx.array([1.0]), (0,), (1, 1)), ValueError, "must be integers"),
        (lambda a: mx.slice(a, mx.array([[1]]), (0,), (1, 1)), ValueError, "at most one axis"),
        (lambda a: mx.slice(a, mx.array([1]), (0, 1), (1, 1)), ValueError, "1 start indices"),
        (lambda a: mx.slice(a, mx.array([1, 1]), (0, 0), (1, 1)), ValueError, "an axis twice"),
        (lambda a: mx.slice(a, mx.array([1]), (2,), (1, 1)), IndexError, "axis 2 is out of range"),
        (lambda a: mx.slice(a, mx.array([1]), (0,), (1,)), ValueError, "each of the array's 2"),
        (lambda a: mx.slice(a, mx.array([1]), (0,), (5, 1)), ValueError, "does not fit into"),
        (lambda a: mx.slice(a, 1, (0,), (1, 1)), TypeError, "start_indices must be an array"),
        (
            lambda a: mx.slice_update(a, 1, mx.array([1]), (0,)),
            TypeError,
            "update must be an array",
        ),
        (
            lambda a: mx.slice_update(a, mx.ones((5, 5)), mx.array([1]), (0,)),
            ValueError,
            r"\(5, 5\) does not fit into shape \(3, 3\)",
        ),
    ],
)
def test_errors(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(mx.zeros((3, 3)))
