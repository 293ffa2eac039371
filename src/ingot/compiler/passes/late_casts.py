"""Late casts: moves upcasts to where they are read.

Every kernel that reads an upcast gets one of its own, which the fuser puts into the same group. So
the smaller value is what is in memory between kernels: the mask of a relu or of dropout takes a
byte per element, not four, on its way to the backward pass. If something other than a kernel reads
the cast as well, it is in memory anyway, and everything reads it from there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.op import overrides
from ingot.graph.roles import Map, Reduce

__all__ = ["late_casts", "single_reader"]


def late_casts(tape: Tape, options: Options) -> Tape:
    """The tape with a separate cast for each step of a kernel that reads one."""
    if not any(map(_may_upcast, tape.kinds)):
        return tape
    users = tape.users
    live_out = set(tape.outputs)
    replaced: dict[Step, Step] = {}
    given: set[Step] = set()  # casts that have a first reader; further readers get copies
    steps: list[Step] = []
    for step in tape.steps:
        inputs: dict[Step, Step] = {}
        for source in dict.fromkeys(step.inputs):
            kept = replaced[source]
            if source in given:
                kept = Step(kept.op, kept.inputs, kept.shape, kept.dtype, kept.stream, kept.source)
                steps.append(kept)
            elif source not in live_out and _is_late(source, users[source]):
                given.add(source)
            inputs[source] = kept
        replaced[step] = step.with_inputs([inputs[source] for source in step.inputs])
        steps.append(replaced[step])
    return Tape(tape.inputs, [replaced[step] for step in tape.outputs], steps, tape.names)


def single_reader(step: Step, users: list[Step]) -> bool:
    """Whether a step is an upcast that one step of a kernel reads."""
    return _is_late(step, users) and len(set(users)) == 1


@cache
def _may_upcast(kind: Any) -> bool:
    """Whether ops of a class may be upcasts."""
    return issubclass(kind, Map) and overrides(kind, "upcasts")


def _is_late(step: Step, users: list[Step]) -> bool:
    op: Any = step.op
    kind: Any = type(op)
    return (
        _may_upcast(kind)
        and op.upcasts(*step.inputs)
        # those read their inputs element by element inside kernels
        and all(isinstance(user.op, (Map, Reduce)) for user in users)
    )
