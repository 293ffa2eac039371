"""Traces for all shapes as tapes of symbolic sizes."""

from __future__ import annotations

from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import LengthStep, Tape
from ingot.compiler.trace.symbolic import symbolic_tape


def tape_of(function: object, *shape: int) -> Tape:
    trace = traced(function, mx.zeros(shape), shapeless=True)
    values = trace.guards.checked((shape,))
    assert values is not None
    return symbolic_tape(trace.tape, trace.guards, values)[1]


def test_lengths_are_sizes_with_the_shapes_as_hints() -> None:
    tape = tape_of(mx.exp, 6, 4)
    (x,) = tape.inputs
    assert all(map(is_symbolic, x.shape))
    assert [length.hint for length in x.shape] == [6, 4]
    assert [a.key for a in tape.outputs[0].shape] == [a.key for a in x.shape]


def test_lengths_of_one_are_numbers() -> None:
    (x,) = tape_of(mx.exp, 1, 4).inputs
    assert x.shape[0] == 1
    assert type(x.shape[0]) is int
    assert is_symbolic(x.shape[1])


def test_axes_that_must_be_equal_are_one_size() -> None:
    trace = traced(lambda x, y: x + y, mx.zeros((6, 4)), mx.zeros((6, 4)), shapeless=True)
    values = trace.guards.checked(((6, 4), (6, 4)))
    assert values is not None
    x, y = symbolic_tape(trace.tape, trace.guards, values)[1].inputs
    assert [a.key for a in x.shape] == [b.key for b in y.shape]


def test_lengths_beside_arrays_are_steps() -> None:
    tape = tape_of(lambda x: x / x.shape[0], 6, 4)
    assert any(isinstance(step, LengthStep) for step in tape.steps)


def test_arithmetic_of_lengths_stays_symbolic() -> None:
    tape = tape_of(lambda x: x.reshape(-1), 6, 4)
    (length,) = tape.outputs[0].shape
    assert is_symbolic(length)
    assert length.hint == 24
