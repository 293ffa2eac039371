"""Views of the values of a running program, as results and as operands of host steps."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ingot._native import NativeProgram

View = tuple[int, Any, int, tuple[int, ...], tuple[int, ...]]


def program(
    views: list[View], host: Callable[..., Any] | None = None, results: int = 1
) -> NativeProgram:
    """A program of one input (slot 0) that returns views, after a host step (slot 1)."""
    count = len(views) - results
    instructions: list[tuple[Any, ...]] = [] if host is None else [("host", host, count, [(1, 0)])]
    return NativeProgram(1, (), (), (), (), 3, 2, 0, instructions, views, results, False, False, ())


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.complex64, np.bool_])
def test_elements_are_where_offset_and_strides_say(dtype: type) -> None:
    owner = np.arange(24).astype(dtype)
    size = owner.itemsize
    view = (0, owner.dtype, 5 * size, (2, 3), (8 * size, -2 * size))
    (found,) = program([view]).run((owner,))
    np.testing.assert_array_equal(found, owner[[[5, 3, 1], [13, 11, 9]]])
    assert found.dtype == owner.dtype
    assert np.shares_memory(found, owner)
    assert not found.flags.writeable


def test_whole_arrays_are_passed_through() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (found,) = program([(0, x.dtype, 0, (3, 4), (16, 4))]).run((x,))
    assert found is x
    (bits,) = program([(0, np.dtype(np.int32), 0, (3, 4), (16, 4))]).run((x,))
    np.testing.assert_array_equal(bits, x.view(np.int32))


def test_views_keep_their_owner_alive() -> None:
    owner = np.arange(6.0)
    gone = weakref.ref(owner)
    (view,) = program([(0, owner.dtype, 8, (2,), (8,))]).run((owner,))
    del owner
    gc.collect()
    assert gone() is not None
    np.testing.assert_array_equal(view, [1.0, 2.0])
    del view
    gc.collect()
    assert gone() is None


def test_host_steps_get_views_of_their_operands() -> None:
    def host(rows: np.ndarray, column: np.ndarray) -> list[np.ndarray]:
        return [np.ascontiguousarray(rows.sum(axis=0) + column.sum())]

    x = np.arange(12.0).reshape(3, 4)
    made = program(
        [
            (0, x.dtype, 32, (2, 4), (32, 8)),
            (0, x.dtype, 8, (3,), (32,)),
            (1, x.dtype, 8, (3,), (8,)),
            (1, x.dtype, 0, (4,), (8,)),
        ],
        host,
        results=2,
    )
    assert made.shapes == ((3,), (4,))
    tail, whole = made.run((x,))
    np.testing.assert_array_equal(whole, x[1:].sum(axis=0) + x[:, 1].sum())
    np.testing.assert_array_equal(tail, whole[1:])


def test_a_slot_without_memory() -> None:
    """Arrays without elements need none; for others it is an error."""
    x = np.zeros(3)
    (empty,) = program([(2, x.dtype, 0, (0, 5), (40, 8))]).run((x,))
    assert empty.shape == (0, 5)
    with pytest.raises(RuntimeError, match="slot 2 of a program has no memory"):
        program([(2, x.dtype, 0, (1, 5), (40, 8))]).run((x,))


@pytest.mark.parametrize(
    ("views", "results"),
    [
        ([(3, np.dtype(np.float32), 0, (1,), (4,))], 1),  # there is no slot 3
        ([(0, np.dtype(np.float32), 0, (1, 2), (4,))], 1),  # as many strides as lengths
        ([(0, np.float32, 0, (1,), (4,))], 1),  # a dtype is none of NumPy's scalar types
        ([], 1),  # a view for each result
    ],
)
def test_views_that_cannot_be(views: list[Any], results: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        NativeProgram(1, (), (), (), (), 3, 2, 0, [], views, results, False, False)
    with pytest.raises(ValueError, match="a view for each operand"):
        program([], lambda: [], results=-1)


@pytest.mark.parametrize(
    ("shapes", "dtypes"),
    [(((2,),), ()), (([2],), (np.dtype(np.float32),)), (((2,),), (np.float32,))],
)
def test_outputs_that_cannot_be(shapes: Any, dtypes: Any) -> None:
    with pytest.raises(TypeError, match="a tuple of lengths and a dtype"):
        NativeProgram(0, shapes, dtypes, (-1,), (), 3, 2, 0, [], [], -1, False, False, ())


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (1,) * 9])
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_])
def test_outputs_have_memory_of_their_own(shape: tuple[int, ...], dtype: type) -> None:
    outputs = ((shape,), (np.dtype(dtype),), (-1,))
    native = NativeProgram(0, *outputs, (), 3, 2, 0, [], [], -1, False, False, ())
    (one,), (other,) = native.run(()), native.run(())
    assert one.shape == shape
    assert one.dtype == dtype
    assert one.flags.c_contiguous
    assert one.flags.owndata
    assert not np.shares_memory(one, other)


@pytest.mark.parametrize(("shape", "text"), [((-1,), "negative"), ((1,) * 70, "at most 64 axes")])
def test_lengths_that_cannot_be(shape: tuple[int, ...], text: str) -> None:
    outputs = ((shape,), (np.dtype(np.float32),), (-1,))
    native = NativeProgram(0, *outputs, (), 3, 2, 0, [], [], -1, False, False, ())
    with pytest.raises(ValueError, match=text):
        native.run(())
