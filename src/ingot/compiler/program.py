"""Programs: a schedule made runnable, and the op that stands for it in a graph."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, array
from ingot.compiler.plan import Plan, build_plan
from ingot.compiler.schedule import Schedule
from ingot.compiler.work import About
from ingot.graph.op import Op, no_rule
from ingot.graph.shape import Shape
from ingot.runtime.profile import profiled

__all__ = ["Compiled", "Program"]

_TRACED_THROUGH = (
    "a compiled function called under another transform is traced through instead; "
    "transform the function first and compile the result"
)


MOST_LAYOUTS = 16  # of the inputs of one program; others are made contiguous first
AT_ONCE = 64 << 20  # bytes of inputs that take about as long to copy as a program to compile

Strides = tuple[tuple[int, ...], ...]


class Program:
    """A schedule that runs: on native code, planned for the layout of the inputs it is given."""

    def __init__(self, schedule: Schedule, name: str = "graph") -> None:
        self.schedule = schedule
        self.name = name
        tape = schedule.tape
        self.results = tuple((step.shape, step.dtype) for step in tape.outputs)
        # the program of `plan` once it is there: evaluation runs it without coming here
        self.native: NativeProgram | None = None
        self._by_strides: dict[Strides, Plan] = {}
        self._seen: set[Strides] = set()  # layouts that came once
        self.seconds = 0.0  # spent on plans and machine code

    @cached_property
    def plan(self) -> Plan:
        """The program for contiguous inputs; made, with machine code, when it is first needed."""
        plan = self._planned()
        self.native = plan.program
        return plan

    def _planned(self, strides: Strides | None = None) -> Plan:
        started = time.perf_counter()
        with profiled("compile", f"{self.name}: machine code"):
            plan = build_plan(self.schedule, strides)
        plan.program.about = About(self.name, plan.work)
        self.seconds += time.perf_counter() - started
        return plan

    def run(self, inputs: tuple[np.ndarray, ...]) -> Any:
        """The outputs for inputs of the shapes and dtypes that were compiled for."""
        found = self.plan.program.run(inputs)
        if found is not NotImplemented:
            return found
        strides = tuple(x.strides for x in inputs)
        plan = self._by_strides.get(strides)
        if plan is None:
            if not self._is_due(strides, inputs):
                return self.plan.program.run(tuple(np.asarray(x, order="C") for x in inputs))
            plan = self._planned(strides)
            self._by_strides[strides] = plan
        return plan.program.run(inputs)

    def _is_due(self, strides: Strides, inputs: tuple[np.ndarray, ...]) -> bool:
        """Whether a layout is worth a plan of its own: it comes again, or copying takes as long."""
        if len(self._by_strides) >= MOST_LAYOUTS:
            return False
        if strides in self._seen or sum(x.nbytes for x in inputs) >= AT_ONCE:
            return True
        if len(self._seen) < MOST_LAYOUTS:
            self._seen.add(strides)
        return False


@dataclass(frozen=True, eq=False)
class Compiled(Op):
    """The results of a compiled function, all at once."""

    several_outputs = True
    only_calls = True

    program: Program

    @property
    def title(self) -> str:
        return self.program.name

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        return self.program.results

    def evaluate(self, *inputs: Any) -> Any:
        return self.program.run(inputs)

    vjp = no_rule(_TRACED_THROUGH)
    jvp = no_rule(_TRACED_THROUGH)
    vmap = no_rule(_TRACED_THROUGH)
    emit = no_rule("it is the code of a whole function")


_native.set_hook("compiled_type", Compiled)
