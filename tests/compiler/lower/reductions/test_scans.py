"""Fused scans: the bits of native scans, whatever maps are around them and however rows are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import numbers, texts_of

import ingot.core as mx

KINDS = ("cumsum", "cumprod", "cummax", "cummin")
# short and long rows, several in step and a rest, rows in chunks, columns, columns in chunks
SHAPES: list[tuple[tuple[int, ...], int]] = [
    ((5, 7), 1),
    ((19, 300), 1),
    ((9, 2, 40), 0),
    ((3, 50, 2), 1),
    ((8000,), 0),
    ((67, 8200), 1),
    ((30, 17), 0),
    ((8300, 9), 0),
    ((2, 40, 3, 300), 1),
]


def assert_fused(function: Any, *args: mx.array) -> None:
    """One kernel computes the same bits as one call per op."""
    report = mx.compile(function).explain(*args)
    assert not [work for work in report.work if work.kind in ("host", "routine")]
    assert [group.kind for group in report.kernels] == ["scan"]
    found, expected = mx.compile(function)(*args), function(*map(mx.array, args))
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(*(np.array(x.astype(mx.float64)) for x in (a, b)))


def around(axis: int, reverse: bool = False, inclusive: bool = True, kinds: Any = KINDS) -> Any:
    """Scans between maps, which also return what is before them and the scans themselves."""

    def function(x: mx.array) -> list[mx.array]:
        results = [x * x]
        for kind in kinds:
            scanned = getattr(mx, kind)(results[0], axis=axis, reverse=reverse, inclusive=inclusive)
            results += [scanned, scanned * 2 - x]
        return results

    return function


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_rows_and_columns_in_both_directions(
    shape: tuple[int, ...], axis: int, reverse: bool
) -> None:
    assert_fused(around(axis, reverse, kinds=["cumsum"]), numbers(*shape))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_results_without_the_element_itself(axis: int, reverse: bool) -> None:
    assert_fused(around(axis, reverse, inclusive=False), numbers(20, 300))


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "int8", "uint16", "int32", "uint64"]
)
def test_dtypes(dtype: str) -> None:
    x = (numbers(11, 90) * 5).astype(mx.int32).astype(getattr(mx, dtype))
    assert_fused(around(1), x)
    assert_fused(around(0), x)


@pytest.mark.parametrize("kind", ["cumprod", "cummax", "cummin"])
def test_bool(kind: str) -> None:
    def function(x: mx.array) -> tuple[mx.array, ...]:
        return (mx.logical_not(getattr(mx, kind)(mx.logical_not(x), axis=1)),)

    assert_fused(function, numbers(9, 30) > 0.9)


def test_special_numbers() -> None:
    x = np.random.default_rng(0).standard_normal((16, 50)).astype(np.float32)
    x[3, 7], x[4, 9], x[5, 1], x[6] = np.nan, np.inf, -np.inf, -0.0
    for kind in KINDS:
        found = mx.compile(lambda x, kind=kind: getattr(mx, kind)(-x, axis=1) * 1.5)(mx.array(x))
        expected = getattr(mx, kind)(mx.array(-x), axis=1)
        np.testing.assert_array_equal(np.array(found), np.array(expected) * np.float32(1.5))


def test_strided_operands_and_broadcasts() -> None:
    def function(x: mx.array, y: mx.array, row: mx.array) -> tuple[mx.array, ...]:
        return (mx.cumsum(x[:, ::-1] * row, axis=1) + y.T,)

    assert_fused(function, numbers(30, 40), numbers(40, 30), numbers(40))


def test_two_scans_of_one_group() -> None:
    def moments(x: mx.array) -> tuple[mx.array, ...]:
        first, second = mx.cumsum(x * 0.5, axis=1), mx.cumsum(mx.square(x), axis=1)
        return (second - first * first,)

    assert_fused(moments, numbers(17, 60))
    assert_fused(moments, numbers(64, 8200))


def test_equals_numpy_in_double_precision() -> None:
    x = numbers(6, 9000)
    found = mx.compile(lambda x: mx.cumsum(mx.exp(x), axis=1) * x)(x)
    wide = np.array(x, np.float64)
    expected = np.cumsum(np.exp(wide), 1) * wide
    np.testing.assert_allclose(np.array(found), expected, rtol=1e-5)


def test_a_scan_of_a_scan_is_another_kernel() -> None:
    report = mx.compile(lambda x: mx.cumsum(mx.cumsum(x + 1, axis=1) * 2, axis=1)).explain(
        numbers(20, 300)
    )
    assert [group.kind for group in report.kernels] == ["scan", "scan"]


def test_other_directions_and_reductions_stay_apart() -> None:
    def function(x: mx.array) -> list[mx.array]:
        y = x * 2
        return [mx.cumsum(y, axis=1), mx.cumsum(y, axis=1, reverse=True), y.sum(axis=1)]

    report = mx.compile(function).explain(numbers(20, 300))
    assert sorted(group.kind for group in report.kernels) == ["fused", "scan", "scan"]
    found, expected = mx.compile(function)(numbers(20, 300)), function(numbers(20, 300))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-6)


def test_a_large_scan_alone_is_native_code() -> None:
    def hosts(*shape: int) -> int:
        report = mx.compile(lambda x: mx.cumsum(x, axis=1)).explain(numbers(*shape))
        return sum(work.kind in ("host", "routine") for work in report.work)

    assert (hosts(100, 200), hosts(10, 20)) == (1, 0)


def test_few_long_rows_and_narrow_columns_are_native_code() -> None:
    for shape, axis in (((2, 20_000), 1), ((20_000, 5), 0)):
        report = mx.compile(lambda x, axis=axis: mx.cumsum(x * 2, axis=axis) * x).explain(
            numbers(*shape)
        )
        assert sum(work.kind in ("host", "routine") for work in report.work) == 1


def test_gradients_through_a_fused_scan() -> None:
    def loss(x: mx.array) -> mx.array:
        return (mx.cumsum(mx.exp(x), axis=1) * x).sum()

    x = numbers(4, 30)
    found, wide = np.array(mx.compile(mx.grad(loss))(x)), np.array(x, np.float64)
    later = np.cumsum(wide[:, ::-1], 1)[:, ::-1]
    np.testing.assert_allclose(found, np.cumsum(np.exp(wide), 1) + np.exp(wide) * later, rtol=1e-5)


def test_the_nest_of_rows() -> None:
    text = texts_of(lambda x, y: mx.cumsum(mx.exp(x), axis=1) * y, numbers(20, 30), numbers(20, 30))
    assert len(text) == 1
    assert "parallel" in text[0]
    assert "exp(" in text[0]
