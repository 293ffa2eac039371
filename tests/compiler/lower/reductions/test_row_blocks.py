"""Reductions in machine code against NumPy in float64: rows, columns, all axes and several, alone
and fused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import texts_of

import ingot.core as mx
from ingot import _native
from ingot.runtime.processor import vector_bytes

SHAPES = [(1,), (700,), (33, 65), (3, 9000), (9000, 3), (5, 40, 9), (4, 1, 6, 5)]
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (mx.sum, np.sum),
    "prod": (mx.prod, np.prod),
    "max": (mx.max, np.max),
    "min": (mx.min, np.min),
    "mean": (mx.mean, np.mean),
    "var": (mx.var, np.var),
    "all": (mx.all, np.all),
    "any": (mx.any, np.any),
    "argmax": (mx.argmax, np.argmax),
    "logsumexp": (
        mx.logsumexp,
        lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
    ),
}


def _axes(ndim: int) -> list[Any]:
    pairs = (
        list(itertools.combinations(range(ndim), 2))
        if ndim == 3
        else [(0, ndim - 1)]
        if ndim > 3
        else []
    )
    return [None, *((axis,) for axis in range(ndim)), *pairs]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_against_numpy(name: str, shape: tuple[int, ...]) -> None:
    ours, theirs = REDUCTIONS[name]
    values = np.random.default_rng(len(shape)).uniform(0.5, 1.5, shape)
    for axes in _axes(len(shape)):
        if name == "argmax":
            if axes is not None and len(axes) > 1:
                continue
            axes = axes if axes is None else axes[0]
        for keepdims in (False, True):
            x = mx.array(values.astype(np.float32))
            compiled = mx.compile(
                lambda x, axes=axes, keepdims=keepdims: ours(
                    x * 2 - 1, axis=axes, keepdims=keepdims
                )
            )
            found = np.array(compiled(x))
            expected = np.asarray(
                theirs(x._data.astype(np.float64) * 2 - 1, axis=axes, keepdims=keepdims)
            )
            assert found.shape == expected.shape
            assert np.allclose(found, expected, rtol=2e-5, atol=2e-6), (name, shape, axes)


@pytest.mark.parametrize(
    "dtype", ["bool_", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "complex64"]
)
def test_dtypes(dtype: str) -> None:
    values = np.random.default_rng(1).integers(0, 3, (37, 41))
    x = mx.array(values).astype(getattr(mx, dtype))
    for function in (mx.sum, mx.max, mx.min, mx.any):
        if dtype == "complex64" and function is not mx.sum:
            continue
        for axis in (None, 0, 1):
            found = mx.compile(lambda x, f=function, axis=axis: f(x, axis=axis))(x)
            expected = function(x, axis=axis)
            assert found.dtype is expected.dtype
            assert np.allclose(
                found._data.astype(np.complex128), expected._data.astype(np.complex128), rtol=1e-2
            )


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("position", [0, 17, 40])
def test_nan_wins(axis: int | None, position: int) -> None:
    values = np.random.default_rng(0).standard_normal((41, 43)).astype(np.float32)
    values[position, position] = np.nan
    for function, reference in ((mx.max, np.max), (mx.min, np.min)):
        found = np.array(mx.compile(lambda x, f=function: f(x, axis=axis))(mx.array(values)))
        assert np.array_equal(found, reference(values, axis=axis), equal_nan=True)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_long_sums_are_accurate(axis: int | None) -> None:
    shape = {None: (10_000_000,), 0: (1_000_000, 5), 1: (3, 3_000_000)}[axis]
    values = np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32)
    found = np.array(mx.compile(lambda x: mx.sum(x, axis=axis))(mx.array(values)))
    expected = values.sum(axis=axis, dtype=np.float64)
    assert np.max(np.abs(found - expected) / expected) < 1e-6


def _softmax(x: mx.array) -> mx.array:
    e = mx.exp(x - mx.max(x, axis=-1, keepdims=True))
    return e / mx.sum(e, axis=-1, keepdims=True)


def _layer_norm(x: mx.array) -> mx.array:
    centred = x - mx.mean(x, axis=-1, keepdims=True)
    return centred * mx.rsqrt(mx.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize("function", [_softmax, _layer_norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 7), (50, 1023), (17, 4097), (2, 70_000), (4, 5, 6)], ids=str
)
def test_functions_along_rows(
    function: Callable[[mx.array], mx.array], shape: tuple[int, ...]
) -> None:
    x = mx.array(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    compiled = mx.compile(function)
    explained = compiled.explain(x)
    if shape[0] >= 16:
        assert len(explained.kernels) == 1
    assert np.allclose(np.array(compiled(x)), np.array(function(x)), rtol=1e-5, atol=1e-6)
    gradient = mx.grad(lambda x: (function(x) * x).sum())
    assert np.allclose(
        np.array(mx.compile(gradient)(x)), np.array(gradient(x)), rtol=1e-4, atol=1e-5
    )


CUTS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda x: x,
    lambda x: x[tuple(slice(None, None, -1) for _ in x.shape)],
    lambda x: x[1:, ..., ::-2],
]


def _laid_out(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Arrays in all orders of their axes, as they are or backwards or sliced. They hold few
    numbers, so that the first of several largest elements has to be found.
    """
    values = np.random.default_rng(0).integers(-20, 20, shape).astype(np.float32) / 8
    orders = list(itertools.permutations(range(len(shape))))
    cuts = CUTS if len(shape) == 2 else CUTS[1:]
    return [
        np.transpose(cut(values), order)
        for number, order in enumerate(orders)
        for position, cut in enumerate(cuts)
        if len(shape) == 2 or position == number % len(cuts)
    ]


