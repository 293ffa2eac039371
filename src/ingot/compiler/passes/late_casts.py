"""Late casts: an upcast is done where it is read.

What comes in is an expanded tape; what goes out is one with the same results in which every kernel
that takes such a cast has one of its own, which the fuser puts beside it. So what is in memory
between kernels is the smaller value: the mask of a relu or of dropout takes a byte an element, not
four, on its way to the backward pass. Where something else than a kernel takes the cast as well, it
is in memory anyway, and all take it from there.
"""

from __future__ import annotations

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.roles import Map, Reduce

__all__ = ["late_casts", "single_reader"]


def late_casts(tape: Tape, options: Options) -> Tape:
    """The tape with a cast for each kernel's step that takes one."""
    users = tape.users()
    live_out = set(tape.outputs)
    replaced: dict[Step, Step] = {}
    given: set[Step] = set()  # casts that a first reader took; the next ones get copies
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
    """Whether a step is a cast that one step of a kernel takes, which is where it belongs."""
    return len(set(users)) == 1 and _is_late(step, users)


def _is_late(step: Step, users: list[Step]) -> bool:
    return (
        isinstance(step.op, Map)
        and step.op.upcasts(*step.inputs)
        # those take their inputs element by element, inside of kernels
        and all(isinstance(user.op, (Map, Reduce)) for user in users)
    )
