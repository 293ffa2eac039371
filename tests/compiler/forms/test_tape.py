"""The tape: order, users, text, sizes, and a verifier that notices mistakes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot._native import topological
from ingot.compiler.forms.tape import Step, Tape, tape_of
from ingot.graph.op import parameters
from ingot.graph.reporting.source import Source
from ingot.ops.elementwise.arithmetic import Add, Multiply
from ingot.ops.internal.adjoints import Reshape


def tape_of_call(function: Any, *args: Any) -> Tape:
    return traced(function, *args).tape


def test_inputs_come_first_and_each_step_follows_its_inputs() -> None:
    tape = tape_of_call(
        lambda x, unused, y: mx.exp(x + y) * (x + y), *map(mx.array, (1.0, 2.0, 3.0))
    )
    tape.verify()
    assert tape.steps[:3] == tape.inputs
    assert [type(step.op).__name__ for step in tape.steps[3:]] == ["Add", "Exp", "Add", "Multiply"]
    assert tape.outputs == [tape.steps[-1]]


def test_the_order_is_that_of_a_depth_first_search_without_recursion() -> None:
    def function(x: Any) -> Any:
        for _ in range(20_000):
            x = x + 1
        return x

    tape = tape_of_call(function, mx.array(1.0))
    assert len(tape.steps) == 20_002
    assert tape.steps[-1] is tape.outputs[0]


def test_users() -> None:
    tape = tape_of_call(lambda x: (x * x) + mx.exp(x), mx.array(1.0))
    x = tape.inputs[0]
    users = tape.users
    assert [type(user.op).__name__ for user in users[x]] == ["Multiply", "Multiply", "Exp"]
    assert users[tape.outputs[0]] == []


def test_several_outputs_share_one_step() -> None:
    tape = tape_of_call(lambda x: mx.divmod(x, 3.0), mx.array([1.0, 5.0]))
    text = tape.text()
    assert len(tape.outputs) == 2
    tape.verify()
    if "Output" in text:
        assert text.count("index=") == 2


def test_the_text() -> None:
    closed_over = mx.array([1.0, 2.0])
    tape = tape_of_call(
        lambda x: ((x + closed_over) * 2).reshape(1, 2).astype(mx.float16), mx.zeros(2)
    )
    assert tape.text() == "\n".join(
        [
            "%0 = input argument 0 : float32[2]",
            "%1 = constant of 2 elements : float32[2]",
            "%2 = Add(%0, %1) : float32[2]",
            "%3 = constant 2.0 : float32[]",
            "%4 = Broadcast(%3, shape=(2,)) : float32[2]",
            "%5 = Multiply(%2, %4) : float32[2]",
            "%6 = Reshape(%5, shape=(1, 2)) : float32[1, 2]",
            "%7 = AsType(%6, dtype=float16) : float16[1, 2]",
            "return %7",
        ]
    )


def test_sizes_in_bytes() -> None:
    tape = tape_of_call(lambda x: mx.divmod(x, 3), mx.zeros((2, 3), mx.int16))
    assert tape.inputs[0].nbytes == 12
    assert tape.inputs[0].ndim == 2
    whole = [step for step in tape.steps if step.op is not None and step.op.several_outputs]
    assert all(step.nbytes == 24 for step in whole)


def test_parameters_of_ops() -> None:
    assert parameters(Reshape((1, 2))) == {"shape": (1, 2)}
    assert parameters(Add()) == {}


def test_sources_have_a_short_form() -> None:
    source = Source("/some/folder/file.py", 12, "function")
    assert str(source) == "/some/folder/file.py:12 in function"
    assert source.short == "file.py:12"
    assert Source(r"C:\some\file.py", 3, "f").short == "file.py:3"


def _small() -> tuple[Step, Step, Step]:
    x = Step(None, (), (2,), mx.float32)
    total = Step(Add(), (x, x), (2,), mx.float32)
    product = Step(Multiply(), (total, x), (2,), mx.float32)
    return x, total, product


def test_the_verifier() -> None:
    x, total, product = _small()
    Tape([x], [product], [x, total, product]).verify()
    with pytest.raises(AssertionError, match="precedes its input"):
        Tape([x], [product], [x, product, total]).verify()
    with pytest.raises(AssertionError, match="twice"):
        Tape([x], [product], [x, total, product, total]).verify()
    with pytest.raises(AssertionError, match="not on the tape"):
        Tape([x], [product], [x, total]).verify()
    wrong = Step(Add(), (x, x), (3,), mx.float32)
    with pytest.raises(AssertionError, match="infers"):
        Tape([x], [wrong], [x, wrong]).verify()


def test_steps_over_other_inputs() -> None:
    x, total, product = _small()
    assert product.with_inputs([total, x]) is product
    other = product.with_inputs([x, x])
    assert other.inputs == (x, x)
    assert other.op == product.op
    assert x.is_input
    assert not total.is_input
    assert Step(None, (), (), mx.float32, value=np.array(1.0)).is_constant


def test_a_tape_of_nodes() -> None:
    x = mx.array([1.0])
    y = x * 2  # made outside a trace: a constant
    tape = tape_of([], [y], topological([y]))
    assert tape.text() == "%0 = constant of 1 elements : float32[1]\nreturn %0"
    assert tape.steps[0].value is not None
