"""Results that kernels assemble of several arrays: joined arrays, padding, updated slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES, Dtype


def updated(x: mx.array, y: mx.array, place: Any) -> mx.array:
    x = x[:]
    x[place] = y
    return x


FUNCTIONS: dict[str, Callable[[mx.array, mx.array], Any]] = {
    "rows": lambda x, y: mx.concatenate([x, y + 1, x]),
    "columns": lambda x, y: mx.concatenate([x, y.T.T, x[:, ::-1]], axis=1),
    "stacked": lambda x, y: mx.stack([x, y], axis=-1),
    "padded": lambda x, y: mx.pad(x * 2, ((1, 2), (0, 3)), constant_values=7),
    "an edge": lambda x, y: mx.pad(x, 1, mode="edge"),
    "a slice": lambda x, y: updated(x, y[1:], (slice(1, None),)) * 2,
    "every second": lambda x, y: updated(x, y[:, ::2], (slice(None), slice(None, None, 2))),
    "backwards": lambda x, y: updated(x, y, (slice(None, None, -1),)),
    "with nothing": lambda x, y: mx.concatenate([x, y[:0], y], axis=0),
    "a number": lambda x, y: updated(x, mx.array(0).astype(x.dtype), (0,)),
    "several": lambda x, y: (mx.concatenate([x, y]), mx.concatenate([x, y], axis=1).sum(axis=0)),
    "in between": lambda x, y: mx.concatenate([x + 1, y * 2])[1:] - 1,
}


def same(found: Any, expected: Any) -> None:
    for a, b in zip(
        *((each if isinstance(each, tuple) else (each,)) for each in (found, expected)), strict=True
    ):
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a._data, b._data)


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), (17, 1023), (4097, 2)], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_pieces(name: str, shape: tuple[int, int]) -> None:
    function = FUNCTIONS[name]
    random = np.random.default_rng(5)
    x, y = (mx.array(random.integers(-9, 9, shape).astype(np.float32)) for _ in range(2))
    compiled = mx.compile(function)
    assert compiled.explain(x, y).to_dict()["native"]["host_steps"] == []
    same(compiled(x, y), function(x, y))


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=lambda dtype: dtype.name)
def test_all_dtypes(dtype: Dtype) -> None:
    random = np.random.default_rng(6)
    x, y = (mx.array(random.integers(0, 9, (7, 5))).astype(dtype) for _ in range(2))
    for name in ("columns", "padded", "a slice"):
        function = FUNCTIONS[name]
        same(mx.compile(lambda x, y, f=function: f(x, y))(x, y), function(x, y))


def test_gradients_of_slices_have_no_host_steps() -> None:
    def loss(x: mx.array) -> mx.array:
        query, key = mx.split(x, 2, axis=-1)
        return (query * key).sum() + (x[1:] * x[:-1]).sum()

    x = mx.array(np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32))
    compiled = mx.compile(mx.grad(loss))
    assert compiled.explain(x).to_dict()["native"]["host_steps"] == []
    given = np.array(x)
    expected = np.concatenate([given[:, 4:], given[:, :4]], 1)
    expected[1:] += given[:-1]
    expected[:-1] += given[1:]
    np.testing.assert_allclose(np.array(compiled(x)), expected, 1e-5, 1e-6)