@pytest.mark.parametrize("shape", [(37, 70), (5, 19, 23)], ids=str)
def test_reductions_of_all_layouts(shape: tuple[int, ...]) -> None:
    axes = [*range(len(shape)), None]
    several = [*axes, (0, 2)] if len(shape) == 3 else axes

    def function(x: mx.array) -> list[mx.array]:
        found = [mx.sum(x, axis=axis) for axis in several]
        found += [mx.logsumexp(x, axis=axis) for axis in several[:2]]
        found += [mx.argmax(x, axis=axis) for axis in axes]
        return [*found, mx.argmin(x, axis=0), mx.max(x + 1, axis=1)]

    for values in _laid_out(shape):
        wide = values.astype(np.float64)
        expected = [wide.sum(axis) for axis in several]
        expected += [np.log(np.exp(wide).sum(axis)) for axis in several[:2]]
        expected += [np.argmax(wide, axis) for axis in axes]
        expected += [np.argmin(wide, 0), wide.max(1) + 1]
        x = _native.constant(values, mx.float32)
        compiled = mx.compile(function)
        mx.eval(compiled(x))  # on a copy; the layout gets a program when it comes again
        for number, (found, right) in enumerate(zip(compiled(x), expected, strict=True)):
            close = np.allclose(np.array(found), right, rtol=2e-6, atol=2e-5)
            assert close, (values.shape, values.strides, number)


@pytest.mark.parametrize("function", [_softmax, _layer_norm], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(137, 70), (5, 19, 23)], ids=str)
def test_functions_along_rows_of_all_layouts(
    function: Callable[[mx.array], mx.array], shape: tuple[int, ...]
) -> None:
    for values in _laid_out(shape):
        x = _native.constant(values, mx.float32)
        compiled = mx.compile(function)
        mx.eval(compiled(x))
        expected = np.array(function(mx.array(np.ascontiguousarray(values, np.float64))))
        assert np.allclose(np.array(compiled(x)), expected, rtol=1e-5, atol=1e-5), values.strides


@pytest.mark.parametrize("shape", [(1023, 700), (50_000, 5)], ids=str)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_large_transposed_sums(shape: tuple[int, int], axis: int | None) -> None:
    values = np.random.default_rng(0).uniform(0, 1, shape).astype(np.float32).T
    x = _native.constant(values, mx.float32)
    compiled = mx.compile(lambda x: (mx.sum(x, axis=axis), mx.mean(x * 2, axis=axis)))
    mx.eval(compiled(x))
    total, mean = (np.array(found) for found in compiled(x))
    expected = values.sum(axis, dtype=np.float64)
    assert np.max(np.abs(total - expected) / expected) < 1e-6
    assert np.allclose(mean, 2 * values.mean(axis, dtype=np.float64), rtol=1e-6)
    again = mx.compile(lambda x: (mx.sum(x, axis=axis), mx.mean(x * 2, axis=axis)))
    mx.eval(again(x))
    assert np.array_equal(np.array(again(x)[0]), total)


