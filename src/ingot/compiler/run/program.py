"""Programs: a tape as native code, and the op that represents it in a graph."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native
from ingot._native import Dtype, NativeProgram, array
from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.about import About
from ingot.compiler.options import Strides
from ingot.graph.deferred import Deferred
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Host
from ingot.graph.shape import Shape
from ingot.runtime.collection import collection_paused
from ingot.runtime.compile_log import log
from ingot.runtime.profile.profiler import profiled
from ingot.runtime.progress import compiling
from ingot.tuning import MAX_LAYOUTS, MIN_BYTES_FOR_A_LAYOUT

if TYPE_CHECKING:
    from ingot.compiler.forms.schedule import Schedule
    from ingot.compiler.machine.generate import Executable
    from ingot.compiler.run import step_by_step
    from ingot.compiler.run.step_by_step import Check
    from ingot.compiler.run.stored import StoredExecutable
else:
    step_by_step = Deferred("ingot.compiler.run.step_by_step")

__all__ = ["Compiled", "ForLayout", "Layouts", "Program", "Strides", "layout_text"]

_TRACED_THROUGH = (
    "a compiled function called under another transform is traced through instead; "
    "transform the function first and compile the result"
)


MAX_LAYOUTS_NAMED = 3


class ForLayout:
    """The program for one layout of the inputs, compiled or from disk, and the seconds that each
    pass took. `forms` returns the output of each pass that waits for an evaluation, by the name of
    the pass: for a program from disk, it runs them.
    """

    def __init__(
        self,
        runnable: Executable | StoredExecutable,
        forms: Callable[[], dict[str, Any]],
        seconds: dict[str, float],
    ) -> None:
        self.runnable = runnable
        self.seconds = seconds
        self._forms = forms

    @property
    def native(self) -> NativeProgram:
        """The program that runs."""
        return self.runnable.native

    @cached_property
    def forms(self) -> dict[str, Any]:
        """The output of each pass, by its name."""
        return self._forms()

    @property
    def executable(self) -> Executable:
        """The output of the last pass."""
        return [*self.forms.values()][-1]


class Layouts:
    """The layouts of the inputs that a program has been called with."""

    def __init__(self) -> None:
        self._seen: set[Strides] = set()  # seen once
        self._due: set[Strides] = set()

    def is_due(self, strides: Strides, inputs: tuple[np.ndarray, ...]) -> bool:
        """Whether a layout deserves code of its own: it recurs, or copying would take as long."""
        if strides in self._due:
            return True
        if len(self._due) >= MAX_LAYOUTS:
            return False
        if strides in self._seen or _bytes_to_copy(inputs) >= MIN_BYTES_FOR_A_LAYOUT:
            self._due.add(strides)
            return True
        if len(self._seen) < MAX_LAYOUTS:
            self._seen.add(strides)
        return False


def _bytes_to_copy(inputs: tuple[np.ndarray, ...]) -> int:
    """The bytes of inputs that are not contiguous. One element repeated is not counted: those are
    the zeros and ones that states begin with, and the next call brings other arrays.
    """
    return sum(x.nbytes for x in inputs if not x.flags.c_contiguous and any(x.strides))


class Program:
    """A tape that runs as native code, specialised to the layout of its inputs.

    `schedule` returns the fused groups. `finish` runs the passes that wait for an evaluation, or
    finds what they made on disk, given the strides of the inputs, or None if they are contiguous.
    """

    def __init__(
        self,
        traced: Tape,
        schedule: Callable[[], Schedule],
        finish: Callable[[Strides | None], ForLayout],
        name: str,
        account: Account,
    ) -> None:
        self.traced = traced  # what the user wrote, op by op
        self.finish = finish
        self.name = name
        self.account = account  # charged with the time of planning and code generation
        self.results = tuple((step.shape, step.dtype) for step in traced.outputs)
        self._schedule = schedule
        # that of `contiguous`, once it exists: evaluation runs it without entering Python
        self.native: NativeProgram | None = None
        self._contiguous: ForLayout | None = None
        self.by_strides: dict[Strides, NativeProgram] = {}  # for other layouts, likewise
        self._layouts = Layouts()
        self._lock = threading.RLock()  # held while machine code is generated

    @property
    def contiguous(self) -> ForLayout:
        """The code for contiguous inputs, generated on first use."""
        if self._contiguous is None:
            with self._lock:
                if self._contiguous is None:
                    self._contiguous = self.made(self.account)
                    self.native = self._contiguous.native
        return self._contiguous

    @property
    def schedule(self) -> Schedule:
        """The fused groups, in order."""
        return self._schedule()

    def form(self, name: str) -> Any:
        """The form that a deferred pass produced for contiguous inputs."""
        return self.contiguous.forms[name]

    @property
    def executable(self) -> Executable:
        """The executable for contiguous inputs, generated on first use."""
        return self.contiguous.executable

    def plan(self) -> NativeProgram:
        """The native program for contiguous inputs, generated on first use."""
        return self.contiguous.native

    def made(self, account: Account, strides: Strides | None = None) -> ForLayout:
        """Runs the deferred passes for a layout of the inputs, and logs that."""
        started = time.perf_counter()
        try:
            with (
                compiling(self.name, account.seconds),
                profiled("compile", f"{self.name}: machine code"),
                collection_paused(),
            ):
                found = self.finish(strides)
                found.native.about = About(self.name, found.runnable.describe())
        finally:
            seconds = time.perf_counter() - started
            account.spend("machine code", seconds)
        loaded = found.runnable.loaded
        log.info(
            "machine code of %s in %.1f ms: %d kernels, %d compiled, %d from the disk cache%s",
            self.name,
            seconds * 1e3,
            len(loaded.codes),
            loaded.compiled,
            loaded.from_disk,
            f"; {account.reason}" if strides is not None and account.reason else "",
        )
        log.debug(
            "passes of %s: %s",
            self.name,
            ", ".join(f"{name} {1e3 * x:.2f} ms" for name, x in found.seconds.items()),
        )
        return found

    def run(self, inputs: tuple[np.ndarray, ...]) -> Any:
        """The outputs for inputs of the compiled shapes and dtypes."""
        is_first = self.native is None
        native = self.native or self.plan()
        found = native.run(inputs)
        if found is not NotImplemented:
            return found
        if self._layouts.is_due(tuple(x.strides for x in inputs), inputs):
            return self.native_for_layout(inputs, is_first).run(inputs)
        return native.run(tuple(np.asarray(x, order="C") for x in inputs))

    def native_if_known(self, inputs: tuple[np.ndarray, ...]) -> NativeProgram | None:
        """The native program that ran for inputs of this layout, unless they were copied."""
        if all(x.flags.c_contiguous for x in inputs):
            return self.native
        return self.by_strides.get(tuple(x.strides for x in inputs))

    def native_for_layout(self, inputs: tuple[np.ndarray, ...], is_first: bool) -> NativeProgram:
        """The native program for a layout of the inputs, generated if necessary.

        If the call `is_first`, it compiled anyway, and this time is charged to it.
        """
        strides = tuple(x.strides for x in inputs)
        found = self.by_strides.get(strides)
        if found is not None:
            return found
        with self._lock:
            found = self.by_strides.get(strides)
            if found is None:
                account = self.account
                if not is_first:
                    account = account.for_layout(layout_text(self.traced, inputs))
                found = self.made(account, strides).native
                self.by_strides[strides] = found
            return found


def layout_text(tape: Tape, inputs: tuple[np.ndarray, ...]) -> str:
    """Describes which inputs are not contiguous."""
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
    """The results of a compiled function as a node with several outputs."""

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
        """The results, computed op by op from the traced tape; `check` is called after each op."""
        return step_by_step.run_step_by_step(self.program.traced, inputs, check)

    vjp = no_rule(_TRACED_THROUGH)
    jvp = no_rule(_TRACED_THROUGH)
    vmap = no_rule(_TRACED_THROUGH)


_native.set_callbacks(compiled_type=Compiled)
