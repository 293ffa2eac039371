"""Reshaping, transposing and broadcasting against NumPy and MLX."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import mlx.core as mlx
import numpy as np
import pytest
from tests.ops.index.index_checks import check_derivatives, check_vmap, doubles, exact, value

import ingot.core as mx
from ingot.graph.op import apply
from ingot.ops.internal.adjoints import Broadcast, Reshape, Transpose

FUNCTIONS: list[tuple[Any, tuple[int, ...]]] = [
    (lambda m, x: m.reshape(x, (3, -1)), (2, 3, 4)),
    (lambda m, x: m.reshape(m.transpose(x, (2, 0, 1)), (6, 4)), (2, 3, 4)),
    (lambda m, x: m.flatten(x, 1), (2, 3, 4)),
    (lambda m, x: m.flatten(x), ()),
    (lambda m, x: m.unflatten(x, 1, (3, -1)), (2, 6)),
    (lambda m, x: m.squeeze(x), (1, 3, 1)),
    (lambda m, x: m.squeeze(x, (0, -1)), (1, 3, 1)),
    (lambda m, x: m.expand_dims(x, (0, -1)), (3, 2)),
    (lambda m, x: m.transpose(x), (2, 3, 4)),
    (lambda m, x: m.transpose(x, (1, 2, 0)), (2, 3, 4)),
    (lambda m, x: m.permute_dims(x, (-1, 0, 1)), (2, 3, 4)),
    (lambda m, x: m.swapaxes(x, 0, -1), (2, 3, 4)),
    (lambda m, x: m.moveaxis(x, 0, 2), (2, 3, 4)),
    (lambda m, x: m.moveaxis(x, -1, 0), (2, 3, 4)),
    (lambda m, x: m.matrix_transpose(x), (2, 3, 4)),
    (lambda m, x: m.broadcast_to(x, (4, 2, 3, 5)), (3, 1)),
    (lambda m, x: m.broadcast_to(x, (1, 1, 3)), (3,)),
    (lambda m, x: m.broadcast_to(x, (2, 3)), ()),
    (lambda m, x: m.broadcast_arrays(x, m.zeros((4, 1), dtype=x.dtype))[0], (3,)),
    (lambda m, x: m.atleast_1d(x), ()),
    (lambda m, x: m.atleast_2d(x), (3,)),
    (lambda m, x: m.atleast_3d(x), (3,)),
    (lambda m, x: m.atleast_3d(x), (3, 2)),
    (lambda m, x: m.flip(x), (2, 3)),
    (lambda m, x: m.flip(x, (0, 2)), (2, 3, 4)),
]


@pytest.mark.parametrize(("function", "shape"), FUNCTIONS)
def test_values_and_rules(function: Any, shape: tuple[int, ...]) -> None:
    x = doubles(*shape)
    single = x.astype(np.float32)
    expected = np.array(function(mlx, mlx.array(single)))
    result = value(function(mx, mx.array(single)))
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)
    check_derivatives(lambda a: function(mx, a), x)
    check_vmap(lambda a: function(mx, a), doubles(5, *shape), in_axes=[0])
    check_vmap(lambda a: function(mx, a), doubles(*shape, 5), in_axes=[-1])


@pytest.mark.parametrize("dtype", [bool, np.uint8, ml_dtypes.bfloat16, np.complex64])
@pytest.mark.parametrize("step", [1, -1, 2])
def test_broadcast_of_any_layout(dtype: Any, step: int) -> None:
    x = np.arange(12).reshape(4, 1, 3).astype(dtype)[::step, :, ::step]
    result = Broadcast((2, *x.shape[:1], 5, *x.shape[2:])).evaluate(x)
    np.testing.assert_array_equal(result, np.broadcast_to(x, result.shape))
    assert not result.flags.writeable
    assert np.shares_memory(result, x)


@pytest.mark.parametrize("shape", [(0, 1), (1, 0, 2), (0,)])
def test_broadcast_of_nothing(shape: tuple[int, ...]) -> None:
    target = (3, *shape)
    assert Broadcast(target).evaluate(np.zeros(shape, np.float32)).shape == target


def test_reshape_is_a_view_where_it_can_be() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    assert np.shares_memory(Reshape((6, 4)).evaluate(x), x)
    assert np.shares_memory(Reshape((2, 3, 1, 4)).evaluate(x[:, ::-1]), x)
    assert not np.shares_memory(Reshape((24,)).evaluate(x.T), x)
    assert np.shares_memory(Transpose((2, 0, 1)).evaluate(x), x)


@pytest.mark.parametrize(
    "function",
    [
        lambda a: mx.reshape(a, (2, 1)),
        lambda a: mx.transpose(a, (0, 1)),
        lambda a: mx.broadcast_to(a, (2, 1)),
        lambda a: mx.flip(a, ()),
        lambda a: mx.squeeze(a, ()),
        lambda a: mx.flatten(a, 0, 0),
        lambda a: mx.atleast_2d(a),
        lambda a: mx.swapaxes(a, 0, 0),
    ],
)
def test_results_without_work_are_new_handles(function: Any) -> None:
    a = mx.array([[1.0], [2.0]])
    b = function(a)
    b += 1
    assert a.tolist() == [[1.0], [2.0]]
    assert b.tolist() == [[2.0], [3.0]]


def test_methods_take_separate_arguments() -> None:
    a = mx.arange(6)
    assert a.reshape(2, 3).shape == a.reshape((2, 3)).shape == a.reshape([2, -1]).shape == (2, 3)
    assert a.reshape(-1, 2, stream=mx.cpu).shape == (3, 2)
    assert a.reshape(np.array([2, 3])).shape == (2, 3)
    b = a.reshape(1, 2, 3)
    assert b.transpose(2, 0, 1).shape == b.transpose((2, 0, 1)).shape == (3, 1, 2)
    assert b.transpose().shape == b.T.shape == (3, 2, 1)
    assert mx.array(3.0).reshape(()).shape == mx.array([3.0]).reshape().shape == ()


def test_scalars_and_numpy_arrays_broadcast() -> None:
    assert mx.broadcast_to(3, (2,)).dtype is mx.int32
    assert mx.broadcast_to(2**40, (2,)).dtype is mx.int64
    assert mx.broadcast_to(3.5, (2,)).tolist() == [3.5, 3.5]
    assert mx.broadcast_to(True, (2,)).dtype is mx.bool_
    assert mx.broadcast_to(1j, (1,)).dtype is mx.complex64
    assert mx.broadcast_to(np.array([1, 2]), (2, 2)).dtype is mx.int64


def test_no_ops_are_known() -> None:
    x = mx.zeros((2, 3))
    assert Reshape((2, 3)).is_no_op(x)
    assert not Reshape((3, 2)).is_no_op(x)
    assert Broadcast((2, 3)).is_no_op(x)
    assert Transpose((0, 1)).is_no_op(x)
    assert not Transpose((1, 0)).is_no_op(x)


def test_infer_agrees_with_evaluate() -> None:
    x = exact(doubles(2, 3, 4))
    moved = apply(Transpose((2, 0, 1)), x)
    assert moved.shape == value(moved).shape == (4, 2, 3)


A = mx.arange(6)
C = mx.reshape(mx.arange(24), (2, 3, 4))

ERRORS: list[tuple[Any, type[Exception], str]] = [
    (
        lambda: mx.reshape(A, 6),
        TypeError,
        "[reshape] shape must be a sequence of ints, got int: 6. It is one argument, such as "
        "(6,) or (6, 2).",
    ),
    (lambda: mx.reshape([1], (1,)), TypeError, "[reshape] a must be an array, got list: [1]."),
    (
        lambda: mx.flatten(C, 2, 1),
        ValueError,
        "[flatten] start_axis 2 is behind end_axis 1 in an array of shape (2, 3, 4).",
    ),
    (lambda: mx.flatten(C, 1.0), TypeError, "[flatten] start_axis must be an int, got float: 1.0."),
    (
        lambda: mx.unflatten(A, 0, ()),
        ValueError,
        "[unflatten] an axis cannot be split into no axes: give at least one.",
    ),
    (
        lambda: mx.unflatten(A, 0, (4, -1)),
        ValueError,
        "[unflatten] cannot unflatten (6) to (4, -1): 6 elements do not divide by 4.",
    ),
    (
        lambda: mx.squeeze(C, 1),
        ValueError,
        "[squeeze] axis 1 of shape (2, 3, 4) cannot be removed: its length is 3, not 1.",
    ),
    (
        lambda: mx.squeeze(mx.zeros((1, 2)), (0, -2)),
        ValueError,
        "[squeeze] the axes (0, -2) name axis 0 twice.",
    ),
    (
        lambda: mx.expand_dims(A, (0, 5)),
        IndexError,
        "[expand_dims] axis 5 is out of range for an array with 3 axes.",
    ),
    (
        lambda: mx.transpose(C, (0, 1)),
        ValueError,
        "[transpose] axes (0, 1) must name each axis of shape (2, 3, 4) once.",
    ),
    (
        lambda: mx.transpose(C, (0, 1, 1)),
        ValueError,
        "[transpose] axes (0, 1, 1) name an axis twice.",
    ),
    (
        lambda: mx.transpose(C, 1),
        TypeError,
        "[transpose] axes must be a sequence of ints or None, got int: 1. It is one argument, "
        "such as (1,) or (1, 2).",
    ),
    (
        lambda: mx.matrix_transpose(A),
        ValueError,
        "[matrix_transpose] needs at least 2 axes, got shape (6).",
    ),
    (
        lambda: mx.broadcast_to(C, (3, 4)),
        ValueError,
        "[broadcast_to] cannot broadcast shape (2, 3, 4) to (3, 4).",
    ),
    (
        lambda: mx.broadcast_to(A, (-1, 6)),
        ValueError,
        "[broadcast_to] a shape cannot have negative lengths, got (-1, 6).",
    ),
    (
        lambda: mx.broadcast_to([1, 2], (2,)),
        ValueError,
        "[broadcast_to] takes a number or an array, got list: [1, 2].",
    ),
    (
        lambda: mx.broadcast_arrays(A, mx.zeros((4,))),
        ValueError,
        "[broadcast_arrays] shapes (6) and (4) cannot be broadcast together.",
    ),
    (
        lambda: mx.broadcast_arrays(A, 2),
        RuntimeError,
        "[broadcast_arrays] takes arrays, got int: 2.",
    ),
    (
        lambda: mx.broadcast_shapes(),
        ValueError,
        "[broadcast_shapes] needs at least one shape.",
    ),
    (lambda: mx.atleast_2d(3), RuntimeError, "[atleast_2d] takes arrays, got int: 3."),
]


@pytest.mark.parametrize(("call", "error", "sentence"), ERRORS)
def test_sentences(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence
