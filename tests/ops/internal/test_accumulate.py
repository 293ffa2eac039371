"""How scatters evaluate, against loops."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ingot.graph.op import apply_change
from ingot.ops.internal.accumulate import MODES, accumulation, flat_positions, positions_along

COMBINE: dict[str, Any] = {
    "assign": lambda old, new: new,
    "add": np.add,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
DTYPES = [bool, np.uint8, np.int64, np.float16, ml_dtypes.bfloat16, np.float64, np.complex64]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("count", [0, 20, 5000])  # none, few, and enough for the ways in bulk
def test_accumulate(mode: str, dtype: Any, width: int, count: int) -> None:
    rng = np.random.default_rng(0)
    out = rng.integers(0, 3, (9, width)).astype(dtype)
    rows = rng.integers(0, 9, count)
    # Factors of one keep the products of thousands in range.
    highest = 2 if mode == "multiply" and count > 100 else 3
    updates = rng.integers(1, highest, (count, width)).astype(dtype)
    # Sums of half types are kept in float32 and rounded once.
    expected = out.astype(np.float64) if out.dtype.itemsize == 2 else out.copy()
    for row, update in zip(rows, updates.astype(expected.dtype), strict=True):
        expected[row] = COMBINE[mode](expected[row], update)
    before = out.copy()
    change = accumulation(mode, out, rows, updates)
    np.testing.assert_array_equal(out, before)
    apply_change(change)
    np.testing.assert_array_equal(out, expected.astype(dtype))


def test_flat_positions() -> None:
    indices = np.array([[0], [-1]]), np.array([[2, -3]], np.int8)
    np.testing.assert_array_equal(flat_positions(indices, (4, 3)), [2, 0, 11, 9])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_positions_along(axis: int) -> None:
    x = np.arange(60).reshape(3, 4, 5)
    shape = list(x.shape)
    shape[axis] = 2
    index = np.random.default_rng(0).integers(-x.shape[axis], x.shape[axis], shape)
    places = positions_along(index, axis, x.shape[axis])
    np.testing.assert_array_equal(
        x.reshape(-1)[places].reshape(shape), np.take_along_axis(x, index, axis)
    )


@pytest.mark.parametrize("index", [3, -4])
def test_indices_out_of_range(index: int) -> None:
    with pytest.raises(IndexError, match=f"index {index} is out of range for an axis of length 3"):
        flat_positions([np.array([0, index])], [3])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("broadcast", [False, True])
def test_large_sums_of_halves_accumulate_in_float32(dtype: Any, broadcast: bool) -> None:
    rng = np.random.default_rng(5)
    table = rng.standard_normal((50, 60)).astype(dtype)
    rows = rng.integers(0, 50, 400)
    updates = rng.standard_normal((400, 60)).astype(dtype)
    if broadcast:
        updates = np.broadcast_to(updates[:1, :1], updates.shape)
    expected = table.astype(np.float32)
    np.add.at(expected, rows, updates.astype(np.float32))
    apply_change(accumulation("add", table, rows, updates))
    np.testing.assert_array_equal(table, expected.astype(dtype))
