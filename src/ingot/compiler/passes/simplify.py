"""Simplify: an equivalent tape with fewer steps.

In one pass in topological order: equal scalar constants are merged, elementwise ops of constants
with a single (or repeated) element are folded, no-ops, such as products with ones, are replaced by
their inputs, and equal ops over the same inputs are merged. Since a step's inputs are final when it
is visited, one pass reaches the fixed point in linear time. Steps that no output depends on are
dropped.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ingot.compiler.forms.identity import OpIdentities
from ingot.compiler.forms.tape import Step, Tape
from ingot.compiler.options import Options, SimplifyReport
from ingot.graph.dtype import complex64
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
        # scalar constants, and views of them and of such views -> the constant
        self.constant_of: dict[Step, Step] = {}
        # equal streams have equal numbers; by the stream and, since it is slow to hash, by its id
        self.streams: dict[Any, int] = {}
        self.stream_ids: dict[int, int] = {}

    def run(self) -> Tape:
        for step in self.tape.steps:
            self.replaced[step] = self._simplified(step)
        outputs = [self.replaced[step] for step in self.tape.outputs]
        tape = self.tape.with_steps([*self.origin], outputs)  # a step follows its inputs
        used = set(tape.steps)
        unused = [self.origin[step] for step in self.origin if step not in used]
        self.report.unused = list(dict.fromkeys(unused))
        return tape

    def _simplified(self, step: Step) -> Step:
        kept, op = step, step.op
        if op is not None:
            inputs = tuple(map(self.replaced.__getitem__, step.inputs))
            if op.is_no_op(*inputs):
                self.report.no_ops.append(step)
                return inputs[0]
            if len(inputs) == 2 and isinstance(op, Map) and op.neutral is not None:
                for constant, other in (inputs, inputs[::-1]):
                    if other.dtype is step.dtype and self._is(constant, op.neutral):
                        self.report.no_ops.append(step)
                        return other
            kept = step.with_inputs(inputs)
            if inputs and inputs[0] in self.constant_of:
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

    def _is(self, step: Step, number: int) -> bool:
        """Whether a step is a real constant, or a view of one, and equal to that number."""
        constant = self.constant_of.get(step)
        # a complex infinity times one has a NaN in its other part
        return constant is not None and constant.dtype is not complex64 and constant.value == number

    def _merged(self, kept: Step, origin: Step) -> Step:
        """An equal step that was kept earlier, or else the step itself, which is kept now."""
        found = self.first_of.setdefault(self._identity(kept), kept)
        if found is not kept:
            return found
        self.origin[kept] = origin
        if _is_scalar_constant(kept):
            self.constant_of[kept] = kept
        elif isinstance(kept.op, View) and kept.inputs[0] in self.constant_of:
            self.constant_of[kept] = self.constant_of[kept.inputs[0]]
        return kept

    def _is_map_of_repeated_constants(self, step: Step) -> bool:
        return (
            isinstance(step.op, Map)
            and all(source in self.constant_of for source in step.inputs)
            and _has_one_value(step)
        )

    def _repeated(self, step: Step, origin: Step) -> Step:
        """A map of constants that views repeat: the constant that it is, under the same views."""
        constants = [self.constant_of[source] for source in step.inputs]
        folded = self._merged(_folded(step, constants), origin)
        for view in min(map(_views, step.inputs), key=len):
            made = Step(view.op, (folded,), view.shape, step.dtype, step.stream, step.source)
            folded = self._merged(made, origin)
        return folded

    def _identity(self, step: Step) -> Hashable:
        """A key that equal steps share. A step that equals no other is one by itself."""
        if step.op is not None:
            stream = self.stream_ids.get(id(step.stream))
            if stream is None:
                stream = self.streams.setdefault(step.stream, len(self.streams))
                self.stream_ids[id(step.stream)] = stream
            return (self.ops.of(step.op), stream, *map(id, step.inputs))
        if step.value is None:
            return step
        if step.value.ndim == 0:
            return (step.dtype, step.value.tobytes())
        return id(step.value)


def _is_scalar_constant(step: Step) -> bool:
    return step.value is not None and step.value.ndim == 0


def _is_scalar_of_constants(step: Step) -> bool:
    return step.shape == () and all(map(_is_scalar_constant, step.inputs)) and _has_one_value(step)


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
