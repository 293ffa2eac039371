"""Which groups become epilogues of products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse


def kinds(function: Any, *shapes: tuple[int, ...]) -> list[str]:
    arguments = [mx.array(np.ones(shape, np.float32)) for shape in shapes]
    groups = fuse(traced(function, *arguments).tape, Options()).groups
    return [group.kind for group in groups if group.kind not in ("view", "iota")]


def test_maps_that_alone_read_a_product_join_it() -> None:
    assert kinds(lambda x, w: mx.exp(x @ w) + 1, (64, 64), (64, 64)) == ["product"]


def test_the_last_of_two_products_takes_what_reads_both() -> None:
    found = kinds(lambda x, w, v: (x @ w) * (x @ v), (64, 64), (64, 64), (64, 64))
    assert found == ["single", "product"]


def test_small_products_stay_beside_what_follows() -> None:
    assert kinds(lambda x, w: mx.exp(x @ w), (8, 8), (8, 8)) == ["single", "fused"]


def test_reductions_are_no_epilogues() -> None:
    found = kinds(lambda x, w: mx.sum(x @ w, axis=-1), (64, 64), (64, 64))
    assert found == ["single", "fused"]


@pytest.mark.parametrize("transposed", [False, True])
def test_sums_of_many_products_are_computed_a_few_at_a_time(transposed: bool) -> None:
    """The gradient of a weight that every step of an unrolled loop uses."""

    def total(xs: Any, ys: Any) -> Any:
        found = mx.zeros((64, 64))
        for number in range(20):
            product = xs[number] @ ys[number]
            found = found + (product.T if transposed else product)
        return found

    random = np.random.default_rng(0)
    xs, ys = (random.standard_normal((20, 64, 64)).astype(np.float32) for _ in range(2))
    compiled = mx.compile(total)
    expected = (xs.astype(np.float64) @ ys).sum(0)
    found = np.array(compiled(mx.array(xs), mx.array(ys)))
    np.testing.assert_allclose(found, expected.T if transposed else expected, atol=1e-3)
    explained = compiled.explain(mx.array(xs), mx.array(ys))
    assert explained.arena < 10 * 64 * 64 * 4  # not twenty
    assert len({id(work.kernel.nest) for work in explained.work if work.kernel}) < 10
