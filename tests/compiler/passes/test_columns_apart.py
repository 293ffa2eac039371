"""Which reductions along columns are groups of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.schedule import Group
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse

SHAPE = (128, 96)


def groups_of(
    function: Any, dtype: Any = mx.float32, shape: tuple[int, ...] = SHAPE
) -> list[Group]:
    schedule = fuse(traced(function, mx.ones(shape, dtype), mx.ones(shape, dtype)).tape, Options())
    schedule.verify()
    return [group for group in schedule.groups if group.kind in ("fused", "product")]


def with_sums(x: Any, y: Any) -> Any:
    product = x * y
    return product, mx.sum(product, axis=0)


def with_wide_sums(x: Any, y: Any) -> Any:
    product = x * y
    return product, mx.sum(product.astype(mx.float32), axis=0)


def behind_a_product(x: Any, y: Any) -> Any:
    product = (x @ y.T) * 2
    return product, mx.sum(product, axis=0)


def test_sums_of_what_is_written_are_apart() -> None:
    maps, sums = groups_of(with_sums)
    assert maps.reduced is None
    assert sums.inputs == maps.outputs[:1]
    assert sums.reduced == (0,)


def test_upcasts_stay_with_the_sums_that_read_them() -> None:
    maps, sums = groups_of(with_wide_sums, mx.bfloat16, (256, 96))
    assert [step.dtype for step in sums.inputs] == [mx.bfloat16]
    assert len(maps.steps) == 1


def test_the_maps_may_be_an_epilogue() -> None:
    assert [group.kind for group in groups_of(behind_a_product)] == ["product", "fused"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: mx.sum(x * y, axis=0),
        lambda x, y: (x * y, mx.sum(x * y, axis=1)),
        lambda x, y: (x * y, mx.sum(x * y)),
        lambda x, y: (x * y, mx.sum(x + y, axis=0)),
    ],
    ids=["not written", "rows", "all", "another value"],
)
def test_others_stay_together(function: Any) -> None:
    assert len(groups_of(function)) == 1


def test_small_values_stay_together() -> None:
    assert len(groups_of(with_sums, shape=(64, 64))) == 1


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("function", [with_sums, with_wide_sums, behind_a_product])
def test_values(function: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    given = [mx.array(random.standard_normal(SHAPE)).astype(getattr(mx, dtype)) for _ in range(2)]
    x, y = (np.array(each.astype(mx.float64)) for each in given)
    product = 2 * x @ y.T if function is behind_a_product else x * y
    found = mx.compile(function)(*given)
    unit = 2.0**-8 if dtype == "bfloat16" else 1e-6
    for one, other in zip(found, (product, product.sum(0)), strict=True):
        away = np.abs(np.array(one.astype(mx.float64)) - other).max()
        assert away <= 4 * unit * np.abs(other).max()
