"""Expand: replaces ops that kernels cannot contain by ops that they can.

Ops that define `Op.expanded` are replaced by what it returns: random bits by a function of
positions, the position of a maximum by the maximum of ranks. Equal steps from several expansions
are shared.
"""

from __future__ import annotations

from typing import Any

from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options
from ingot.graph.op import Op, overrides

__all__ = ["expand"]


def expand(tape: Tape, options: Options) -> Tape:
    """The tape with every op in the form that kernels are made of."""
    return _Expander(tape).run()


class _Expander:
    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.steps: list[Step] = []
        self.made: dict[Any, Step] = {}

    def run(self) -> Tape:
        replaced: dict[Step, Step] = {}  # only those that are
        for step in self.tape.steps:
            kept = step
            if replaced:
                kept = step.with_inputs([replaced.get(source, source) for source in step.inputs])
            found = self._expanded(kept)
            if found is not step:
                replaced[step] = found
        if not replaced:
            return self.tape
        outputs = [replaced.get(step, step) for step in self.tape.outputs]
        return Tape(self.tape.inputs, outputs, self.steps, self.tape.names)

    def _expanded(self, step: Step) -> Step:
        kind: Any = type(step.op)
        if step.op is not None and overrides(kind, "expanded"):

            def build(op: Op, *inputs: Step) -> Step:
                return self._made(op, inputs, step)

            found: Step | None = step.op.expanded(build, *step.inputs)
            if found is not None:
                return found
        self.steps.append(step)
        return step

    def _made(self, op: Op, inputs: tuple[Step, ...], origin: Step) -> Step:
        """An op that `origin` expands to."""
        identity = (repr(op), inputs, origin.stream)
        found = self.made.get(identity)
        if found is None:
            if op.is_no_op(*inputs):
                return inputs[0]
            shape, dtype = op.infer(*inputs)
            made = Step(op, inputs, shape, dtype, origin.stream, origin.source)
            made.expanded_from = origin.expanded_from or origin
            found = self._expanded(made)
            self.made[identity] = found
        return found
