"""Which groups become epilogues of products."""

from __future__ import annotations

from typing import Any

import numpy as np
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
