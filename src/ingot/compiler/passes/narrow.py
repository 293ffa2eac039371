"""Narrow: replaces ops of which only a part is read by ops that compute just that part.

An op whose only reader is a view is replaced by one that computes only the viewed part, if it has
such a form (`Op.narrowed`): the positions of the largest elements without those of all others. An
op with several outputs of which only one is read is replaced by one that computes just that
(`Op.only_output`): singular values without vectors.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.op import Op, overrides
from ingot.graph.outputs import Output
from ingot.graph.roles import View

__all__ = ["narrow"]


def narrow(tape: Tape, options: Options) -> Tape:
    """The tape without the parts of results that nothing reads."""
    if not any(map(_has_parts, tape.kinds)):
        return tape
    users = tape.users
    live_out = set(tape.outputs)
    replaced: dict[Step, Step] = {}
    dropped: set[Step] = set()
    for step in tape.steps:
        kept = step.with_inputs([replaced[source] for source in step.inputs])
        whole = step.inputs[0] if step.inputs else step
        kind: Any = type(whole.op)
        if _has_parts(kind) and whole not in live_out:
            found = _part(step, whole, users[whole])
            if found is not None:
                dropped.add(whole)
                kept = found.with_inputs([replaced[source] for source in whole.inputs])
        replaced[step] = kept
    if not dropped:
        return tape
    steps = [replaced[step] for step in tape.steps if step not in dropped]
    outputs = [replaced[step] for step in tape.outputs]
    return Tape(tape.inputs, outputs, steps, tape.names)


@cache
def _has_parts(kind: Any) -> bool:
    """Whether ops of a class may be replaced by ones that compute a part."""
    return issubclass(kind, Op) and (overrides(kind, "narrowed") or overrides(kind, "only_output"))


def _part(reader: Step, whole: Step, users: list[Step]) -> Step | None:
    """The part of a step that its only reader reads, as a step of its own."""
    if whole.op is None or any(user is not reader for user in users):
        return None
    if isinstance(reader.op, Output):
        op = whole.op.only_output(reader.op.index)
    elif isinstance(reader.op, View):
        op = whole.op.narrowed(reader.op, whole.shape)
    else:
        return None
    if op is None:
        return None
    return Step(op, whole.inputs, reader.shape, reader.dtype, whole.stream, whole.source)
