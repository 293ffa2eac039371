"""With numbers: a symbolic tape for one set of shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import LengthStep, Step, Tape, parameters

__all__ = ["with_numbers"]


def with_numbers(tape: Tape, sizes: Sizes, values: Sequence[Any]) -> Tape:
    """The tape for these values of the dimensions."""

    def numbers(x: Any) -> Any:
        if type(x) is tuple:
            return tuple([numbers(item) for item in x])
        return sizes.number(x, values) if is_symbolic(x) else x

    made: dict[Step, Step] = {}
    for step in tape.steps:
        value = step.value
        if isinstance(step, LengthStep):
            value = np.array(values[step.number]).astype(step.dtype.numpy)
        op: Any = step.op
        if op is not None:
            fields = parameters(op)
            new = {name: numbers(old) for name, old in fields.items()}
            changed = {name: x for name, x in new.items() if _has_changed(x, fields[name])}
            op = replace(op, **changed) if changed else op
        inputs = [made[source] for source in step.inputs]
        shape = numbers(step.shape)
        made[step] = Step(op, inputs, shape, step.dtype, step.stream, step.source, value)
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
