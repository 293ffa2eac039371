"""Columns: reductions along other axes than the last, in tiles of the last one."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers, texts_of

import ingot.core as mx
from ingot.graph.numerics.reduction_order import BLOCK, LANES


def test_totals_are_as_wide_as_a_tile() -> None:
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(700, 9))
    assert "local totals0: float64[9]" in text or "local totals0: float32[9]" in text


def test_few_rows_stay_in_registers() -> None:
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(5, 9))
    assert "local lanes" not in text
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(200, 9))
    assert "local lanes" in text


@pytest.mark.parametrize("rows", [33, 39, 64, 66, 100, 128])
def test_lanes_of_few_rows_are_combined_in_registers(rows: int) -> None:
    x = numbers(rows, 301)
    (text,) = texts_of(lambda x: x.sum(axis=0), x)
    assert "local lanes" not in text
    found = mx.compile(lambda x: (x.sum(axis=0), (x * x).mean(axis=0)))(x)
    across = mx.contiguous(x.T)
    expected = mx.compile(lambda x: (x.sum(axis=1), (x * x).mean(axis=1)))(across)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.array(a), np.array(b))


@pytest.mark.parametrize("shape", [(1, 3), (31, 5), (32, 64), (513, 33), (9000, 3)])
def test_sums_of_all_heights(shape: tuple[int, int]) -> None:
    x = numbers(*shape)
    nests_of(lambda x: (x.sum(axis=0), x.max(axis=0)), x)
    found = np.array(mx.compile(lambda x: x.sum(axis=0))(x))
    np.testing.assert_allclose(found, np.array(x, np.float64).sum(0), rtol=1e-5, atol=1e-4)


def test_columns_that_fill_no_vector_are_masked() -> None:
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(40, 33))
    assert "0..33 masked" in text
    (text,) = texts_of(lambda x: x.sum(axis=0), numbers(40, 48))
    assert "masked" not in text


@pytest.mark.parametrize("is_slow", [False, True])
def test_large_sums_mask_only_their_last_columns_where_masked_stores_are_slow(
    monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    module = "ingot.compiler.lower.reductions.tile_width"
    monkeypatch.setattr(f"{module}.stores_masked_slowly", lambda: is_slow)
    x = numbers(1031, 531)
    text, *_ = texts_of(lambda x: x.sum(axis=0), x)
    assert ("0..531 masked" in text) is not is_slow
    assert ("528..531 masked" in text) is is_slow
    found = np.array(mx.compile(lambda x: x.sum(axis=0))(x))
    np.testing.assert_allclose(found, np.array(x, np.float64).sum(0), rtol=1e-5, atol=1e-4)


def test_plain_sums_beyond_the_caches_mask_only_their_last_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "ingot.compiler.lower.reductions.tile_width"
    monkeypatch.setattr(f"{module}.stores_masked_slowly", lambda: False)
    x = numbers(2100, 1003)
    text, *_ = texts_of(lambda x: x.sum(axis=0), x)
    assert " vector" in text
    assert " masked" in text
    found = np.array(mx.compile(lambda x: x.sum(axis=0))(x))
    masked = [mx.compile(lambda x: x.sum(axis=0))(part) for part in mx.split(x, [501], axis=1)]
    np.testing.assert_array_equal(found, np.concatenate([np.array(part) for part in masked]))


def test_only_the_last_columns_of_maxima_are_masked() -> None:
    (text,) = texts_of(lambda x: x.max(axis=0), numbers(40, 83))
    assert "0..80 vector" in text
    assert "80..83 masked" in text
    assert " 0..83" not in text


@pytest.mark.parametrize("columns", [65, 600, 1030])
@pytest.mark.parametrize("rows", [7, 100, 300, 700])
def test_maxima_of_all_widths(rows: int, columns: int) -> None:
    x = np.array(numbers(rows, columns))
    x[rows // 2, -1] = np.nan
    x[:, -2] = -0.0
    x[rows - 1, -2] = 0.0
    found = np.array(mx.compile(lambda x: x.max(axis=0))(mx.array(x)))
    np.testing.assert_array_equal(found, x.max(0))
    assert not np.signbit(found[-2])


def test_tiles_are_alike() -> None:
    for text in texts_of(lambda x: x.sum(axis=0), numbers(300, 3000))[:1]:
        assert "j in 0..5" in text or "i in 0..5" in text
        assert "lanes0: float32[8, 608]" in text


def test_maxima_have_one_lane() -> None:
    (text,) = texts_of(lambda x: x.max(axis=0), numbers(100, 90))
    assert "local lanes0: uint32[1, 90]" in text


def sums_in_order(x: np.ndarray) -> np.ndarray:
    """A lane has the rows that are 32 apart, and lanes are combined in halves."""
    total = np.zeros(x.shape[1])
    for start in range(0, len(x), BLOCK):
        lanes = np.zeros((LANES, x.shape[1]), np.float32)
        for row, values in enumerate(x[start : start + BLOCK]):
            lanes[row % LANES] += values
        while len(lanes) > 1:
            lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
        total += lanes[0]
    return total.astype(np.float32)


@pytest.mark.parametrize("rows", [*range(30, 38), *range(250, 262), 447, 500, 519, 770, 1000])
def test_sums_have_their_order_at_all_heights(rows: int) -> None:
    x = numbers(rows, 18)
    found = np.array(mx.compile(lambda x: x.sum(axis=0))(x))
    np.testing.assert_array_equal(found, sums_in_order(np.array(x)))


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(33, 16), (95, 16), (288, 48), (511, 33), (512, 16), (1061, 9), (1600, 48), (9001, 32)],
)
def test_narrow_columns_are_summed_in_the_order_of_memory(rows: int, columns: int) -> None:
    """All lanes are in L1; the sums are those of lanes one after the other, bit by bit."""
    x, scale = numbers(rows, columns), numbers(columns)

    def squares(x: mx.array, scale: mx.array) -> tuple[mx.array, mx.array, mx.array]:
        scaled = x * scale
        return scaled, scaled.sum(axis=0), (scaled * x).sum(axis=0)

    text = texts_of(squares, x, scale)[0]
    assert f"local lanes0: float32[32, {columns}]" in text
    scaled = np.array(x) * np.array(scale)
    found = [np.array(each) for each in mx.compile(squares)(x, scale)]
    np.testing.assert_array_equal(found[0], scaled)
    np.testing.assert_array_equal(found[1], sums_in_order(scaled))
    np.testing.assert_array_equal(found[2], sums_in_order(scaled * np.array(x)))


def test_wide_columns_have_some_lanes_at_a_time() -> None:
    (text,) = texts_of(lambda x: (x * 2).sum(axis=0), numbers(500, 400))
    assert "local lanes0: float32[8, " in text


@pytest.mark.parametrize(("dtype", "rows", "step"), [("float16", 600, 1), ("float32", 70, -2)])
def test_only_the_last_columns_of_half_and_strided_sums_are_masked(
    dtype: str, rows: int, step: int
) -> None:
    """Bit for bit the sums of contiguous float32, which are masked throughout."""
    x = numbers(rows, 901 * abs(step), dtype=getattr(mx, dtype))
    text = texts_of(lambda x: x[:, ::step].sum(axis=0), x)[0]
    assert {" vector", " masked"} <= {f" {word}" for word in text.split()}
    found = mx.compile(lambda x: x[:, ::step].sum(axis=0))(x)
    expected = mx.contiguous(x[:, ::step]).astype(mx.float32).sum(axis=0)
    assert np.array_equal(np.array(found), np.array(expected.astype(x.dtype)))
