"""A tape for all shapes in terms of symbolic sizes.

Input: the tape of a trace, or of the body of a loop in it. Every dimension of the trace becomes a
size. The guards of the trace, which each call checks before anything else, are known facts about
these sizes. A length of 0 or 1 is a number from the start: kernels have no loops for such axes, so
they get programs of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ingot._native import Dtype
from ingot.compiler.forms.size import Size, is_symbolic
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import LengthStep, Step, Tape
from ingot.graph.arrays.length import Length
from ingot.graph.dimension import Dimension, Guards
from ingot.graph.op import parameters

__all__ = ["equal_axes", "symbolic_tape"]

_POLYNOMIAL = ("add", "sub", "mul", "floordiv", "mod", "neg")


def symbolic_tape(tape: Tape, guards: Guards, values: Sequence[Any]) -> tuple[Sizes, Tape]:
    """The tape with sizes for the dimensions of a trace, whose hints are `values`."""
    found = _Dimensions(guards, values)
    made: dict[Step, Step] = {}
    lengths: dict[tuple[int, Dtype], Step] = {}
    for step in tape.steps:
        op: Any = step.op
        if type(op) is Length and type(op.length) is Dimension:
            key = (op.length.number, op.dtype)
            if key not in lengths:
                lengths[key] = LengthStep(*key, step.stream, step.source)
            made[step] = lengths[key]
            continue
        if op is not None:
            changed = {
                name: new
                for name, old in parameters(op).items()
                if (new := found.resolved(old)) is not old
            }
            op = replace(op, **changed) if changed else op
        inputs = [made[source] for source in step.inputs]
        shape = found.resolved(step.shape)
        made[step] = Step(op, inputs, shape, step.dtype, step.stream, step.source, step.value)
    return found.sizes, Tape(
        [made[step] for step in tape.inputs],
        [made[step] for step in tape.outputs],
        list(dict.fromkeys(made.values())),
        {made[step]: name for step, name in tape.names.items()},
    )


class _Dimensions:
    """The sizes of a trace's dimensions."""

    def __init__(self, guards: Guards, values: Sequence[Any]) -> None:
        self.sizes = Sizes()
        self.values = values
        self.same = equal_axes(guards)
        self.found: list[Any] = []
        for dimension in guards.dimensions:
            self.found.append(self._size(dimension))
        for name, left, right, outcome in guards.found:
            self._learn(name, left, right, outcome)

    def resolved(self, value: Any) -> Any:
        """A value with a size for each dimension in it; the value itself if there is none."""
        if type(value) is Dimension:
            found = self.found[value.number]
            if type(found) is Dimension:  # only a plain dimension, not an int
                self.sizes.numbers[value.number] = self.values[value.number]
                return self.values[value.number]
            return found
        if type(value) is tuple:
            items = tuple([self.resolved(item) for item in value])
            return items if any(a is not b for a, b in zip(items, value, strict=True)) else value
        return value

    def _size(self, dimension: Dimension) -> Any:
        hint = self.values[dimension.number]
        if type(hint) is not int:
            return dimension
        same = self.same.get(dimension.number)
        if same is not None:
            return self.found[same.number] if type(same) is Dimension else same
        if dimension.name in _POLYNOMIAL:
            operands = [self._operand(operand) for operand in dimension.operands]
            if all(type(x) is int or is_symbolic(x) for x in operands):
                return dimension.applied(operands)
        size = self.sizes.dimension(dimension.number, hint)
        if dimension.name == "axis":
            if hint < 2:
                self.sizes.is_zero(size - hint)
                return hint
            self.sizes.is_not_negative(size - 2)
        elif dimension.nonnegative:
            self.sizes.assume(size)
        return size

    def _operand(self, operand: Any) -> Any:
        return self.found[operand.number] if type(operand) is Dimension else operand

    def _learn(self, name: str, left: Any, right: Any, outcome: bool) -> None:
        """Adds the fact that a guard of the trace states."""
        a, b = self._operand(left), self._operand(right)
        if not all(type(x) is int or is_symbolic(x) for x in (a, b)):
            return
        if name in ("eq", "ne"):
            if (name == "eq") == outcome:
                self._assume(a - b)
                self._assume(b - a)
            return
        if name in ("lt", "gt"):  # the negations of the other two
            name, outcome = {"lt": "ge", "gt": "le"}[name], not outcome
        difference = a - b if name == "ge" else b - a
        self._assume(difference if outcome else -difference - 1)

    def _assume(self, difference: int | Size) -> None:
        if is_symbolic(difference):
            self.sizes.assume(difference)


def equal_axes(guards: Guards) -> dict[int, Any]:
    """For axes that guards require to equal an earlier dimension, or a number: which."""
    found: dict[int, Any] = {}

    def final(x: Any) -> Any:
        while type(x) is Dimension and x.number in found:
            x = found[x.number]
        return x

    for name, left, right, outcome in guards.found:
        if (name, outcome) not in (("eq", True), ("ne", False)):
            continue
        a, b = final(left), final(right)
        if type(a) is not Dimension or (type(b) is Dimension and b.number > a.number):
            a, b = b, a
        if type(b) is float and b.is_integer():
            b = int(b)
        is_int = type(b) is int or (type(b) is Dimension and type(b.value) is int)
        if a is not b and type(a) is Dimension and a.name == "axis" and is_int:
            found[a.number] = b
    return {number: final(other) for number, other in found.items()}
