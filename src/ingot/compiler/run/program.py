"""Programs: a schedule made runnable, and the op that stands for it in a graph."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, array
from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.schedule import Schedule
from ingot.compiler.forms.tape import Tape
from ingot.compiler.plan.plan import Plan, build_plan
from ingot.compiler.plan.work import About
from ingot.compiler.run.step_by_step import Check, run_step_by_step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.runtime.compile_log import log
from ingot.runtime.profile import profiled
from ingot.runtime.progress import compiling

__all__ = ["Compiled", "Layouts", "Program"]

_TRACED_THROUGH = (
    "a compiled function called under another transform is traced through instead; "
    "transform the function first and compile the result"
)


MOST_LAYOUTS = 16  # of the inputs of one program; others are made contiguous first
AT_ONCE = 64 << 20  # bytes of inputs that take about as long to copy as a program to compile
MAX_LAYOUTS_NAMED = 3

Strides = tuple[tuple[int, ...], ...]


class Layouts:
    """The layouts in which the inputs of a program came."""

    def __init__(self) -> None:
        self._seen: set[Strides] = set()  # once
        self._due: set[Strides] = set()

    def is_due(self, strides: Strides, inputs: tuple[np.ndarray, ...]) -> bool:
        """Whether a layout is worth a plan of its own: it comes again, or copying takes as long."""
        if strides in self._due:
            return True
        if len(self._due) >= MOST_LAYOUTS:
            return False
        if strides in self._seen or sum(x.nbytes for x in inputs) >= AT_ONCE:
            self._due.add(strides)
            return True
        if len(self._seen) < MOST_LAYOUTS:
            self._seen.add(strides)
        return False


class Program:
    """A schedule that runs: on native code, planned for the layout of the inputs it is given."""

    def __init__(
        self,
        schedule: Schedule,
        name: str = "graph",
        account: Account | None = None,
        traced: Tape | None = None,
    ) -> None:
        self.schedule = schedule
        self.traced = traced or schedule.tape  # what the user wrote, op by op
        self.name = name
        self.account = account or Account()  # charged with plans and machine code
        tape = schedule.tape
        self.results = tuple((step.shape, step.dtype) for step in tape.outputs)
        # the program of `plan` once it is there: evaluation runs it without coming here
        self.native: NativeProgram | None = None
        self._plan: Plan | None = None
        self._by_strides: dict[Strides, Plan] = {}
        self._layouts = Layouts()
        self._lock = threading.RLock()  # who needs a plan that another thread makes waits for it

    @property
    def plan(self) -> Plan:
        """The program for contiguous inputs; made, with machine code, when it is first needed."""
        if self._plan is None:
            with self._lock:
                if self._plan is None:
                    self._plan = self._planned(self.account)
                    self.native = self._plan.program
        return self._plan

    def _planned(self, account: Account, strides: Strides | None = None) -> Plan:
        started = time.perf_counter()
        try:
            with (
                compiling(self.name, account.seconds),
                profiled("compile", f"{self.name}: machine code"),
            ):
                plan = build_plan(self.schedule, strides)
        finally:
            seconds = time.perf_counter() - started
            account.spend("machine code", seconds)
        plan.program.about = About(self.name, plan.work)
        loaded = plan.loaded
        log.info(
            "machine code of %s in %.1f ms: %d kernels, %d compiled, %d from the disk cache%s",
            self.name,
            seconds * 1e3,
            len(loaded.codes),
            loaded.compiled,
            loaded.from_disk,
            f"; {account.reason}" if strides is not None and account.reason else "",
        )
        return plan

    def run(self, inputs: tuple[np.ndarray, ...]) -> Any:
        """The outputs for inputs of the shapes and dtypes that were compiled for."""
        is_first = self.native is None
        found = self.plan.program.run(inputs)
        if found is not NotImplemented:
            return found
        if self._layouts.is_due(tuple(x.strides for x in inputs), inputs):
            return self.plan_for_layout(inputs, is_first).program.run(inputs)
        return self.plan.program.run(tuple(np.asarray(x, order="C") for x in inputs))

    def plan_for_layout(self, inputs: tuple[np.ndarray, ...], is_first: bool) -> Plan:
        """The plan for a layout of the inputs, which may have to be made first.

        The call that `is_first` compiled anyway: what it makes is charged to that.
        """
        strides = tuple(x.strides for x in inputs)
        found = self._by_strides.get(strides)
        if found is not None:
            return found
        with self._lock:
            plan = self._by_strides.get(strides)
            if plan is None:
                account = self.account
                if not is_first:
                    account = account.for_layout(self._layout_text(inputs))
                plan = self._by_strides[strides] = self._planned(account, strides)
            return plan

    def _layout_text(self, inputs: tuple[np.ndarray, ...]) -> str:
        """Which inputs lie in memory in another way than element after element."""
        tape = self.schedule.tape
        named = [
            f"{tape.names.get(step, f'input {number}')} of shape {x.shape} has strides "
            f"{tuple(stride // x.itemsize for stride in x.strides)}"
            for number, (step, x) in enumerate(zip(tape.inputs, inputs, strict=True))
            if not x.flags.c_contiguous
        ]
        more = len(named) - MAX_LAYOUTS_NAMED
        text = "; ".join(named[:MAX_LAYOUTS_NAMED])
        return text + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, eq=False)
class Compiled(Host):
    """The results of a compiled function, all at once."""

    several_outputs = True
    only_calls = True

    program: Any  # a Program or a ShapedProgram

    @property
    def title(self) -> str:
        name: str = self.program.name
        return name

    def infer(self, *inputs: array) -> tuple[tuple[Shape, Dtype], ...]:
        found: tuple[tuple[Shape, Dtype], ...] = self.program.results
        return found

    def evaluate(self, *inputs: Any) -> Any:
        return self.program.run(inputs)

    def step_by_step(self, inputs: tuple[np.ndarray, ...], check: Check) -> Any:
        """The results, by the ops that were traced; `check` is told of each."""
        return run_step_by_step(self.program.traced, inputs, check)

    vjp = no_rule(_TRACED_THROUGH)
    jvp = no_rule(_TRACED_THROUGH)
    vmap = no_rule(_TRACED_THROUGH)


_native.set_callbacks(compiled_type=Compiled)
