"""Casts between float32 and half precision by native code against NumPy and ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ingot import _native
from ingot.graph.dtype import float16, float32
from ingot.graph.numerics.casts import converted
from ingot.tuning_rows import CONVERSION_GRAIN, MIN_NATIVE_CONVERSION

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]
SINGLE = np.dtype(np.float32)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("left_out", [0, 1, 17])
def test_every_half_becomes_what_it_is_in_numpy(half: np.dtype, left_out: int) -> None:
    x = np.arange(left_out, 1 << 16).astype(np.uint16).view(half)
    np.testing.assert_array_equal(converted(x, SINGLE), x.astype(np.float32))
    numbers = x[~np.isnan(x.astype(np.float32))]
    back = converted(converted(numbers, SINGLE), half)
    assert back.dtype == half
    np.testing.assert_array_equal(back.view(np.uint16), numbers.view(np.uint16))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("size", [MIN_NATIVE_CONVERSION + 3, 2 * CONVERSION_GRAIN + 1])
def test_floats_are_rounded_as_in_numpy(half: np.dtype, size: int) -> None:
    bits = np.random.default_rng(0).integers(0, 1 << 32, size, dtype=np.uint32)
    x = bits.view(np.float32)
    middles = (np.arange(size) % (1 << 16)).astype(np.uint16).view(half).astype(np.float32)
    step = np.nextafter(middles, np.float32(np.inf))
    for each in (x, middles, step, (middles + np.roll(middles, -1)) / 2):
        found, wanted = converted(each, half), each.astype(half)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
        there = ~np.isnan(wanted)
        np.testing.assert_array_equal(found.view(np.uint16)[there], wanted.view(np.uint16)[there])


@pytest.mark.parametrize("half", HALVES)
def test_other_layouts(half: np.dtype) -> None:
    x = np.random.default_rng(1).standard_normal((60, 70)).astype(half)
    for each in (x.T, x[::2], x[:, ::-1], x[:0]):
        np.testing.assert_array_equal(converted(each, SINGLE), each.astype(np.float32))


def test_what_native_code_refuses() -> None:
    x = np.zeros(8, np.float16)
    for dtype, out in (
        (float16, np.zeros(7, np.float32)),
        (float16, np.zeros(8, np.float64)),
        (float16, np.zeros(16, np.float32)[::2]),
        (float32, np.zeros(8, np.float32)),
    ):
        with pytest.raises(ValueError, match="convert_halves"):
            _native.convert_halves(dtype, x, out)
