"""Reductions in machine code against NumPy in float64: rows, columns, all axes and several, alone
and fused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx

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
