"""The order of sums, word by word as docs/guide/numerics.md states it, against what sums give."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ingot.core as mx
from ingot._native import reduce_in_order
from ingot.ops.internal.summation import _blockwise, _native_reduction, reduced

LENGTHS = [2, 3, 31, 32, 33, 64, 100, 511, 512, 513, 1029, 16 * 512, 16 * 512 + 1, 40000]


def _block(values: np.ndarray) -> np.float32:
    lanes = [np.float32(0)] * 32
    for number, value in enumerate(values):
        lanes[number % 32] += value
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[lane] + lanes[lane + half] for lane in range(half)]
    return lanes[0]


def _stated(rows: np.ndarray) -> np.float32:
    """The sum of rows: the outer and the inner elements."""
    blocks = [
        float(_block(row[first : first + 512])) for row in rows for first in range(0, len(row), 512)
    ]
    groups = [blocks[first : first + 16] for first in range(0, len(blocks), 16)]
    total = 0.0
    for group in groups:
        in_group = 0.0
        for block in group:
            in_group += block
        total += in_group
    return np.float32(total)


def _summands(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(shape[-1])
    return (generator.standard_normal(shape) * np.exp(generator.uniform(-9, 9, shape))).astype(
        np.float32
    )


@pytest.mark.parametrize("length", LENGTHS)
def test_one_axis(length: int) -> None:
    values = _summands(length)
    expected = _stated(values[None])
    x = mx.array(values)
    assert mx.sum(x).item() == expected
    assert mx.compile(mx.sum)(x).item() == expected
    across = mx.array(np.stack([values, -values, values], 1))
    assert mx.sum(across, 0).tolist() == [expected, -expected, expected]


@pytest.mark.parametrize("shape", [(3, 600), (7, 100), (40, 13), (2, 3, 700), (20, 30, 2)], ids=str)
def test_inner_axes_have_at_least_a_block(shape: tuple[int, ...]) -> None:
    values = _summands(*shape)
    inner = len(shape) - 1
    while inner > 0 and np.prod(shape[inner:]) < 512:
        inner -= 1
    expected = _stated(values.reshape(-1, int(np.prod(shape[inner:]))))
    assert mx.sum(mx.array(values)).item() == expected


SHORT = [(37, 1, length, 1) for length in range(2, 18)]  # rows of a few elements
LONG = [(2, 1, 40, 1), (3, 5, 700, 1), (2, 20, 513, 70), (1, 1, 9, 3), (6, 3, 5, 1)]


@pytest.mark.parametrize("shape", LONG + SHORT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_code_and_numpy_agree(shape: tuple[int, ...], dtype: type) -> None:
    values = _summands(*shape).astype(dtype)
    for combine, start, total in (
        (np.add, 0, np.float64),
        (np.add, 0, dtype),
        (np.multiply, 1, dtype),
    ):
        values = values if combine is np.add else (1 + values * 1e-6).astype(dtype)
        found = _native_reduction(values, combine is np.multiply, np.dtype(total))
        expected = _blockwise(values, combine, start, np.dtype(total))
        np.testing.assert_array_equal(found, expected.reshape(found.shape))


def test_native_code_refuses_other_sizes() -> None:
    found = np.zeros((1, 1))
    for shape, dtype in (
        ((2, 1, 5, 1), "f8"),
        ((5,), "f8"),
        ((1, 1, 0, 1), "f8"),
        ((1,) * 4, ">f8"),
    ):
        with pytest.raises(ValueError, match="does not have the sizes"):
            reduce_in_order(np.zeros(shape, dtype), found, False)
    with pytest.raises(ValueError, match="does not have the sizes"):
        reduce_in_order(np.zeros((1, 1, 5, 1)), np.zeros((1, 1), np.float32), False)


LAYOUTS = {
    "rows apart": lambda x: np.stack([x, x], 1)[:, 0],
    "every second": lambda x: np.repeat(x, 2, 2)[:, :, ::2],
    "backwards": lambda x: np.ascontiguousarray(x[:, ::-1, ::-1])[:, ::-1, ::-1],
    **{
        str(order): lambda x, order=order: np.ascontiguousarray(x.transpose(order)).transpose(
            np.argsort(order)
        )
        for order in itertools.permutations(range(4))
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(2, 70, 3, 5), (1, 130, 513, 1), (67, 2, 33, 1), (1, 3, 40, 66)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_memory_does_not_matter(layout: str, shape: tuple[int, ...], dtype: type) -> None:
    values = _summands(*shape).astype(dtype)
    if dtype is np.complex64:
        values = values * np.exp(1j * np.arange(shape[2]))[:, None].astype(dtype)
    laid = LAYOUTS[layout](values)
    total = np.dtype(np.float64) if dtype is np.float32 else np.dtype(dtype)
    expected = _blockwise(values, np.add, 0, total)[:, 0]
    np.testing.assert_array_equal(laid, values)
    np.testing.assert_array_equal(_native_reduction(laid, False, total), expected)
    if dtype is not np.complex64:
        values = (1 + values * 1e-6).astype(dtype)
        expected = _blockwise(values, np.multiply, 1, np.dtype(dtype))[:, 0]
        found = _native_reduction(LAYOUTS[layout](values), True, np.dtype(dtype))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(700, 300), (31, 1029), (5, 600, 7)])
def test_sums_of_transposes(shape: tuple[int, ...]) -> None:
    values = _summands(*shape)
    laid, straight = mx.array(values).T, mx.array(np.ascontiguousarray(values.T))
    for axes in (None, 0, 1, (0, 1)):
        expected = mx.sum(straight, axes).tolist()
        assert mx.sum(laid, axes).tolist() == expected
        assert mx.compile(lambda x, axes=axes: mx.sum(x, axes))(laid).tolist() == expected


def test_sums_of_negative_zeros_are_positive() -> None:
    for length in (1, 2, 3, 8, 9, 40):
        totals = _native_reduction(
            np.full((5, 1, length, 1), -0.0, np.float32), False, np.dtype("f8")
        )
        assert not np.signbit(totals).any()


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((900, 3), (1,)),
        ((900, 3), (0,)),
        ((3, 900), (0,)),
        ((10, 1, 300), (1,)),
        ((4, 40, 2, 9, 2, 3), (2, 4)),
        ((4, 40, 2, 9, 2, 3), (0, 3, 5)),
        ((30, 16, 5), (1, 2)),
        ((30, 17, 5), (0, 1, 2)),
        ((2, 3), (1,)),
    ],
    ids=str,
)
def test_reductions_by_axis(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).integers(-50, 50, shape)
    for function, x in (
        (np.maximum, values.astype(np.float32)),
        (np.minimum, values[..., ::-1]),
        (np.add, values.T.copy().T),
        (np.multiply, values.astype(np.int32)),
        (np.logical_or, values > 40),
        (np.logical_and, values > -40),
    ):
        found = reduced(x, axes, function)
        np.testing.assert_array_equal(found, function.reduce(x, axes, x.dtype, keepdims=True))
        assert found.dtype == x.dtype
        assert not np.shares_memory(found, x)
