"""Simplify: an equivalent tape with fewer steps.

In one pass in topological order: equal scalar constants are merged, elementwise ops of constants
with a single (or repeated) element are folded, no-ops are replaced by their inputs, and equal ops
over the same inputs are merged. Since a step's inputs are final when it is visited, one pass
reaches the fixed point in linear time. Steps that no output depends on are dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ingot.compiler.forms.identity import OpIdentities
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options, SimplifyReport
from ingot.graph.roles import Map, View
from ingot.graph.roles.elementwise import is_approximate
from ingot.runtime.progress import working

__all__ = ["simplify"]


def simplify(tape: Tape, options: Options) -> Tape:
    """The simplified tape; what was done to get there is in the report of the options."""
    working(f"simplifying {len(tape.steps):,} operations")
    return _Simplifier(tape, options.report).run()


class _Simplifier:
    def __init__(self, tape: Tape, report: SimplifyReport) -> None:
        self.tape = tape
        self.report = report
        self.replaced: dict[Step, Step] = {}
        self.first_of: dict[Hashable, Step] = {}
        self.origin: dict[Step, Step] = {}  # what a step that stays was on the tape that came in
        self.ops = OpIdentities()
        self.underlying: dict[Step, Step] = {}  # what is below a view and the views below it

    def run(self) -> Tape:
        for step in self.tape.steps:
            self.replaced[step] = self._simplified(step)
        outputs = [self.replaced[step] for step in self.tape.outputs]
        needed = _needed(outputs)
        needed.update(self.tape.inputs)
        unused = [self.origin[step] for step in self.origin if step not in needed]
        self.report.unused = list(dict.fromkeys(unused))
        steps = [step for step in self.origin if step in needed]
        return Tape(self.tape.inputs, outputs, steps, self.tape.names)

    def _simplified(self, step: Step) -> Step:
        inputs = [self.replaced[source] for source in step.inputs]
        if step.op is not None and step.op.is_no_op(*inputs):
            self.report.no_ops.append(step)
            return inputs[0]
        kept = step.with_inputs(inputs)
        if _is_scalar_of_constants(kept):
            self.report.folded.append(step)
            kept = _folded(kept, inputs)
        elif self._is_map_of_repeated_constants(kept):
            self.report.folded.append(step)
            return self._repeated(kept, step)
        found = self._merged(kept, step)
        if found is not kept:
            self.report.merged.append((step, self.origin[found]))
        return found

    def _merged(self, kept: Step, origin: Step) -> Step:
        """An equal step that was kept earlier, or else the step itself, which is kept now."""
        identity = self._identity(kept)
        earlier = None if identity is None else self.first_of.get(identity)
        if earlier is not None:
            return earlier
        if identity is not None:
            self.first_of[identity] = kept
        self.origin[kept] = origin
        if isinstance(kept.op, View):
            self.underlying[kept] = self._underlying(kept.inputs[0])
        return kept

    def _underlying(self, step: Step) -> Step:
        """The value below all views."""
        return self.underlying.get(step, step)

    def _is_map_of_repeated_constants(self, step: Step) -> bool:
        return (
            isinstance(step.op, Map)
            and len(step.inputs) > 0
            and all(_is_scalar_constant(self._underlying(source)) for source in step.inputs)
            and _has_one_value(step)
        )

    def _repeated(self, step: Step, origin: Step) -> Step:
        """A map of constants that views repeat: the constant that it is, under the same views."""
        folded = self._merged(_folded(step, list(map(self._underlying, step.inputs))), origin)
        for view in min(map(_views, step.inputs), key=len):
            made = Step(view.op, (folded,), view.shape, step.dtype, step.stream, step.source)
            folded = self._merged(made, origin)
        return folded

    def _identity(self, step: Step) -> Hashable | None:
        """A key that equal steps share; None for steps that equal no other."""
        if step.value is not None:
            if step.value.ndim == 0:
                return (step.dtype, step.value.tobytes())
            return id(step.value)
        if step.op is None:
            return None
        return (self.ops.of(step.op), *map(id, step.inputs), step.stream)


def _is_scalar_constant(step: Step) -> bool:
    return step.value is not None and step.value.ndim == 0


def _is_scalar_of_constants(step: Step) -> bool:
    return (
        step.op is not None
        and step.shape == ()
        and len(step.inputs) > 0
        and all(map(_is_scalar_constant, step.inputs))
        and _has_one_value(step)
    )


def _has_one_value(step: Step) -> bool:
    """Whether folding gives the bits of a kernel; NumPy's math functions are not those of kernels,
    which must agree with themselves whether or not their arguments are constants.
    """
    assert step.op is not None
    return not is_approximate(step.op, step.inputs[0].dtype)


def _views(step: Step) -> list[Step]:
    """The views that a step is made of, innermost first."""
    views: list[Step] = []
    while isinstance(step.op, View):
        views.append(step)
        step = step.inputs[0]
    return views[::-1]


def _folded(step: Step, inputs: Sequence[Step]) -> Step:
    """The one element that a step computes of those of constants."""
    assert step.op is not None
    with np.errstate(all="ignore"):
        value = np.asarray(step.op.evaluate(*(source.value for source in inputs)))
    return Step(None, (), value.shape, step.dtype, None, step.source, value)


def _needed(outputs: list[Step]) -> set[Step]:
    needed: set[Step] = set()
    stack = list(outputs)
    while stack:
        step = stack.pop()
        if step not in needed:
            needed.add(step)
            stack.extend(step.inputs)
    return needed
