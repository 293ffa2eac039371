"""Scratch memory that several products share: what they prepare alike is prepared once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.lower.products import shared_scratch
from ingot.compiler.lower.products.shared_scratch import with_shared_scratch

K, M, N = 300, 140, 130


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


X, Y, Z = numbers((K, M), 0), numbers((K, N), 1), numbers((K, N + 15), 2)


def kernels_of(function: Callable[..., Any], *arguments: np.ndarray) -> int:
    """The number of kernels of a function, whose results must agree with NumPy's."""
    arrays = [mx.array(each) for each in arguments]
    compiled = mx.compile(function)
    for found, wanted in zip(compiled(*arrays), function(*arguments), strict=True):
        np.testing.assert_allclose(np.array(found), wanted, rtol=1e-4, atol=1e-4)
    return len(compiled.explain(*arrays).stages.form("lower").kernels)


def same_left(x: Any, y: Any, z: Any) -> tuple[Any, Any]:
    return x.T @ y, x.T @ z


def test_products_of_one_left_operand_pack_it_once() -> None:
    alone = kernels_of(lambda x, y: (x.T @ y,), X, Y) + kernels_of(lambda x, z: (x.T @ z,), X, Z)
    assert kernels_of(same_left, X, Y, Z) == alone - 1


def test_computed_operands_are_shared_too() -> None:
    """Three products, one of them of an operand with another layout."""

    def function(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        doubled = x * 2
        return doubled.T @ y, doubled.T @ z, doubled.T @ (y - 1), y.T @ doubled

    def apart(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        return (x * 2).T @ y, (x * 3).T @ z, (x * 4).T @ (y - 1), y.T @ (x * 5)

    # one kernel computes all maps; two more pack
    assert kernels_of(function, X, Y, Z) == kernels_of(apart, X, Y, Z) - 2


def test_right_operands_are_shared() -> None:
    def function(x: Any, y: Any, w: Any) -> tuple[Any, ...]:
        return x @ w.T, y @ w.T

    rows, more, weights = numbers((80, 90), 3), numbers((60, 90), 4), numbers((100, 90), 5)
    assert kernels_of(function, rows, more, weights) == 3


def test_other_views_of_an_operand_are_packed_again() -> None:
    def function(x: Any, y: Any) -> tuple[Any, ...]:
        return x[:, :128].T @ y, x[:, 12:].T @ y

    both = kernels_of(function, X, Y)
    assert both == sum(
        kernels_of(each, X, Y)
        for each in (lambda x, y: (x[:, :128].T @ y,), lambda x, y: (x[:, 12:].T @ y,))
    )


def test_memory_is_not_held_for_products_far_away(monkeypatch: pytest.MonkeyPatch) -> None:
    near = kernels_of(same_left, X, Y, Z)
    monkeypatch.setattr(shared_scratch, "MAX_SHARED_DISTANCE", 0)
    mx.clear_cache()

    def far(x: Any, y: Any, z: Any) -> tuple[Any, Any]:
        return same_left(x, y, z)

    assert kernels_of(far, X, Y, Z) == near + 1


def test_unrolled_recurrences_keep_one_copy_of_their_weights() -> None:
    def function(x: Any, w: Any) -> tuple[Any]:
        for _ in range(5):
            x = x @ w.T * 0.5
        return (x,)

    rows, weights = numbers((80, 120), 6), numbers((120, 120), 7) / 10
    assert kernels_of(function, rows, weights) == 6
    arrays = mx.array(rows), mx.array(weights)
    compiled = mx.compile(function)
    for _ in range(4):
        mx.eval(compiled(*arrays))
    assert len(compiled.explain(*arrays).stages.plan.kept) == 1
    (found,) = compiled(arrays[0], arrays[1] * 2)
    np.testing.assert_allclose(
        np.array(found), function(rows, 2 * weights)[0], rtol=1e-4, atol=1e-4
    )


def test_loops_share_what_no_iteration_changes() -> None:
    def function(x: Any, w: Any) -> tuple[Any, Any]:
        def step(carry: Any, given: Any) -> tuple[Any, Any]:
            return carry @ w.T, given @ w.T

        return mx.scan(step, x[0], x)

    x, w = numbers((4, 40, 120), 8), numbers((120, 120), 9) / 10
    carry, found = mx.compile(function)(mx.array(x), mx.array(w))
    wanted = x[0]
    for _ in range(4):
        wanted = wanted @ w.T
    np.testing.assert_allclose(np.array(carry), wanted, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(found), x @ w.T, rtol=1e-4, atol=1e-4)


def test_memory_that_is_filled_again_after_it_was_read_is_not_shared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as context:
        context.setattr(shared_scratch, "MAX_SHARED_DISTANCE", -1)

        def apart(x: Any, y: Any, z: Any) -> tuple[Any, Any]:
            return same_left(x, y, z)

        stages = mx.compile(apart).explain(*map(mx.array, (X, Y, Z))).stages
    instructions = list(stages.form("lower").instructions)
    assert len(with_shared_scratch(instructions)) == len(instructions) - 1
    twice = [each for each in instructions for _ in range(2)]
    packs_and_products = [*instructions, *instructions]
    assert len(with_shared_scratch(twice)) == len(twice) - 2
    assert len(with_shared_scratch(packs_and_products)) == len(packs_and_products)
