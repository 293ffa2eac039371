"""Accumulators: extremes by rank, with NaN, infinities and zeros of both signs."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import numbers, texts_of

import ingot.core as mx

DTYPES = {
    mx.float16: np.float16,
    mx.bfloat16: ml_dtypes.bfloat16,
    mx.float32: np.float32,
    mx.float64: np.float64,
}


def special(kind: Any) -> np.ndarray:
    """Rows whose extremes are infinities, zeros, subnormals and NaN of both signs."""
    info: Any = ml_dtypes.finfo(kind)
    tiny, largest = float(info.smallest_subnormal), float(info.max)
    nan = np.float64("nan")
    rows = [
        [-0.0, 0.0, -0.0],
        [-0.0, -0.0, -0.0],
        [0.0, -0.0, -tiny],
        [tiny, 0.0, -tiny],
        [np.inf, largest, -largest],
        [-np.inf, -largest, -largest],
        [-np.inf, -np.inf, -np.inf],
        [np.inf, np.inf, np.inf],
        [1.0, nan, np.inf],
        [1.0, -nan, -np.inf],
        [1.5, -2.5, 0.75],
    ]
    found: np.ndarray = np.array(rows).astype(kind)
    return found


def expected(x: np.ndarray, largest: bool) -> np.ndarray:
    """The extremes of rows, -0 below +0."""
    wide = x.astype(np.float64)
    order = np.lexsort((~np.signbit(wide), wide), axis=1)  # NaN last
    place = order[:, -1] if largest else order[:, 0]
    found: np.ndarray = np.take_along_axis(wide, place[:, None], 1)[:, 0]
    return np.where(np.isnan(wide).any(1), np.nan, found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("repeats", [1, 6, 40])
def test_extremes_of_special_values(dtype: Any, name: str, repeats: int) -> None:
    rows = np.tile(special(DTYPES[dtype]), (1, repeats))
    by_rows = mx.compile(lambda x: getattr(mx, name)(x, axis=1))
    by_columns = mx.compile(lambda x: getattr(mx, name)(x, axis=0))
    wanted = expected(rows, name == "max")
    x, across = mx.array(rows, dtype=dtype), mx.array(np.ascontiguousarray(rows.T), dtype=dtype)
    for found in (by_rows(x), by_columns(across)):
        assert found.dtype == dtype
        wide = np.array(found.astype(mx.float64 if dtype == mx.float64 else mx.float32), np.float64)
        np.testing.assert_array_equal(wide, wanted)
        numbers_only = ~np.isnan(wanted)
        np.testing.assert_array_equal(
            np.signbit(wide)[numbers_only], np.signbit(wanted)[numbers_only]
        )


def test_extremes_are_those_of_ranks() -> None:
    (text,) = texts_of(lambda x: x.min(axis=1), numbers(3, 45, dtype=mx.float16))
    assert "rank(a0[" in text or "smallest)" in text
    assert "from_rank(" in text
    (text,) = texts_of(lambda x: x.max(axis=1), mx.zeros((3, 45), dtype=mx.int32))
    assert "rank" not in text
