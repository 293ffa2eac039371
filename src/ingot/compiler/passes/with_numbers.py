"""With numbers: a symbolic tape for one set of shapes, or with other hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import LengthStep, Step, Tape
from ingot.graph.dimension import Parametric, resolve
from ingot.graph.op import parameters

__all__ = ["with_hints", "with_numbers"]


def with_numbers(tape: Tape, sizes: Sizes, values: Sequence[Any]) -> Tape:
    """The tape for these values of the dimensions."""

    def number(x: Any) -> Any:
        return resolve(x, values) if isinstance(x, Parametric) else sizes.number(x, values)

    def length(step: LengthStep) -> Step:
        value = np.array(values[step.number]).astype(step.dtype.numpy)
        return Step(None, (), (), step.dtype, step.stream, step.source, value)

    return _mapped(tape, number, length)


def with_hints(tape: Tape, sizes: Sizes, values: Sequence[Any]) -> tuple[Sizes, Tape]:
    """The tape, still symbolic, with these values of the dimensions as the example at hand."""
    made = sizes.with_hints(values)

    def moved(x: Any) -> Any:
        return x if isinstance(x, Parametric) else sizes.moved(x, made, values)

    return made, _mapped(tape, moved, lambda step: step)


def _mapped(tape: Tape, number: Callable[[Any], Any], length: Callable[[LengthStep], Step]) -> Tape:
    """The tape with something else in place of each size, each body of a loop and each length."""

    def mapped(x: Any) -> Any:
        if type(x) is tuple:
            return tuple([mapped(item) for item in x])
        return number(x) if is_symbolic(x) or isinstance(x, Parametric) else x

    made: dict[Step, Step] = {}
    for step in tape.steps:
        if isinstance(step, LengthStep):
            made[step] = length(step)
            continue
        op: Any = step.op
        if op is not None:
            fields = parameters(op)
            new = {name: mapped(old) for name, old in fields.items()}
            changed = {name: x for name, x in new.items() if _has_changed(x, fields[name])}
            op = replace(op, **changed) if changed else op
        inputs = [made[source] for source in step.inputs]
        shape = mapped(step.shape)
        made[step] = Step(op, inputs, shape, step.dtype, step.stream, step.source, step.value)
    return Tape(
        [made[step] for step in tape.inputs],
        [made[step] for step in tape.outputs],
        list(made.values()),
        {made[step]: name for step, name in tape.names.items()},
    )


def _has_changed(new: Any, old: Any) -> bool:
    if type(new) is tuple:
        return any(map(_has_changed, new, old))
    return new is not old
