"""Which loop nest a group becomes."""

from __future__ import annotations

from tests.compiler.compiled_calls import traced
from tests.compiler.lower.nests_of_calls import nests_of, numbers

import ingot.core as mx
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.fused import lower_group, read_across
from ingot.compiler.options import Options
from ingot.compiler.passes.fuse import fuse
from ingot.graph.shape import contiguous


def group_of(function: object, *args: mx.array) -> tuple[Group, dict[Step, tuple[int, ...]]]:
    """The fused group of a function, and strides for everything contiguous."""
    schedule = fuse(traced(function, *args).tape, Options())
    strides = {step: contiguous(step.shape, step.dtype.size) for step in schedule.tape.steps}
    (group,) = [each for each in schedule.groups if each.kind == "fused"]
    return group, strides


def test_maps_rows_and_columns_are_one_kernel_each() -> None:
    for function in (mx.exp, lambda x: x.sum(axis=1), lambda x: x.sum(axis=0)):
        assert len(lower_group(*group_of(function, numbers(40, 50))).kernels) == 1


def test_long_reductions_are_two_kernels_with_scratch_memory() -> None:
    lowered = lower_group(*group_of(lambda x: x.sum(), numbers(64, 1 << 14)))
    assert len(lowered.kernels) == 2
    assert lowered.scratch > 0
    assert None in lowered.kernels[0].operands


def test_operands_that_cross_are_copied_first() -> None:
    group, strides = group_of(lambda x: x.sum(axis=1), numbers(600, 600))
    assert read_across(group, strides) == []
    (source,) = group.inputs
    strides[source] = (4, 2400)
    assert read_across(group, strides) in ([], [source])
    maps, others = group_of(mx.exp, numbers(4, 4))
    assert read_across(maps, others) == []


def test_transposed_rows_end_up_in_one_order() -> None:
    nests_of(lambda x: mx.softmax(x.T, axis=-1), numbers(300, 40))
