"""Products, convolutions, pooling and attention between guard pages: nothing reads past operands.

Each function is compiled and run on ordinary arrays, then on copies of them that begin or end where
memory may not be touched. Kernels that mask, clamp or fetch ahead wrongly crash there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.guard_pages import guarded_array

import ingot.core as mx
from ingot import nn
from ingot.graph.tree import arrays_in
from ingot.runtime.processor import vector_registers

Function = Callable[..., Any]


def numbers(shape: tuple[int, ...], seed: int, dtype: Any = mx.float32) -> mx.array:
    return mx.array(np.random.default_rng(seed).normal(size=shape).astype(np.float32)).astype(dtype)


def require_same_guarded(function: Function, *arguments: mx.array) -> list[str]:
    """The results do not change where memory ends or begins at the operands. Returns the strategies
    of the function's kernels.
    """
    compiled = mx.compile(function)
    expected = [np.array(x.astype(mx.float32)) for x in arrays_in(compiled(*arguments))]
    for at_end in (True, False):
        given = [guarded_array(x, at_end) for x in arguments]
        for found, wanted in zip(arrays_in(compiled(*given)), expected, strict=True):
            np.testing.assert_array_equal(np.array(found.astype(mx.float32)), wanted)
    work = compiled.explain(*arguments).work
    return [each.kernel.nest.strategy for each in work if each.kernel is not None]


class Size(NamedTuple):
    """Rows, products in a sum, columns; which operands are stored transposed; and the strategy."""

    m: int
    k: int
    n: int
    strategy: str
    transposed: tuple[bool, bool] = (False, False)


SIZES = [
    Size(140, 262, 1003, "packed panels"),
    Size(140, 521, 515, "packed panels"),  # several blocks of sums
    Size(61, 65, 97, "packed panels", (False, True)),
    Size(150, 71, 203, "in place, which stays in L2", (True, False)),
    Size(150, 271, 203, "in place, which stays in L2", (True, False)),  # the left one is packed
    Size(33, 65, 97, "in place, which stays in L2"),
    Size(5, 65, 203, "in place"),
    Size(37, 270, 1003, "strips of few rows"),
    Size(3, 67, 301, "strips of very few rows"),
    Size(1, 67, 1029, "strips of very few rows"),
    Size(2, 131, 301, "sums along vectors", (False, True)),
    Size(13, 333, 37, "sums along vectors", (False, True)),
    Size(7, 9001, 9, "the sum of chunks"),
    Size(515, 131, 1, "sums along vectors"),
]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_products(size: Size) -> None:
    a, b = numbers((size.m, size.k), 1), numbers((size.k, size.n), 2)
    bias, residual = numbers((size.n,), 3), numbers((size.m, size.n), 4)
    first, second = size.transposed
    a, b = mx.contiguous(a.T) if first else a, mx.contiguous(b.T) if second else b

    def layer(a: mx.array, b: mx.array, bias: mx.array, residual: mx.array) -> mx.array:
        return ((a.T if first else a) @ (b.T if second else b) + bias) * residual

    strategies = require_same_guarded(layer, a, b, bias, residual)
    if vector_registers() == 32:  # with fewer, tiles are narrower and use panels from fewer rows on
        assert any(size.strategy in each for each in strategies), strategies


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_products_of_other_dtypes(dtype: str) -> None:
    wanted = getattr(mx, dtype)
    a, b = numbers((41, 67), 1, wanted), numbers((67, 101), 2, wanted)
    require_same_guarded(lambda a, b: a @ b, a, b)
    require_same_guarded(lambda a, b: a @ b.T, a, mx.contiguous(b.T))
    if dtype != "float64":
        require_same_guarded(lambda a, b: a[:3] @ b, a, b)
        require_same_guarded(lambda a, b: a.T @ b, mx.contiguous(a.T), b)


def test_views_and_stacks() -> None:
    a, b, c = numbers((73, 95), 1), numbers((95, 111), 2), numbers((3, 47, 43), 3)
    require_same_guarded(lambda a, b: a[::-1, 1:] @ b[1:, ::-1], a, b)
    require_same_guarded(lambda a, b: a[1:, ::3] @ b[1::3, 1:], a, b)
    require_same_guarded(lambda c: c @ c.swapaxes(1, 2), c)
    require_same_guarded(lambda c: c.swapaxes(1, 2)[::-1] @ c, c)


CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "dense": ((2, 9, 11, 5), (7, 3, 3, 5), {"padding": 1, "stride": 2}),
    "in place": ((2, 9, 11, 20), (40, 1, 1, 20), {}),
    "winograd": ((1, 13, 15, 18), (19, 3, 3, 18), {"padding": 1}),
    "grouped": ((2, 7, 9, 60), (15, 3, 3, 4), {"groups": 15}),
    "narrow": ((2, 9, 7, 33), (3, 3, 5, 33), {"padding": (1, 2)}),
    "depthwise": ((2, 9, 7, 37), (37, 3, 5, 1), {"padding": (1, 2), "groups": 37}),
    "signal": ((1, 103, 20), (40, 7, 20), {"stride": 2, "padding": 3}),
    "dilated": ((2, 5, 6, 11), (13, 3, 3, 11), {"padding": 2, "input_dilation": 2}),
}


SIMPLE = ("in place", "narrow", "signal", "dilated")  # whose gradients are of the other kinds


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_and_their_gradients(name: str) -> None:
    shape, filters, options = CONVOLUTIONS[name]

    def convolved(x: mx.array, w: mx.array) -> mx.array:
        return mx.conv_general(x, w, **options)

    def gradients(x: mx.array, w: mx.array, y: mx.array) -> list[mx.array]:
        return mx.vjp(convolved, [x, w], [y])[1]

    x, w = numbers(shape, 1), numbers(filters, 2)
    if name in SIMPLE:
        require_same_guarded(convolved, x, w)
    else:
        y = numbers(convolved(x, w).shape, 3)
        require_same_guarded(lambda x, w, y: (convolved(x, w), gradients(x, w, y)), x, w, y)


@pytest.mark.parametrize("channels", [5, 37])
def test_pooling_and_its_gradients(channels: int) -> None:
    for pool in (nn.MaxPool2d(3, 2, 1), nn.AvgPool2d((5, 2), (3, 1), (2, 1))):
        x = numbers((2, 9, 7, channels), 1)
        y = numbers(pool(x).shape, 2)
        require_same_guarded(lambda x, y, pool=pool: mx.vjp(pool, [x], [y]), x, y)


def test_attention_and_its_gradients() -> None:
    q, k, v = numbers((2, 4, 37, 19), 1), numbers((2, 2, 41, 19), 2), numbers((2, 2, 41, 23), 3)
    mask = numbers((4, 37, 41), 4)

    def attend(q: mx.array, k: mx.array, v: mx.array, mask: mx.array) -> mx.array:
        return mx.fast.scaled_dot_product_attention(q, k, v, scale=0.3, mask=mask)

    def gradients(y: mx.array, *arrays: mx.array) -> list[mx.array]:
        return mx.vjp(lambda *x: attend(*x, mask), list(arrays), [y])[1]

    require_same_guarded(attend, q, k, v, mask > -1)
    require_same_guarded(gradients, numbers((2, 4, 37, 23), 5), q, k, v)


@pytest.mark.parametrize(("rows", "bits"), [(1, 4), (3, 3), (7, 4), (45, 4)])
def test_quantised_products(rows: int, bits: int) -> None:
    x, parts = numbers((rows, 192), 1), mx.quantize(numbers((77, 192), 2), 64, bits)
    require_same_guarded(
        lambda x, *parts: mx.quantized_matmul(x, *parts, group_size=64, bits=bits), x, *parts
    )
