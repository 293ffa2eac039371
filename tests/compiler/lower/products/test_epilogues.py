"""What follows products element by element is computed of their tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of

import ingot.core as mx
import ingot.nn as nn
from ingot.compiler.forms.nest.data import Prefetch, Store
from ingot.compiler.forms.nest.traversal import statements


def arrays(*shapes: tuple[int, ...]) -> list[mx.array]:
    generator = np.random.default_rng(len(shapes))
    return [mx.array(generator.standard_normal(shape).astype(np.float32)) for shape in shapes]


def groups_of(function: Any, *arguments: mx.array) -> list[str]:
    text = str(mx.compile(function).explain(*arguments))
    groups = text.partition("Groups\n")[2].partition("\n\n")[0]
    return [line.split()[0] for line in groups.splitlines() if line.startswith("  ")]


def require_same(function: Any, *arguments: mx.array) -> None:
    """Compiled, with fused products, as uncompiled, op by op."""
    found, expected = mx.compile(function)(*arguments), function(*arguments)
    if isinstance(found, mx.array):
        found, expected = [found], [expected]
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        wanted = np.array(b)
        size = float(np.abs(wanted.astype(np.float64)).max())
        np.testing.assert_allclose(np.array(a), wanted, rtol=1e-5, atol=1e-6 * max(size, 1))


SIZES = [(64, 64, 64), (33, 65, 97), (3, 500, 100), (130, 700, 300), (1, 300, 500), (140, 300, 3)]


@pytest.mark.parametrize("size", SIZES)
def test_linear_layers(size: tuple[int, int, int]) -> None:
    m, k, n = size
    x, w, b, r = arrays((m, k), (k, n), (n,), (m, n))
    (t,) = arrays((n, k))
    require_same(lambda x, w, b: nn.gelu(x @ w + b), x, w, b)
    require_same(lambda x, t, b, r: nn.gelu(x @ t.T + b) + r, x, t, b, r)
    require_same(lambda x, w, b: (nn.relu(x @ w + b), (x @ w + b) > 0), x, w, b)
    require_same(lambda x, w, r: (x @ w).astype(mx.float16) * 2 + r.astype(mx.float16), x, w, r)
    require_same(lambda x, w: (x @ w) * mx.arange(n) + mx.arange(m)[:, None], x, w)


@pytest.mark.parametrize("size", SIZES[:4])
def test_two_products_in_one_group(size: tuple[int, int, int]) -> None:
    m, k, n = size
    x, w, v = arrays((m, k), (k, n), (k, n))
    require_same(lambda x, w, v: nn.silu(x @ w) * (x @ v), x, w, v)


def test_batches_of_rows_and_stacks() -> None:
    x, w, b, r, p = arrays((4, 50, 64), (64, 128), (128,), (4, 50, 128), (50, 128))
    require_same(lambda x, w, b, r: nn.gelu(x @ w + b) + r, x, w, b, r)
    require_same(lambda x, w, b, p: nn.gelu(x @ w + b) + p, x, w, b, p)
    y, c, d = arrays((4, 64, 50), (1, 1, 50), (4, 1, 1))
    require_same(lambda x, y, c, d: (x @ y) * c + d, x, y, c, d)


def test_what_epilogues_read_and_write_is_fetched_ahead() -> None:
    x, w, b, r = arrays((200, 100), (100, 150), (150,), (200, 150))
    *_, nest = nests_of(lambda x, w, b, r: x @ w + b + r, x, w, b, r)  # panels may be before it
    for region in nest.parallel:  # whole tiles, and those of the last columns
        found = list(statements(region.body))
        fetched = {x.buffer for x in found if isinstance(x, Prefetch)}
        written = {x.buffer for x in found if isinstance(x, Store)} & set(nest.buffers)
        # the result and the residual; a bias is in L1 anyway
        assert len(fetched & written) == 1
        assert [len(buffer.shape) for buffer in fetched] == [2, 2]


def test_results_without_epilogue_are_fetched_ahead() -> None:
    *_, nest = nests_of(lambda x, w: x @ w, *arrays((200, 40), (40, 150)))
    for region in nest.parallel:
        found = list(statements(region.body))
        fetched = [x for x in found if isinstance(x, Prefetch)]
        written = [x for x in found if isinstance(x, Store)]
        assert {x.buffer for x in fetched} == {x.buffer for x in written}
        # a cache line is one vector, or two of half the width; sums are too short to spread them
        assert 2 * len(fetched) >= len(written)


def test_gradients_of_layers() -> None:
    x, a, b, c = arrays((128, 100), (256, 100), (256,), (64, 256))

    def loss(a: mx.array, b: mx.array, c: mx.array, x: mx.array) -> mx.array:
        return nn.gelu(nn.relu(x @ a.T + b) @ c.T).sum()

    require_same(lambda *given: mx.grad(loss, argnums=(0, 1, 2))(*given), a, b, c, x)


def test_what_is_fused_into_products() -> None:
    x, w, b = arrays((64, 64), (64, 64), (64,))
    assert "product" in groups_of(lambda x, w, b: nn.relu(x @ w + b), x, w, b)
    # a view in another order, another reader, a product that is a result: in memory after all
    for function in (
        lambda x, w, b: (x @ w).T + b,
        lambda x, w, b: (lambda y: (y + b, y.sum()))(x @ w),
        lambda x, w, b: (lambda y: (y, y + b))(x @ w),
        lambda x, w, b: mx.softmax(x @ w, axis=-1),
    ):
        assert "product" not in groups_of(function, x, w, b)
        require_same(function, x, w, b)


def test_products_that_blas_computes_have_their_epilogues_beside_them() -> None:
    x, w, b = arrays((4, 8), (8, 8), (8,))
    text = str(mx.compile(lambda x, w, b: nn.relu(x @ w + b)).explain(x, w, b))
    assert "BLAS" in text
    require_same(lambda x, w, b: nn.relu(x @ w + b), x, w, b)
