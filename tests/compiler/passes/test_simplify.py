"""Simplification: what is merged, computed in advance, dropped, and what must not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options, SimplifyReport
from ingot.compiler.passes.simplify import simplify
from ingot.ops.elementwise.arithmetic import Add
from ingot.ops.shape.creation import Arange


def simplified_tape(tape: Tape) -> tuple[Tape, SimplifyReport]:
    options = Options()
    return simplify(tape, options), options.report


def simplified(function: Any, *args: Any) -> tuple[Tape, SimplifyReport]:
    tape, report = simplified_tape(traced(function, *args).tape)
    tape.verify()
    return tape, report


def ops(tape: Tape) -> list[str]:
    return [type(step.op).__name__ for step in tape.steps if step.op is not None]


X = mx.array([1.0, 2.0])


def test_equal_scalars_are_one() -> None:
    two = mx.array(2.0)
    tape, report = simplified(lambda x: [x * 2.0, x + mx.array(2.0), x - two], X)
    constants = [step for step in tape.steps if step.is_constant]
    assert len(constants) == 1
    assert len(report.merged) == 4  # two scalars, two broadcasts


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (0.0, -0.0),
        (1.0, 2.0),
        (mx.array([1.0]), mx.array(1.0)),
    ],
)
def test_different_scalars_stay_apart(first: Any, second: Any) -> None:
    tape, _ = simplified(lambda x: (x / first, x / second), X)
    constants = [step for step in tape.steps if step.is_constant]
    assert len(constants) == 2


def test_scalars_of_different_dtypes_stay_apart() -> None:
    dtypes = [mx.float32, mx.int32, mx.uint32, mx.float16, mx.bfloat16, mx.int16]
    scalars = [mx.array(0, dtype) for dtype in dtypes]  # of equal bits
    tape, _ = simplified(lambda x: scalars, X)
    assert [step.dtype for step in tape.outputs] == dtypes


def test_nan_is_one_scalar() -> None:
    tape, _ = simplified(lambda x: (x + float("nan"), x * mx.array(float("nan"))), X)
    assert len([step for step in tape.steps if step.is_constant]) == 1


def test_equivalent_steps_are_one_however_deep() -> None:
    def deep(x: Any) -> Any:
        for _ in range(50):
            x = mx.sin(x) * mx.cos(x)
        return x

    tape, report = simplified(lambda x: deep(x) + deep(x), X)
    assert len(ops(tape)) == 50 * 3 + 1
    assert len(report.merged) == 150
    total = tape.outputs[0]
    assert total.inputs[0] is total.inputs[1]


def test_outputs_may_be_merged() -> None:
    tape, _ = simplified(lambda x: (mx.exp(x), mx.exp(x), x), X)
    assert ops(tape) == ["Exp"]
    assert tape.outputs[0] is tape.outputs[1]
    assert tape.outputs[2] is tape.inputs[0]


def test_parameters_of_ops_matter() -> None:
    tape, _ = simplified(
        lambda x: (x.sum(0), x.sum(1), x.T, x.reshape(4), x.reshape(1, 4)), mx.ones((2, 2))
    )
    assert ops(tape).count("Sum") == 2
    tape, _ = simplified(lambda x: (x.astype(mx.int32), x.astype(mx.int16)), X)
    assert ops(tape) == ["AsType", "AsType"]


def test_the_sign_of_zero_and_the_type_of_parameters_matter() -> None:
    def arange(start: Any) -> Step:
        return Step(Arange(start, 1.0, 2, mx.float32), (), (2,), mx.float32)

    steps = [arange(0.0), arange(-0.0), arange(0), arange(0.0)]
    tape, _ = simplified_tape(Tape([], steps, steps))
    assert len(tape.steps) == 3
    assert tape.outputs[0] is tape.outputs[3]


def test_orders_of_operands_matter() -> None:
    tape, _ = simplified(lambda x, y: (x - y, y - x), X, mx.array([3.0, 4.0]))
    assert ops(tape) == ["Subtract", "Subtract"]


def test_streams_matter() -> None:
    other = mx.new_stream(mx.cpu)
    tape, _ = simplified(lambda x: (mx.exp(x), mx.exp(x, stream=other)), X)
    assert ops(tape) == ["Exp", "Exp"]


def test_inputs_are_never_merged() -> None:
    tape, _ = simplified(lambda x, y: mx.exp(x) + mx.exp(y), X, X * 1)
    assert len(tape.inputs) == 2
    assert ops(tape).count("Exp") == 2


def test_no_ops_are_replaced_by_their_inputs() -> None:
    def function(x: Any) -> Any:
        y = mx.stop_gradient(x).astype(mx.float32).reshape(2)[:]
        return mx.broadcast_to(mx.contiguous(y) if hasattr(mx, "contiguous") else y, (2,)) * 2

    tape, report = simplified(function, X)
    assert "StopGradient" not in ops(tape)
    assert report.no_ops
    tape, _ = simplified(mx.stop_gradient, X)
    assert tape.outputs[0] is tape.inputs[0]


def test_products_with_ones_are_their_other_operand() -> None:
    tape, report = simplified(lambda x: mx.ones((2,)) * x * 1, X)
    assert tape.outputs[0] is tape.inputs[0]
    assert len(report.no_ops) == 2
    whole = mx.array([3, 4])
    tape, _ = simplified(lambda x: x * 1.0, whole)  # of another dtype
    assert tape.outputs[0].dtype == mx.float32
    imaginary = mx.array([complex(0, np.inf)])
    assert ops(simplified(lambda x: x * 1, imaginary)[0])[-1] == "Multiply"
    assert ops(simplified(lambda x: x * 2, X)[0])[-1] == "Multiply"


def test_no_ops_between_equivalent_steps() -> None:
    tape, _ = simplified(lambda x: mx.exp(mx.stop_gradient(x)) + mx.exp(x), X)
    assert ops(tape) == ["Exp", "Add"]


def test_casts_are_kept() -> None:
    tape, _ = simplified(lambda x: x.astype(mx.float16).astype(mx.float32), X)
    assert ops(tape) == ["AsType", "AsType"]


def test_scalars_of_constants_are_computed_in_advance() -> None:
    tape, report = simplified(lambda x: x * mx.sqrt(mx.array(16.0) + 9.0), X)
    assert ops(tape) == ["Broadcast", "Multiply"]
    assert len(report.folded) == 2
    assert [step.value.item() for step in tape.steps if step.is_constant] == [5.0]
    tape, report = simplified(lambda x: x * mx.sqrt(mx.array(-1.0)), X)
    assert np.isnan(next(step.value for step in tape.steps if step.is_constant))
    # Math functions are left to kernels, so that constants and other numbers give the same bits.
    tape, report = simplified(lambda x: x * mx.log(mx.array(2.0)), X)
    assert report.folded == []


def test_large_constants_are_not_computed_in_advance() -> None:
    several = mx.array([1.0, 2.0])
    tape, report = simplified(lambda x: x + several * 3, X)
    assert not report.folded
    tape, report = simplified(lambda x: x + mx.arange(2), X)
    assert "Arange" in ops(tape)


def test_what_no_output_needs_is_dropped() -> None:
    x = Step(None, (), (2,), mx.float32)
    needed = Step(Add(), (x, x), (2,), mx.float32)
    unused = Step(Add(), (needed, needed), (2,), mx.float32)
    constant = Step(None, (), (), mx.float32, value=np.array(1.0, np.float32))
    tape, report = simplified_tape(Tape([x], [needed], [x, constant, needed, unused]))
    assert tape.steps == [x, needed]
    assert report.unused == [constant, unused]


def test_unused_inputs_stay_inputs() -> None:
    tape, _ = simplified(lambda x, unused: x + 1, X, X * 1)
    assert len(tape.inputs) == 2
    assert all(step in tape.steps for step in tape.inputs)


def test_several_outputs_are_merged_together() -> None:
    def function(x: Any) -> Any:
        first, second = mx.divmod(x, 3.0), mx.divmod(x, 3.0)
        return first[0] + second[0], first[1] + second[1]

    tape, _ = simplified(function, X)
    for total in tape.outputs:
        assert total.inputs[0] is total.inputs[1]


def test_simplifying_twice_changes_nothing() -> None:
    def function(x: Any) -> Any:
        y = mx.softmax(x) + mx.softmax(mx.stop_gradient(x))
        return y * 2.0, y * mx.array(2.0), mx.exp(mx.array(0.0)) * y

    tape, _ = simplified(function, X)
    again, report = simplified_tape(tape)
    assert again.text() == tape.text()
    assert not report.merged
    assert not report.no_ops
    assert not report.folded
    assert not report.unused


def test_maps_of_repeated_constants_are_constants() -> None:
    def function(x: mx.array) -> list[mx.array]:
        twos = mx.broadcast_to(mx.array(2.0), (2, 3))
        threes = mx.transpose(mx.full((3, 2), 3.0))
        return [x * -twos, x + (twos * threes + 1), (threes > twos).astype(mx.int32)]

    x = mx.ones((2, 3))
    tape, report = simplified(function, x)
    assert sorted(ops(tape)) == ["Add", "Broadcast", "Broadcast", "Broadcast", "Multiply"]
    constants = [float(step.value) for step in tape.steps if step.value is not None]
    assert sorted(constants) == [-2.0, 1.0, 7.0]
    assert {"Negative", "Multiply", "Add", "Greater", "AsType"} <= {
        type(step.op).__name__ for step in report.folded
    }
    compiled = mx.compile(function)
    for found, expected in zip(compiled(x), function(x), strict=True):
        np.testing.assert_array_equal(np.array(found), np.array(expected))
    assert compiled.explain(x).to_dict()["native"]["kernels"] == 1
