"""Descriptions of tapes: equal for what compiles to the same program, different for all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.compiler.test_pipeline import FUNCTIONS, tape_of_call
from tests.support.processes import output_of

import ingot.core as mx
import ingot.nn as nn
from ingot.compiler.forms.description import MAX_CONSTANT_BYTES, description
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.pipeline import run_pipeline
from ingot.runtime.compile_mode import CompileMode

X = mx.array(np.arange(12, dtype=np.float32).reshape(3, 4))


def described(function: Callable[..., Any], *args: Any) -> bytes | None:
    return description(tape_of_call(function, args))


def test_names_and_lines_do_not_matter() -> None:
    def one(x: mx.array) -> mx.array:
        return mx.exp(x) + 1

    def other(y: mx.array) -> mx.array:
        found = mx.exp(y)
        return found + 1

    assert described(one, X) == described(other, X) is not None


NEW_PROCESS = """
import hashlib
from tests.compiler.forms.test_description import described
from tests.compiler.test_pipeline import FUNCTIONS
for function, args in FUNCTIONS.items():
    print(hashlib.sha256(described(function, *args)).hexdigest())
"""


def test_other_processes_have_the_same() -> None:
    done = [output_of(NEW_PROCESS) for _ in range(2)]
    assert done[0] == done[1]
    assert len(set(done[0].split())) == len(FUNCTIONS)


DIFFERENT: list[Callable[..., Any]] = [
    lambda x, y: x + y,
    lambda x, y: y + x,
    lambda x, y: x - y,
    lambda x, y: (x, x + y),
    lambda x, y: (x + y, x),
    lambda x, y: x + 0.0 * y,
    lambda x, y: x + -0.0 * y,
    lambda x, y: x + 1.0 * y,
    lambda x, y: x + mx.array([1, 2, 3, 4]) * y,
    lambda x, y: x + mx.array([1, 2, 3, 5]) * y,
    lambda x, y: x + mx.array([1.0, 2, 3, 4]) * y,
    lambda x, y: x.sum(axis=0) + y,
    lambda x, y: x.sum(axis=0, keepdims=True) + y,
    lambda x, y: mx.softmax(x, axis=-1, precise=True) + y,
    lambda x, y: x.astype(mx.float16) + y,
    lambda x, y: x.astype(mx.bfloat16) + y,
    lambda x, y: x[1:] + y[1:],
    lambda x, y: x[:2] + y[:2],
]


def test_what_differs_has_another() -> None:
    found = [described(function, X, X) for function in DIFFERENT]
    assert None not in found
    assert len(set(found)) == len(DIFFERENT)


def test_shapes_dtypes_and_the_sharing_of_inputs_count() -> None:
    args = [(X, X), (X[:2], X[:2]), (X.astype(mx.float16), X), (X, X.astype(mx.float16))]
    assert len({described(lambda x, y: x * y, *each) for each in args}) == 4
    assert described(lambda x, y: x * x, X, X) != described(lambda x, y: x * y, X, X)


def test_streams_count_by_where_they_change() -> None:
    """Equal steps on two streams are not merged."""
    streams = mx.new_stream(mx.cpu), mx.new_stream(mx.cpu)

    def on(one: Any, other: Any) -> bytes | None:
        return described(lambda x: mx.exp(x, stream=one) + mx.exp(x, stream=other), X)

    one, other = streams
    assert on(one, other) == on(other, one) != on(one, one)


def test_large_constants_have_none() -> None:
    for length, has_one in ((MAX_CONSTANT_BYTES // 4, True), (MAX_CONSTANT_BYTES // 4 + 1, False)):
        constant = mx.array(np.ones(length, np.float32))
        found = described(lambda x, constant=constant: x.sum() + constant, X)
        assert (found is not None) is has_one


def test_what_only_this_process_knows_has_none() -> None:
    """Loops hold the programs of their bodies."""

    def loop(x: mx.array) -> Any:
        return mx.while_loop(lambda x: x.sum() < 100, lambda x: x + 1, x)

    assert described(loop, X) is None


def test_what_is_computed_from_fields_does_not_matter() -> None:
    """Slices keep the shape of what they select; windows of pooling have names."""
    images = mx.zeros((1, 8, 8, 2))

    def pooled(x: mx.array) -> mx.array:
        return nn.MaxPool2d(2, 2)(x[:, 1:7])

    tape = tape_of_call(pooled, (images,))
    before = description(tape)
    assert before is not None
    run_pipeline(tape, CompileMode.enabled)
    assert description(tape) == before
    assert described(lambda x: nn.MaxPool2d(3, 3)(x[:, 1:7]), images) not in (None, before)


def test_other_attributes_have_none() -> None:
    tape = tape_of_call(lambda x: mx.exp(x), (X,))
    assert description(tape) is not None
    object.__setattr__(tape.steps[-1].op, "hidden", 1)
    try:
        assert description(tape) is None
    finally:
        object.__delattr__(tape.steps[-1].op, "hidden")


def test_ops_of_others_have_none() -> None:
    tape = tape_of_call(lambda x: mx.exp(x), (X,))
    (source,) = tape.inputs
    step = tape.steps[-1]
    assert description(tape) is not None
    foreign = type("Foreign", (type(step.op),), {"__module__": "elsewhere"})
    changed = Step(foreign(), (source,), step.shape, step.dtype)
    assert description(Tape([source], [changed], [source, changed])) is None