@pytest.mark.parametrize("length", [33, 100, 255, 256, 511, 512, 1023, 5000, 20_000])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_rows_have_as_many_lanes_as_they_fill(name: str, length: int) -> None:
    x = np.random.default_rng(length).uniform(-1, 1, (3, length)).astype(np.float32)
    x[1, length // 2] = np.nan
    x[2] = -np.abs(x[2]) * 0.0
    x[2, -1] = 0.0
    compiled = mx.compile(lambda x: getattr(x, name)(axis=1))
    found = np.array(compiled(mx.array(x)))
    np.testing.assert_array_equal(found, getattr(x, name)(axis=1))
    assert np.signbit(found[2]) == (name == "min")  # -0 is less than +0


@pytest.mark.parametrize(
    ("name", "length", "unrolled"),
    [
        ("max", 330, True),
        ("max", 512, False),
        ("argmax", 300, True),
        ("argmax", 512, False),
    ],
)
def test_bundles_of_many_vectors_are_not_unrolled(name: str, length: int, unrolled: bool) -> None:
    (text,) = texts_of(lambda x: getattr(mx, name)(x, axis=1), mx.zeros((3, length)))
    assert ("unroll" in text) is (unrolled or vector_bytes() < 64)  # which has shorter bundles


@pytest.mark.parametrize("length", [9, 15, 17, 26, 27, 31, 33, 63, 65, 97])
def test_rows_that_do_not_fill_vectors(length: int) -> None:
    """Written out or in masked lanes, the order of a sum is that of the evaluate rule."""
    values = np.random.default_rng(length).normal(size=(37, length)).astype(np.float32)
    x = mx.array(values)

    def of(x: mx.array) -> tuple[mx.array, mx.array]:
        return x.sum(axis=-1), mx.exp(x).sum(axis=-1)

    plain, exponentials = mx.compile(of)(x)
    kept = x.sum(axis=-1)
    assert plain.tolist() == kept.tolist()
    wide = values.astype(np.float64)
    np.testing.assert_allclose(np.array(plain), wide.sum(-1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(np.array(exponentials), np.exp(wide).sum(-1), rtol=1e-5)
    alone = mx.compile(lambda x: x.sum(axis=-1))(x)
    assert alone.tolist() == kept.tolist()


@pytest.mark.parametrize("length", [7, 9, 16, 24, 31, 32, 33])
def test_rows_of_gathered_elements(length: int) -> None:
    """Each has an index of its own: short rows that do not fill vectors are written out."""
    rng = np.random.default_rng(length)
    values, table = rng.normal(size=(37, length)), rng.normal(size=90)
    indices = rng.integers(-90, 90, (37, length))
    given = [mx.array(each.astype(np.float32)) for each in (values, table)]

    def of(values: mx.array, table: mx.array, indices: mx.array) -> tuple[mx.array, mx.array]:
        found = values * table[indices]
        return found.sum(axis=-1), found.max(axis=-1)

    arguments = (*given, mx.array(indices))
    total, largest = mx.compile(of)(*arguments)
    assert total.tolist() == of(*arguments)[0].tolist()
    expected = values * table[indices]
    np.testing.assert_allclose(np.array(total), expected.sum(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.array(largest), expected.max(-1), rtol=1e-6)
    text = texts_of(lambda *arguments: of(*arguments)[0], *arguments)[-1]
    assert ("lanes" in text) is (length in (16, 32, 33))


def test_short_rows_share_a_part() -> None:
    """Where the order is free, a part is as many rows as fill a block, not a single one."""
    generator = np.random.default_rng(0)
    for columns in (2, 3, 10, 31):
        x = mx.array(generator.normal(size=(9001, columns)).astype(np.float32))
        column = mx.array(generator.normal(size=(9001, 1)).astype(np.float32))
        for function, theirs in ((mx.max, np.max), (mx.min, np.min)):
            found = mx.compile(lambda x, c, function=function: function(x - c))(x, column)
            assert found.item() == theirs(np.array(x) - np.array(column))
        text = "\n".join(texts_of(lambda x, c: mx.max(x - c), x, column))
        parts = -(-9001 // (512 * 16 // columns))
        assert f"i in 0..{parts}" in text, text
