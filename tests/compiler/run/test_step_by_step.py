"""Tapes run op by op: the values of NumPy's rules, and a look at each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
from ingot.compiler.run.step_by_step import run_step_by_step

X = np.array([1.0, 4.0], np.float32)


def test_every_op_is_looked_at_in_order() -> None:
    seen: list[tuple[str, Any]] = []

    def check(op: Any, line: Any, inputs: Any, results: Any) -> None:
        seen.append((type(op).__name__, results))

    tape = traced(lambda x: mx.sqrt(x) * 2, mx.array(X)).tape
    (found,) = run_step_by_step(tape, [X], check)
    np.testing.assert_array_equal(found, [2.0, 4.0])
    assert [name for name, _ in seen if name != "Broadcast"] == ["Sqrt", "Multiply"]


def test_a_check_may_end_it() -> None:
    def refuse(*_: Any) -> None:
        raise ArithmeticError("enough")

    tape = traced(mx.sqrt, mx.array(X)).tape
    with pytest.raises(ArithmeticError, match="enough"):
        run_step_by_step(tape, [X], refuse)


def test_several_outputs() -> None:
    tape = traced(lambda x: mx.divmod(x, 3), mx.array(X)).tape
    quotient, rest = run_step_by_step(tape, [X], lambda *_: None)
    np.testing.assert_array_equal(quotient, [0.0, 1.0])
    np.testing.assert_array_equal(rest, [1.0, 1.0])
