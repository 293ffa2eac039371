"""Domains: axes that are joined, ordered and told apart, with the strides of operands."""

from __future__ import annotations

import numpy as np
from tests.compiler.compiled_calls import traced
from tests.compiler.lower.nests_of_calls import nests_of, numbers
from tests.compiler.lower.test_fused import group_of

import ingot.core as mx
from ingot.compiler.lower.domain import (
    depends_on_order,
    immediate_value,
    is_immediate,
    operands_of,
    reads_rows_again,
)
from ingot.compiler.options import Options
from ingot.compiler.passes.expand import expand
from ingot.compiler.passes.fuse import fuse
from ingot.graph.roles import Gather
from ingot.graph.shape import contiguous


def test_adjacent_axes_are_joined() -> None:
    group, strides = group_of(lambda x, y: x * y, numbers(4, 5, 6), numbers(4, 5, 6))
    domain, operands = operands_of(group, strides)
    assert domain.lengths == (120,)
    assert [operand.strides for operand in operands.reads] == [(4,), (4,)]


def test_strides_of_repeated_operands_are_zero() -> None:
    group, strides = group_of(lambda x: x.sum(axis=1, keepdims=True) * x, numbers(4, 5))
    domain, _ = operands_of(group, strides)
    assert domain.lengths == (4, 5)
    assert domain.reduced == (1,)
    assert domain.kept == (0,)
    assert domain.size(domain.reduced) == 5


def test_rows_that_are_read_again() -> None:
    again, _ = group_of(lambda x: x / x.sum(axis=1, keepdims=True), numbers(4, 5))
    once, _ = group_of(lambda x: x.sum(axis=1), numbers(4, 5))
    assert reads_rows_again(again)
    assert not reads_rows_again(once)


def test_whether_the_order_shows() -> None:
    sums, _ = group_of(lambda x: x.sum(axis=1), numbers(4, 5))
    maxima, _ = group_of(lambda x: x.max(axis=1), numbers(4, 5))
    assert depends_on_order(sums)
    assert not depends_on_order(maxima)


def test_constants_of_one_element_are_immediate() -> None:
    group, _ = group_of(lambda x: x * 2 + 1, numbers(4, 5))
    steps = {source for step in group.steps for source in step.inputs}
    values = [immediate_value(step) for step in steps if is_immediate(step)]
    assert sorted(np.ravel(value)[0] for value in values if value is not None) == [1.0, 2.0]


def test_backward_axes_go_forward_in_memory() -> None:
    (nest,) = nests_of(lambda x: x[::-1].max(), numbers(3000))
    assert all(stride > 0 for buffer in nest.buffers for stride in buffer.strides)  # type: ignore[operator]


def test_gathered_rows_are_traversed_along_the_rows() -> None:
    """Indices jump from row to row: the axis along which they vary is the outer one, even where
    the only other operand that varies along the rows is the output.
    """
    index = mx.zeros((6, 20), dtype=mx.int32)
    tape = expand(traced(lambda x, i: x[i].max(axis=1), numbers(50, 32), index).tape, Options())
    (group,) = [each for each in fuse(tape, Options()).groups if each.reduced == (1,)]
    strides = {step: contiguous(step.shape, step.dtype.size) for step in tape.steps}
    (gather,) = [step for step in group.steps if isinstance(step.op, Gather)]
    strides[gather.inputs[1]] = (80, 4, 0)
    domain, _ = operands_of(group, strides)
    assert domain.lengths == (6, 20, 32)
    assert domain.reduced == (1,)
