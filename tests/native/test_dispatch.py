"""Nodes that run by what is known of others: the op and how the inputs lie must be the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.ops.products.contraction import Matmul


def grid(rows: int, columns: int, start: int = 0) -> Any:
    count = rows * columns
    return np.arange(start, start + count, dtype=np.float32).reshape(rows, columns)


VIEWS: list[tuple[Any, Any]] = [
    (lambda x: x.reshape(6, 4), lambda x: x.reshape(6, 4)),
    (lambda x: x.transpose(1, 0), lambda x: x.T),
    (lambda x: x[1:3, ::-2], lambda x: x[1:3, ::-2]),
    (lambda x: x[:, 2], lambda x: x[:, 2]),
    (lambda x: mx.expand_dims(x, 1), lambda x: x[:, None]),
]


@pytest.mark.parametrize("number", range(len(VIEWS)))
def test_views_of_values_of_any_layout(number: int) -> None:
    view, expected = VIEWS[number]
    for start in range(3):
        plain = grid(4, 6, start)
        for values in (plain, grid(6, 4, start).T, grid(8, 6, start)[::2], grid(4, 6, start)[::-1]):
            x = mx.array(grid(1, 1)) if values.size == 0 else mx.array(values)
            lain = x if values is plain else mx.array(np.ascontiguousarray(values.T)).T
            for source in (x, lain):
                mx.eval(source)
                assert np.array_equal(np.array(view(source)), expected(values))


def test_views_of_views_show_the_right_memory() -> None:
    for start in range(3):
        values = grid(8, 8, start)
        x = mx.array(values)
        part = x[2:6, 1:7]
        mx.eval(part)
        transposed = part.transpose(1, 0)
        mx.eval(transposed)
        last = transposed[1:3]
        assert np.array_equal(np.array(last), values[2:6, 1:7].T[1:3])
        x[3] = 0
        mx.eval(x)
        assert np.array_equal(np.array(last), values[2:6, 1:7].T[1:3])


def test_dtypes_of_equal_size_are_distinguished() -> None:
    for dtype in (mx.float32, mx.int32, mx.uint32, mx.float16, mx.bfloat16, mx.int16):
        x = mx.array(grid(2, 2)).astype(dtype)
        mx.eval(x)
        shown = x.transpose(1, 0)
        assert shown.dtype == dtype
        assert np.array_equal(np.array(shown.astype(mx.float32)), grid(2, 2).T)


def test_empty_arrays() -> None:
    for _ in range(2):
        x = mx.zeros((0, 4))
        assert x.reshape(4, 0).shape == (4, 0)
        assert np.array(x.transpose(1, 0)).shape == (4, 0)


def test_normalisations_of_other_layouts_and_settings() -> None:
    weight = mx.array(grid(1, 8).ravel() + 1)
    for engine in ("ingot", "blas", "ingot"):
        mx.set_product_engine(engine)
        try:
            for values in (grid(3, 8), grid(5, 8, 9), grid(8, 3).T):
                x = mx.array(values)
                scaled = values / np.sqrt((values**2).mean(-1, keepdims=True) + 1e-5)
                found = np.array(mx.fast.rms_norm(x, weight, 1e-5))
                np.testing.assert_allclose(found, scaled * np.array(weight), rtol=1e-5)
                product = np.array(x @ mx.array(values.T))
                np.testing.assert_allclose(product, values @ values.T, rtol=1e-5)
        finally:
            mx.set_product_engine("ingot")


def _by_rule(*_: Any) -> Any:
    raise AssertionError("a small product ran the op's rule in Python")


SMALL_SHAPES = [
    ((1, 1), (1, 1)),
    ((3, 5), (5, 2)),
    ((17, 31), (31, 13)),
    ((1, 64), (64, 64)),
    ((64, 64), (64, 1)),
    ((7, 3, 4), (7, 4, 2)),
    ((2, 1, 3, 4), (2, 5, 4, 3)),
    ((2, 3, 4), (4, 6)),
    ((4,), (4, 3)),
    ((5, 4), (4,)),
    ((6,), (6,)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "bfloat16"])
@pytest.mark.parametrize("shapes", SMALL_SHAPES, ids=str)
def test_small_products_run_without_python(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Matmul, "evaluate", _by_rule)
    generator = np.random.default_rng(0)
    kind = getattr(mx, dtype).numpy
    rounding = {"float16": 2.0**-11, "bfloat16": 2.0**-8}.get(dtype, 2e-5)
    for _ in range(3):
        left, right = (generator.standard_normal(shape).astype(kind) for shape in shapes)
        expected = left.astype(np.complex128) @ right.astype(np.complex128)
        for a in (_as_array(left), _transposed_in_memory(left)):
            for b in (_as_array(right), _transposed_in_memory(right)):
                for found in (a @ b, mx.compile(lambda x, y: x @ y)(a, b)):
                    assert found.dtype is getattr(mx, dtype)
                    assert found.shape == expected.shape
                    values = np.array(found).astype(np.complex128)
                    np.testing.assert_allclose(values, expected, rtol=rounding, atol=2e-5)


def _as_array(values: np.ndarray) -> mx.array:
    return mx.array(values, getattr(mx, values.dtype.name))  # float64 is float32 otherwise


def _transposed_in_memory(values: np.ndarray) -> mx.array:
    if values.ndim < 2:
        return _as_array(values)
    return _as_array(np.ascontiguousarray(values.swapaxes(-1, -2))).swapaxes(-1, -2)


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_small_products_round_half_types_as_casts_do(dtype: mx.Dtype) -> None:
    # every half number times one, and sums of two that are ties, subnormal, too large or no numbers
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).reshape(-1, 16)
    one = mx.array(np.eye(16), dtype)
    found = np.concatenate([np.array(_of_half(rows, dtype) @ one) for rows in np.split(every, 64)])
    with np.errstate(invalid="ignore"):
        expected = (every.astype(np.float32) @ np.eye(16, dtype=np.float32)).astype(dtype.numpy)
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))
    generator = np.random.default_rng(0)
    pairs = generator.integers(0, 1 << 16, (4096, 2), np.uint16).view(dtype.numpy)
    ones = np.ones((2, 1), dtype.numpy)
    with np.errstate(all="ignore"):
        sums = pairs.astype(np.float32).sum(1, keepdims=True).astype(dtype.numpy)
        found = np.array(_of_half(pairs, dtype) @ _of_half(ones, dtype))
    np.testing.assert_array_equal(found.astype(np.float32), sums.astype(np.float32))


def _of_half(values: np.ndarray, dtype: mx.Dtype) -> mx.array:
    """Bits of half numbers as they are: constructors may change NaN."""
    return mx.array(np.ascontiguousarray(values).view(np.uint16)).view(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "bfloat16"])
def test_small_products_of_any_strides(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Matmul, "evaluate", _by_rule)
    kind = getattr(mx, dtype)
    values = (grid(12, 12) % 11 - 5).astype(kind.numpy)  # sums are exact
    wide = np.complex128 if dtype == "complex64" else np.float64
    x = _as_array(values)
    views = [
        (slice(None, None, 2), slice(1, 7)),
        (slice(2, 8), slice(None, None, -2)),
        (slice(None, None, -2), slice(5, None, -1)),
        (slice(0, 1), slice(6)),
    ]
    for first in views:
        for second in views[:3]:
            for _ in range(2):
                expected = values[first].astype(wide) @ values[second].astype(wide)
                found = np.array(x[first] @ x[second])
                assert np.array_equal(found, expected.astype(found.dtype))
    repeated = mx.broadcast_to(x[:1], (12, 12)) @ mx.broadcast_to(x[:, 2:3], (12, 12))
    expected = np.tile(values[:1].astype(wide) @ values[:, 2:3], (12, 12))
    assert np.array_equal(np.array(repeated), expected.astype(values.dtype))
    stack = mx.stack([x, x[::-1]])[:, ::3, ::2] @ mx.stack([x[::2], x[1::2]])
    expected = np.stack([values, values[::-1]])[:, ::3, ::2].astype(wide) @ np.stack(
        [values[::2], values[1::2]]
    )
    assert np.array_equal(np.array(stack), expected.astype(values.dtype))
