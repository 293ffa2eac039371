"""Lowering: which instructions groups become, and where values are before they have addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.nests import CallHost, Nests, RunKernel
from ingot.compiler.lower.materialise import Materialise

X = mx.array(np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32))


def nests_of(function: Any, *args: Any) -> Nests:
    found: Nests = mx.compile(function).explain(*args).stages.nests
    return found


@pytest.mark.parametrize(
    ("function", "kinds"),
    [
        (lambda x: mx.exp(x) + 1, ["kernel"]),
        (lambda x: x.T[::2], []),
        (lambda x: x @ x, ["BLAS"]),
        (lambda x: mx.sort(x, axis=0), ["host"]),
        (lambda x: mx.concatenate([x, x], axis=1), ["kernel", "kernel"]),
        (lambda x: x.T.reshape(-1), ["kernel"]),
        (lambda x: mx.take(x, mx.array([1, 2]).astype(mx.int32), axis=0), ["kernel"]),
    ],
    ids=["map", "views", "product", "host", "joined", "a view that needs a copy", "taken"],
)
def test_what_groups_become(function: Any, kinds: list[str]) -> None:
    found = [each.kind for each in nests_of(function, X).instructions]
    assert found[-len(kinds) :] == kinds  # of no kinds: there is nothing to do


def test_views_are_locations_in_the_memory_of_what_they_show() -> None:
    nests = nests_of(lambda x: (x.T[::2], x[:, 1:]), X)
    first, second = nests.outputs
    assert first.block is second.block is nests.inputs[0]
    expected = np.array(X).T[::2].strides, np.array(X)[:, 1:].strides
    assert (first.strides, second.strides) == expected
    assert (first.offset, second.offset) == (0, 4)


def test_a_copy_serves_all_views_that_need_it() -> None:
    nests = nests_of(lambda x: (x.T.reshape(-1), x.T.reshape(16, 4)), X)
    assert len(nests.kernels) == 1
    first, second = nests.outputs
    assert first.block is second.block


@pytest.mark.parametrize(
    ("function", "count"),
    [
        (lambda x, y: x + y, 2),
        (lambda x, y: x.T + y, 1),  # read in another order than it is written
        (lambda x, y: x + x.T + y, 1),  # read twice
        (lambda x, y: x[:4] + y[4:], 0),  # parts of what is in memory
        (lambda x, y: (x + y).sum(axis=0), 0),
    ],
    ids=["maps", "transposed", "twice", "parts", "reduced"],
)
def test_which_operands_may_be_replaced(function: Any, count: int) -> None:
    (kernel,) = nests_of(function, X, X + 1).instructions
    assert isinstance(kernel, RunKernel)
    assert len(kernel.replaceable) == count


def test_loops_take_contiguous_operands_and_branches_any() -> None:
    def loop(x: mx.array) -> Any:
        return mx.scan(lambda carry, row: (carry + row, carry * row), x[0], x.T)

    def branch(x: mx.array) -> Any:
        return mx.cond(x[0, 0] > 0, lambda y: mx.sort(y), lambda y: y + 1, x.T)

    for function, copies in ((loop, 1), (branch, 0)):
        nests = nests_of(function, X)
        (host,) = [each for each in nests.instructions if isinstance(each, CallHost)]
        strided = [each for each in host.sources if each.strides == (4, 32)]
        runs = [each for each in nests.instructions if isinstance(each, RunKernel)]
        copied = [step for each in runs for step in each.steps if _is_copy(step)]
        assert (len(strided), len(copied)) == (1 - copies, copies)


def _is_copy(step: Any) -> bool:
    return isinstance(step.op, Materialise)
