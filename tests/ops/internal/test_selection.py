"""Selection by native code, against NumPy: all dtypes, axes, ranks, strides, ties and NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from ingot import _native
from ingot.ops.internal.selection import selected

DTYPES = (
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16"
).split()


def _numbers(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Many ties, and for floating-point dtypes NaN of both signs, infinities and zeros."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-60, 60, shape) if seed % 2 else 50 * rng.standard_normal(shape)
    x = x.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if "float" in dtype:
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(x.dtype)
        x = np.where(rng.random(shape) < 0.2, rng.choice(special, shape), x)
    return x


def _plain(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x


def check(x: np.ndarray, axis: int, kth: int) -> None:
    """A partition is a permutation that divides each row; windows are parts of it."""
    length = x.shape[axis]
    everything = (0, length)
    positions = selected(x, axis, kth, everything, positions=True)
    elements = _plain(selected(x, axis, kth, everything, positions=False))
    counted = np.moveaxis(np.sort(positions, axis), axis, -1)
    assert (counted == np.arange(length)).all()
    np.testing.assert_array_equal(
        np.take_along_axis(_plain(x), positions.astype(np.int64), axis), elements
    )
    ordered = np.sort(_plain(x), axis)
    front, sorted_front = np.moveaxis(elements, axis, -1), np.moveaxis(ordered, axis, -1)
    np.testing.assert_array_equal(front[..., kth], sorted_front[..., kth])
    np.testing.assert_array_equal(np.sort(front[..., :kth], -1), sorted_front[..., :kth])
    for begin, end in [(0, kth + 1), (kth, length), (max(kth - 2, 0), min(kth + 3, length))]:
        part = (slice(None),) * axis + (slice(begin, end),)
        np.testing.assert_array_equal(
            selected(x, axis, kth, (begin, end), positions=True), positions[part]
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [1, 2, 63, 1025, 5000])
def test_a_partition_divides_every_row(dtype: str, length: int) -> None:
    for seed, (shape, axis) in enumerate(
        [((2, length), 1), ((length, 3), 0), ((2, length, 17), 1)]
    ):
        x = _numbers(dtype, shape, seed)
        for kth in sorted({0, length - 1, length // 2, min(3, length - 1), max(length - 5, 0)}):
            check(x, axis, kth)
        check(x[..., ::-1], axis, length // 3)
        check(x[::-1], axis, length // 3)


@pytest.mark.parametrize("make", [np.zeros, np.ones])
def test_elements_that_are_all_equal(make: object) -> None:
    x = make((2, 9000), np.float32)  # type: ignore[operator]
    for kth in (0, 17, 4500, 8999):
        check(x, 1, kth)


def test_rows_that_mislead_samples() -> None:
    length = 40_000
    rows = [
        np.arange(length),
        np.arange(length)[::-1],
        np.where(np.arange(length) % 78 == 0, 1e9, np.arange(length)),  # periodic
        np.where(np.arange(length) < 5, -1e9, 7),  # five below, all others equal
        np.exp2(np.arange(length) % 100),
    ]
    x = np.stack(rows).astype(np.float32)
    for kth in (0, 3, 4, 5, 20_000, length - 2):
        check(x, 1, kth)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_does_not_show(threads: int) -> None:
    x = _numbers("float32", (37, 3000), 2)
    wanted = selected(x, 1, 30, (0, 3000), positions=True)
    old = _native.set_num_threads(threads)
    try:
        np.testing.assert_array_equal(selected(x, 1, 30, (0, 3000), positions=True), wanted)
    finally:
        _native.set_num_threads(old)


@pytest.mark.parametrize("shape", [(0, 5), (3, 0, 2)])
def test_no_rows(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape, np.float32)
    axis = shape.index(0) ^ 1 if len(shape) == 2 else 0
    found = selected(x, axis, 1, (0, shape[axis]), positions=True)
    assert found.shape == shape
    assert found.dtype == np.uint32
