"""Simplify: a tape with the same results and fewer steps.

In one walk over the tape, inputs first: scalars of equal value become one, no-ops give way to their inputs, and steps with
equal ops over the same inputs become one. Since a step's inputs are final before it is looked at, one walk reaches the fixed
point, in time linear in the number of steps. What no output needs is dropped.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from ingot.compiler.tape import Step, Tape

__all__ = ["SimplifyReport", "simplify"]


@dataclass
class SimplifyReport:
    """What simplification did, for `explain`: steps of the tape that came in."""

    merged: list[tuple[Step, Step]] = field(default_factory=list)  # (gone, stays)
    no_ops: list[Step] = field(default_factory=list)
    unused: list[Step] = field(default_factory=list)


def simplify(tape: Tape) -> tuple[Tape, SimplifyReport]:
    """The simplified tape, and what was done to get there."""
    report = SimplifyReport()
    replaced: dict[Step, Step] = {}
    first_of: dict[Hashable, Step] = {}
    origin: dict[Step, Step] = {}
    steps: list[Step] = []
    for step in tape.steps:
        inputs = [replaced[source] for source in step.inputs]
        if step.op is not None and step.op.is_no_op(*inputs):
            replaced[step] = inputs[0]
            report.no_ops.append(step)
            continue
        key = _identity(step, inputs)
        earlier = None if key is None else first_of.get(key)
        if earlier is not None:
            replaced[step] = earlier
            report.merged.append((step, origin[earlier]))
            continue
        kept = step.with_inputs(inputs)
        replaced[step] = kept
        origin[kept] = step
        if key is not None:
            first_of[key] = kept
        steps.append(kept)
    outputs = [replaced[step] for step in tape.outputs]
    needed = _needed(outputs)
    needed.update(tape.inputs)
    report.unused = [origin[step] for step in steps if step not in needed]
    kept_steps = [step for step in steps if step in needed]
    return Tape(tape.inputs, outputs, kept_steps, tape.names), report


def _identity(step: Step, inputs: list[Step]) -> Hashable | None:
    """What makes two steps equal; None for steps that equal no other."""
    if step.value is not None:
        if step.value.ndim == 0:
            return (step.dtype, step.value.tobytes())
        return id(step.value)
    if step.op is None:
        return None
    return (type(step.op), step.op, tuple(map(id, inputs)), step.stream)


def _needed(outputs: list[Step]) -> set[Step]:
    needed: set[Step] = set()
    stack: list[Any] = list(outputs)
    while stack:
        step = stack.pop()
        if step not in needed:
            needed.add(step)
            stack.extend(step.inputs)
    return needed
