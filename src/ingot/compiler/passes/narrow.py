"""Narrow: replaces ops of which only a part is read by ops that compute just that part.

An op whose only reader is a view is replaced by one that computes only the viewed part, if it has
such a form (`Op.narrowed`): the positions of the largest elements without those of all others. An
op with several outputs of which only one is read is replaced by one that computes just that
(`Op.only_output`): singular values without vectors. One whose outputs are read only in part is
replaced by one whose outputs are as large (`Op.with_leading_outputs`): as many singular vectors as
values.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.op import Op, overrides
from ingot.graph.outputs import Output
from ingot.graph.roles import View
from ingot.graph.shape import Shape

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
        kept = _with_leading_outputs(
            step.with_inputs([replaced[source] for source in step.inputs]), step, users, live_out
        )
        whole = step.inputs[0] if step.inputs else step
        kind: Any = type(whole.op)
        if _has_parts(kind) and whole not in live_out:
            found = _part(step, whole, users[whole])
            if found is not None:
                dropped.add(whole)
                kept = found.with_inputs([replaced[source] for source in whole.inputs])
        replaced[step] = kept
    if not dropped and all(kept is step for step, kept in replaced.items()):
        return tape
    steps = [replaced[step] for step in tape.steps if step not in dropped]
    outputs = [replaced[step] for step in tape.outputs]
    return Tape(tape.inputs, outputs, steps, tape.names)


@cache
def _has_parts(kind: Any) -> bool:
    """Whether ops of a class may be replaced by ones that compute a part."""
    rules = ("narrowed", "only_output", "with_leading_outputs")
    return issubclass(kind, Op) and any(overrides(kind, rule) for rule in rules)


def _with_leading_outputs(
    kept: Step, step: Step, users: dict[Step, list[Step]], live_out: set[Step]
) -> Step:
    """A step without the parts of its outputs that nothing reads; `kept` has its new inputs."""
    if isinstance(kept.op, Output):
        shape, dtype = kept.inputs[0].shape[kept.op.index], kept.dtype
        return (
            kept
            if shape == kept.shape
            else Step(kept.op, kept.inputs, shape, dtype, kept.stream, kept.source)
        )
    kind: Any = type(kept.op)
    if kept.op is None or not overrides(kind, "with_leading_outputs"):
        return kept
    lengths = [length for source in kept.inputs for length in source.shape]
    if step in live_out or any(type(length) is not int for length in lengths):
        return kept
    extents: dict[int, Shape] = {}
    for user in users[step]:
        assert isinstance(user.op, Output)
        extents[user.op.index] = _extent(user, users[user], user in live_out)
    op = kept.op.with_leading_outputs(extents, *kept.inputs)
    if op is None:
        return kept
    shapes, dtypes = zip(*op.infer(*kept.inputs), strict=True)
    return Step(op, kept.inputs, shapes, dtypes, kept.stream, kept.source)


def _extent(output: Step, users: list[Step], is_live_out: bool) -> Shape:
    """How far along each axis an output is read."""
    found = (0,) * len(output.shape)
    for user in users:
        read = user.op.extent(output.shape) if isinstance(user.op, View) else output.shape
        found = tuple(map(max, found, read))
    return output.shape if is_live_out else found


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
