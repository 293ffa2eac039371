"""Selections of what maps compute: the same elements, without storing all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx


def normal(*shape: int, dtype: Any = mx.float32) -> mx.array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return mx.array(values).astype(dtype)


def stored(function: Any, *args: mx.array) -> int:
    """The bytes of the largest value that the program stores."""
    work = mx.compile(function).explain(*args).work
    return max(step.nbytes for each in work for step in each.writes)


def assert_selected(function: Any, *args: mx.array) -> None:
    """The largest elements are not stored with all others, and are those of NumPy's order."""
    assert stored(function, *args) * 3 < args[0].nbytes
    found, expected = mx.compile(function)(*args), function(*args)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    ordered = [np.sort(np.array(x.astype(mx.float32)), -1) for x in (found, expected)]
    np.testing.assert_array_equal(*ordered)


@pytest.mark.parametrize("k", [1, 30])
@pytest.mark.parametrize("shape", [(20, 25_600), (20, 25_639), (3, 5, 20_001), (300_001,)])
def test_elements_and_positions(shape: tuple[int, ...], k: int) -> None:
    x = normal(*shape)
    assert_selected(lambda x: mx.topk(x / 0.7, k), x)
    assert_selected(lambda x: mx.argpartition(-(x * 2 + 1), k - 1)[..., :k], x)
    assert_selected(lambda x: mx.argpartition(x * 3 - 1, -k)[..., -k:], x)  # no ties


def test_dtypes() -> None:
    for dtype in (mx.float16, mx.bfloat16, mx.int32, mx.int8, mx.uint16):
        x = (normal(30, 20_000) * 100).astype(dtype)
        assert_selected(lambda x: mx.topk(x + x, 9), x)


def test_several_operands_and_broadcasts() -> None:
    x, y, bias, scale = normal(30, 20_000), normal(30, 20_000), normal(20_000), normal(30, 1)
    assert_selected(
        lambda x, y, bias, scale, t: mx.topk(((x + y) * scale - bias) / t, 5),
        x,
        y,
        bias,
        scale,
        mx.array(0.3),
    )


def test_special_numbers() -> None:
    x = np.array(normal(30, 20_000))
    x[0, :50], x[1, 77], x[2, -3:], x[3] = np.nan, np.inf, np.nan, 1.0
    x[4, ::64], x[5] = -np.inf, -np.inf
    assert_selected(lambda x: mx.topk(x * 2, 8), mx.array(x))
    assert_selected(lambda x: mx.partition(x * 2, 8)[:, :9], mx.array(x))


def test_smallest_elements_next_to_nan() -> None:
    x = np.array(normal(30, 20_000))
    x[:, 640:700:2], x[:, 641] = np.nan, -50  # in one block
    x[7], x[7, ::256], x[7, 5] = np.nan, np.inf, 2  # fewer numbers than are selected
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        assert_selected(lambda x: mx.partition(x * 2, 3)[:, :4], mx.array(x).astype(dtype))
        assert_selected(lambda x: mx.topk(x * 2, 4), mx.array(x).astype(dtype))


def test_a_selection_that_depends_on_another() -> None:
    def function(x: mx.array) -> mx.array:
        best = mx.topk(x * 2, 1)
        return mx.topk(x * 3 - mx.abs(best), 7)

    assert_selected(function, normal(30, 20_000))


def test_what_others_read_is_stored_once() -> None:
    def both(x: mx.array) -> tuple[mx.array, mx.array]:
        scores = x * 3
        return mx.topk(scores, 5), scores

    x = normal(30, 20_000)
    assert [group.kind for group in mx.compile(both).explain(x).kernels] == ["fused"]
    found = mx.compile(both)(x)[0]
    wanted = np.sort(np.array(x * 3), 1)[:, -5:]
    np.testing.assert_array_equal(np.sort(np.array(found), 1), wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mx.topk(x * 2, 100),  # too many of each row
        lambda x: mx.topk(x * 2, 5, axis=0),
        lambda x: mx.median(x * 2, axis=1),
        lambda x: mx.partition(x * 2, 5)[:, 3:9],  # on both sides of the pivot
        lambda x: mx.topk(x[:4] * 2, 5),  # little work
    ],
)
def test_others_stay_as_they_are(function: Any) -> None:
    x = normal(30, 20_000)
    assert stored(function, x) >= x[:4].nbytes
    found, expected = (np.sort(np.array(f(x)), None) for f in (mx.compile(function), function))
    np.testing.assert_array_equal(found, expected)
