"""Symbolic tapes for one set of shapes: those of a trace that was made for these shapes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.passes.with_numbers import with_hints, with_numbers
from ingot.compiler.run.step_by_step import run_step_by_step
from ingot.compiler.trace.symbolic import symbolic_tape


def function(x: mx.array) -> mx.array:
    return mx.broadcast_to(x.sum(axis=0) / x.shape[0], x.shape) + x.reshape(-1)[: x.shape[1]]


@pytest.mark.parametrize("shape", [(3, 4), (7, 2), (5, 5)])
def test_numbers_take_the_stead_of_sizes(shape: tuple[int, int]) -> None:
    trace = traced(function, mx.zeros((6, 4)), shapeless=True)
    values = trace.guards.checked(((6, 4),))
    assert values is not None
    sizes, tape = symbolic_tape(trace.tape, trace.guards, values)
    assert any(is_symbolic(length) for step in tape.steps for length in step.shape)
    given = trace.guards.checked((shape,))
    assert given is not None
    found = with_numbers(tape, sizes, given)
    found.verify()
    assert found.outputs[0].shape == shape
    x = np.random.default_rng(0).uniform(size=shape).astype(np.float32)
    (result,) = run_step_by_step(found, [x], lambda *_: None)
    np.testing.assert_allclose(result, np.array(function(mx.array(x))), rtol=1e-6)


def test_other_hints_are_another_example() -> None:
    trace = traced(function, mx.zeros((6, 4)), shapeless=True)
    values = trace.guards.checked(((6, 4),))
    other = trace.guards.checked(((60, 40),))
    assert values is not None
    assert other is not None
    sizes, tape = symbolic_tape(trace.tape, trace.guards, values)
    _, moved = with_hints(tape, sizes, other)
    assert [getattr(n, "hint", n) for n in moved.inputs[0].shape] == [60, 40]
