"""Programs: a schedule made runnable, and the op that stands for it in a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ingot._native import Dtype, array
from ingot.compiler.fuse import Schedule
from ingot.compiler.tape import Step
from ingot.graph.op import Op, no_rule
from ingot.graph.shape import Shape

__all__ = ["Compiled", "Program"]

_TRACED_THROUGH = (
    "a compiled function called under another transform is traced through instead; "
    "transform the function first and compile the result"
)


class Program:
    """Runs a schedule on NumPy arrays, step by step, and frees each value after its last use."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        tape = schedule.tape
        self.inputs = tape.inputs
        self.outputs = tape.outputs
        self.results = tuple((step.shape, step.dtype) for step in tape.outputs)
        slots = {step: slot for slot, step in enumerate(tape.steps)}
        order = [step for group in schedule.groups for step in group.steps]
        self._slot_count = len(slots)
        self._input_slots = [slots[step] for step in tape.inputs]
        self._output_slots = [slots[step] for step in tape.outputs]
        self._constants = [(slots[step], step.value) for step in tape.steps if step.is_constant]
        self._instructions = self._with_releases(order, slots)

    def _with_releases(
        self, order: Sequence[Step], slots: dict[Step, int]
    ) -> list[tuple[Any, list[int], int, list[int]]]:
        last_use: dict[Step, Step] = {}
        for step in order:
            for source in step.inputs:
                last_use[source] = step
        kept = {*self.outputs, *(step for step in slots if step.is_constant)}
        released: dict[Step, list[int]] = {step: [] for step in order}
        for source, step in last_use.items():
            if source not in kept:
                released[step].append(slots[source])
        return [
            (step.op.evaluate, [slots[s] for s in step.inputs], slots[step], released[step])  # type: ignore[union-attr]
            for step in order
        ]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for inputs of the shapes and dtypes that were compiled for."""
        values: list[Any] = [None] * self._slot_count
        for slot, value in self._constants:
            values[slot] = value
        for slot, value in zip(self._input_slots, inputs, strict=True):
            values[slot] = value
        for evaluate, sources, slot, released in self._instructions:
            values[slot] = evaluate(*[values[source] for source in sources])
            for gone in released:
                values[gone] = None
        return [values[slot] for slot in self._output_slots]


@dataclass(frozen=True, eq=False)
class Compiled(Op):
    """The results of a compiled function, all at once."""

    several_outputs = True

    program: Program

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        return self.program.results

    def evaluate(self, *inputs: Any) -> Any:
        return self.program.run(inputs)

    vjp = no_rule(_TRACED_THROUGH)
    jvp = no_rule(_TRACED_THROUGH)
    vmap = no_rule(_TRACED_THROUGH)
    emit = no_rule("it is the code of a whole function")
