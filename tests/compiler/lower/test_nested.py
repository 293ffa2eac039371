"""Loops and branches as instructions: what they are made of, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import ingot.core as mx
from ingot._native import NativeProgram, NestedProgram
from ingot.compiler.forms.nests import RunNested
from ingot.transforms.control.programs import program_of


def executable(body: Any, *inits: mx.array) -> Any:
    """The program of the body of a loop of three steps."""
    end = mx.scan(lambda c, _: (body(*c), None), inits, length=3)[0]
    op: Any = end[0]._node.inputs[0].op
    return program_of(op.body, op.carries).executable


def test_the_plan_has_memory_for_all_of_it() -> None:
    def body(x: mx.array) -> Any:
        return (mx.fori_loop(0, 4, lambda i, v: mx.sin(v[::-1]), x) + 1,)

    made = executable(body, mx.zeros(1000))
    (nested,) = [each for each in made.plan.nests.instructions if isinstance(each, RunNested)]
    assert nested.program.scratch > 4000  # a second buffer for the carried vector
    assert made.plan.arena >= nested.program.scratch
    made.plan.verify()
    assert "nested" in made.plan.text()
    assert "in each of 4 iterations" in made.plan.text()


def natives() -> tuple[NativeProgram, NativeProgram]:
    """A body of one carry, and one of two."""
    one = executable(lambda x: (mx.sin(x),), mx.zeros(3)).native
    two = executable(lambda x, y: (y, mx.sin(x)), mx.zeros(3), mx.zeros(3)).native
    return one, two


def test_refused_arguments() -> None:
    one, two = natives()
    valid = ("scan", (one,), (0,), 1, 0, 3, False, (12,))
    assert NestedProgram(*valid).scratch > 0
    for position, value in [
        (0, "for"), (1, ()), (1, (one, two)), (1, (3,)), (3, 2), (3, -1), (4, 1), (4, -1), (5, -1),
    ]:  # fmt: skip
        given: list[Any] = list(valid)
        given[position] = value
        with pytest.raises(ValueError, match="not those of a loop or branch"):
            NestedProgram(*given)
    for sizes in ((), (-4,)):
        with pytest.raises(ValueError, match="needs a size"):
            NestedProgram(*valid[:-1], sizes)
    with pytest.raises(ValueError, match="not those of a loop or branch"):
        NestedProgram("branch", (one, two), (0, 0), 0, 0, 1, False, (12, 12))
    with pytest.raises(ValueError, match="not those of a loop or branch"):
        NestedProgram("while", (one,), (0,), 1, 0, -1, False, (12,))
