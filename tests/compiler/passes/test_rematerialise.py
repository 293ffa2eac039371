"""Which values groups compute instead of reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.schedule import Group
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse

SIDE = 96  # of matrices that are larger than MIN_REMATERIALISED_BYTES


def groups_of(function: Callable[..., Any], side: int = SIDE) -> list[Group]:
    arguments = [mx.array(np.ones((side, side), np.float32)) for _ in range(2)]
    schedule = fuse(traced(function, *arguments).tape, Options())
    schedule.tape.verify()
    schedule.verify()
    return [each for each in schedule.groups if each.kind in ("fused", "product")]


def ops_of(group: Group) -> list[str]:
    return [type(step.op).__name__ for step in group.steps]


def factor_of_a_product(x: Any, w: Any) -> Any:
    y = x + 1
    return (y @ w) * (y * y * 0.5)


def test_arithmetic_of_a_value_in_memory_is_repeated() -> None:
    first, second = groups_of(factor_of_a_product)
    assert (ops_of(first), len(first.outputs)) == (["Add"], 1)
    assert ops_of(second).count("Multiply") == 3


def test_small_values_stay_where_they_are() -> None:
    first, _ = groups_of(factor_of_a_product, side=60)
    assert len(first.outputs) == 2


def moved(x: Any, w: Any) -> Any:
    y = x + 1
    return (y @ w) * mx.exp(-y)


def test_math_functions_move_to_their_only_reader() -> None:
    first, second = groups_of(moved)
    assert ops_of(first) == ["Add"]
    assert "Exp" in ops_of(second)


def read_twice(x: Any, w: Any) -> Any:
    power = mx.exp(x)
    return ((power + 1) @ w) * power


def read_by_two(x: Any, w: Any) -> Any:
    y = x + 1
    power = mx.exp(y)
    product = (y @ w) * power
    return (product @ w) * power


@pytest.mark.parametrize("function", [read_twice, read_by_two])
def test_math_functions_are_computed_once(function: Any) -> None:
    groups = groups_of(function)
    assert sum(ops_of(group).count("Exp") for group in groups) == 1


def rows_again(x: Any, w: Any) -> Any:
    top = mx.max(x, axis=-1, keepdims=True)
    return ((x - top) @ w) * top


def test_rows_are_written_instead_of_their_broadcasts() -> None:
    first, _ = groups_of(rows_again)
    assert sorted(step.nbytes for step in first.outputs) == [4 * SIDE, 4 * SIDE * SIDE]


def normalised(x: Any, w: Any) -> Any:
    y = x * 3
    away = y - mx.mean(y, axis=-1, keepdims=True)
    parts = away * mx.rsqrt(mx.mean(away * away, axis=-1, keepdims=True))
    return y + (parts @ w) * parts, mx.sum((parts @ w) * away, axis=0)


def test_normalised_rows_are_computed_from_the_rows_and_their_statistics() -> None:
    first, *_ = groups_of(normalised)
    whole = [step for step in first.outputs if step.nbytes == 4 * SIDE * SIDE]
    assert len(whole) == 1  # the operand of the products: the rest follows from the input


def behind_a_product(x: Any, w: Any) -> Any:
    y = x @ w + 1
    return (y @ w) * y


def test_what_a_product_becomes_stays_its_only_reader() -> None:
    assert [group.kind for group in groups_of(behind_a_product)] == ["product", "product"]


def also_returned(x: Any, w: Any) -> Any:
    y = x + 1
    square = y * y
    return (y @ w) * square, square


def test_outputs_are_written_by_the_group_that_has_their_inputs() -> None:
    first, _ = groups_of(also_returned)
    assert len(first.outputs) == 2


FUNCTIONS = (factor_of_a_product, moved, read_by_two, rows_again, normalised, also_returned)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_results_are_those_without_fusion(function: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    x, w = (
        mx.array(random.standard_normal((SIDE, SIDE)) / 5).astype(getattr(mx, dtype))
        for _ in range(2)
    )
    found = mx.compile(function)(x, w)
    with_float64 = function(x.astype(mx.float64), w.astype(mx.float64))
    pairs = zip(found, with_float64, strict=True) if isinstance(found, tuple) else ()
    tolerance = 1e-4 if dtype == "float32" else 0.1
    for one, other in pairs or [(found, with_float64)]:
        wanted = np.array(other)
        np.testing.assert_allclose(
            np.array(one.astype(mx.float64)), wanted, atol=tolerance * np.abs(wanted).max()
        )
