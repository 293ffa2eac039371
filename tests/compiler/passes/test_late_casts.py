"""Upcasts are made where they are read: what is in memory between kernels is the smaller value."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.compiler.compiled_calls import traced

import ingot.core as mx
import ingot.nn as nn
from ingot.compiler.forms.tape import Step
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse
from ingot.compiler.passes.late_casts import late_casts
from ingot.compiler.passes.simplify import simplify
from ingot.utils import tree_flatten


def normal(*shape: int) -> mx.array:
    return mx.array(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32))


def written_between(function: Any, *args: Any) -> list[Step]:
    """What kernels leave in memory for other steps."""
    tape = late_casts(simplify(traced(function, *args).tape, Options()), Options())
    tape.verify()
    schedule = fuse(tape, Options())
    schedule.verify()
    fused = [group for group in schedule.groups if group.kind in ("fused", "product")]
    return [step for group in fused for step in group.outputs if step not in tape.outputs]


def widths(steps: list[Step], op: str) -> list[int]:
    return [step.dtype.size for step in steps if type(step.op).__name__ == op]


def check_equal(function: Any, *args: Any) -> None:
    found, expected = tree_flatten(mx.compile(function)(*args)), tree_flatten(function(*args))
    for (_, one), (_, other) in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), 1e-5, 1e-4)


def test_the_mask_of_a_relu_is_a_byte_an_element() -> None:
    def loss(first: mx.array, second: mx.array, x: mx.array) -> mx.array:
        return mx.sum(mx.square(nn.relu(x @ first) @ second))

    gradient = mx.grad(loss, argnums=(0, 1))
    args = normal(20, 30), normal(30, 5), normal(40, 20)
    steps = written_between(gradient, *args)
    assert widths(steps, "Greater") == [1]
    assert widths(steps, "AsType") == []
    check_equal(gradient, *args)
    kernels = [work for work in mx.compile(gradient).explain(*args).work if work.kind == "kernel"]
    assert kernels[0].nbytes == 40 * 30 * (4 + 4 + 1)  # product in, maximum and mask out
    assert kernels[-1].nbytes == 40 * 30 * (4 + 1 + 4)  # cotangent and mask in, product out


def test_every_kernel_casts_a_mask_itself() -> None:
    def dropped(x: mx.array, w: mx.array, noise: mx.array) -> mx.array:
        mask = noise > 0.5
        return mx.sum(mx.square(mx.tanh((x @ w) * mask) @ w))

    gradient = mx.value_and_grad(dropped, argnums=(0, 1))
    args = normal(40, 40), normal(40, 40), normal(40, 40)
    steps = written_between(gradient, *args)
    assert widths(steps, "AsType") == []
    assert widths(steps, "Greater") == [1]
    check_equal(gradient, *args)


def test_half_values_stay_narrow_between_kernels() -> None:
    def function(x: mx.array, w: mx.array) -> tuple[mx.array, mx.array]:
        half = (x * 2).astype(mx.float16)
        wide = half.astype(mx.float32)
        return wide @ w, wide * mx.sum(mx.cos(wide), axis=0)

    args = normal(30, 30), normal(30, 30)
    steps = written_between(function, *args)
    assert 4 in widths(steps, "AsType")  # the product of matrices takes it from memory

    def without_product(x: mx.array) -> mx.array:
        wide = (x * 2).astype(mx.float16).astype(mx.float32)
        return wide * mx.sum(mx.cos(wide), axis=0)

    steps = written_between(without_product, args[0])
    assert widths(steps, "AsType") == [2]
    check_equal(function, *args)
    check_equal(without_product, args[0])


def test_chains_repeated_inputs_and_results_that_are_casts() -> None:
    def function(x: mx.array) -> tuple[mx.array, ...]:
        mask = x > 0
        number = mask.astype(mx.int32).astype(mx.float32)
        total = mx.sum(x, axis=0)
        shown = (x < 1).astype(mx.float32)
        one = mx.sum((x > 1).astype(mx.float32).reshape((1, 40, 30)), axis=0)
        return number * number + total, number - total, shown, shown * total, one

    x = normal(40, 30)
    assert widths(written_between(function, x), "AsType") in ([], [4])
    check_equal(function, x)


def test_casts_of_rows() -> None:
    def function(x: mx.array) -> mx.array:
        largest = mx.max(x, axis=1, keepdims=True)
        return mx.softmax(x, axis=1) * (largest > 1).astype(mx.float32)

    check_equal(function, normal(64, 50))


def test_a_tape_without_upcasts_stays_itself() -> None:
    tape = simplify(traced(lambda x: mx.exp(x) + 1, normal(5)).tape, Options())
    assert late_casts(tape, Options()) is tape
