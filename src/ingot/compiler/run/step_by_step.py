"""Runs a tape op by op with the ops' `evaluate` rules, so that each result can be checked.

Input: a tape and values for its inputs. Output: the values of its outputs. It is slow and keeps
each value until its last use; normally the compiled program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot.compiler.forms.tape import Step, Tape
from ingot.graph.op import Op
from ingot.graph.outputs import Output

__all__ = ["Check", "run_step_by_step"]

# (op, the user's line, values of its inputs, its results)
Check = Callable[[Op, Any, Sequence[Any], Any], None]


def run_step_by_step(
    tape: Tape, inputs: Sequence[np.ndarray], check: Check
) -> tuple[np.ndarray, ...]:
    """The outputs of a tape; `check` is called after each op and may raise."""
    values: dict[Step, Any] = dict(zip(tape.inputs, inputs, strict=True))
    last_use = {source: step for step in tape.steps for source in step.inputs}
    kept = {*tape.inputs, *tape.outputs}
    for step in tape.steps:
        if step.op is None:
            if step.value is not None:
                values[step] = step.value
            continue
        values[step] = _value(step, [values[source] for source in step.inputs], check)
        for source in step.inputs:
            if last_use[source] is step and source not in kept:
                values.pop(source, None)
    return tuple(values[step] for step in tape.outputs)


def _value(step: Step, inputs: list[Any], check: Check) -> Any:
    op = step.op
    assert op is not None
    if isinstance(op, Output):
        return inputs[0][op.index]
    results = op.evaluate(*inputs)
    results = tuple(map(np.asarray, results)) if op.several_outputs else np.asarray(results)
    check(op, step.source, inputs, results)
    return results
