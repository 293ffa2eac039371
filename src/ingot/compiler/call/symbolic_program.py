"""A symbolic tape as a program that makes programs.

Comes in: a tape with symbolic sizes, of a trace for all shapes or of uncompiled graphs that differ
in shapes. The pipeline runs once, and machine code is made once; the program for other shapes that
meet the conditions on sizes takes microseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ingot._native import NativeProgram
from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.size import hint_of
from ingot.compiler.forms.size_code import compiled
from ingot.compiler.forms.size_text import condition_lines
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.work import About
from ingot.compiler.passes.with_numbers import with_hints, with_numbers
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.run.program import Layouts, Strides, layout_text
from ingot.compiler.run.shaped_program import AboutShapes, ShapedProgram
from ingot.graph.shape import contiguous
from ingot.runtime.compile_log import log
from ingot.runtime.compile_mode import CompileMode
from ingot.runtime.profile.profiler import profiled
from ingot.runtime.progress import compiling
from ingot.tuning import MAX_LAYOUTS

__all__ = ["SymbolicProgram"]


class SymbolicProgram:
    """The programs of a symbolic tape for all shapes that satisfy the conditions on its sizes."""

    def __init__(
        self,
        sizes: Sizes,
        tape: Tape,
        mode: CompileMode = CompileMode.enabled,
        name: str = "graph",
        account: Account | None = None,
    ) -> None:
        account = account or Account()
        self.sizes = sizes
        self.tape = tape
        self.mode = mode
        self.name = name
        self.account = account  # charged with machine code
        self._symbolic = run_pipeline(tape, mode, name, account, sizes).program
        self._results = self._symbolic.results
        self._make: Callable[[Sequence[Any]], Any] | None = None
        self._about = About(name, [])
        self._layouts = Layouts()
        # for non-contiguous inputs, the latest first
        self._for_layouts: list[tuple[Callable[[Sequence[Any]], Any], About]] = []
        self._lock = threading.RLock()  # waits for machine code that another thread is making

    def first(self, values: Sequence[Any]) -> ShapedProgram:
        """The program for the shapes that this one was made for; its machine code is made when it
        is first needed.
        """
        results = tuple(
            (tuple([self.sizes.number(length, values) for length in shape]), dtype)
            for shape, dtype in self._results
        )
        return ShapedProgram(self, values, results, None)

    def program(self, values: Sequence[Any]) -> ShapedProgram | None:
        """The program for other shapes; None if they violate the conditions."""
        self._finished()
        return self.program_if_ready(values)

    def program_if_ready(self, values: Sequence[Any]) -> ShapedProgram | None:
        """The same; None, too, if its machine code is not there yet."""
        found = self._make and self._make(values)
        if found is None:
            return None
        parts, results = found
        return ShapedProgram(self, values, results, self._native(parts, values))

    def conditions(self, name_of: Callable[[int], str]) -> list[str]:
        """The conditions on shapes as text; `name_of` names dimensions."""
        self._finished()
        return condition_lines(self.sizes, name_of)

    def native(self, values: Sequence[Any]) -> NativeProgram:
        """The native program for shapes that satisfy the conditions."""
        parts, _ = self._finished()(values)
        return self._native(parts, values)

    def _native(
        self, parts: tuple[Any, ...], values: Sequence[Any], about: About | None = None
    ) -> NativeProgram:
        native = NativeProgram(*parts)
        native.about = AboutShapes(about or self._about, self.sizes, values)
        return native

    def _finished(self) -> Callable[[Sequence[Any]], Any]:
        """Makes machine code, and the function that makes programs."""
        with self._lock:
            if self._make is not None:
                return self._make
            started = time.perf_counter()
            try:
                with (
                    compiling(self.name, self.account.seconds),
                    profiled("compile", f"{self.name}: machine code"),
                ):
                    executable = self._symbolic.finish(None).executable
            finally:
                seconds = time.perf_counter() - started
                self.account.spend("machine code", seconds)
            self._about.work = executable.work
            self._make = compiled(self.sizes, (executable.parts, self._results))
            log.info(
                "machine code of %s for all shapes in %.1f ms: %d kernels, %d compiled, "
                "%d from the disk cache",
                self.name,
                seconds * 1e3,
                len(executable.loaded.codes),
                executable.loaded.compiled,
                executable.loaded.from_disk,
            )
            return self._make

    def tape_for(self, values: Sequence[Any]) -> Tape:
        """What the user wrote, op by op, for some shapes."""
        return with_numbers(self.tape, self.sizes, values)

    # Non-contiguous inputs

    def native_for_layout(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        """The native program for inputs as they lie in memory; None if these are better copied,
        because nothing like them came before.
        """
        numbers = [*values, *(stride for x in inputs for stride in x.strides)]
        with self._lock:
            for make, about in self._for_layouts:
                parts = make(numbers)
                if parts is not None:
                    return self._native(parts, values, about)
            if not self._layouts.is_due(tuple(map(_kind_of_layout, inputs)), inputs):
                return None
            make, about = self._made_for_layout(values, inputs)
            self._for_layouts.insert(0, (make, about))
            del self._for_layouts[MAX_LAYOUTS:]
            return self._native(make(numbers), values, about)

    def _made_for_layout(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> tuple[Callable[[Sequence[Any]], Any], About]:
        """Machine code that takes strides as arguments; these are dimensions behind the others."""
        account = self.account.for_layout(layout_text(self.tape, inputs))
        started = time.perf_counter()
        try:
            with compiling(self.name, account.seconds):
                sizes, tape = with_hints(self.tape, self.sizes, values)
                strides = _strides(sizes, tape, len(values), inputs)
                program = run_pipeline(tape, self.mode, self.name, account, sizes).program
                executable = program.finish(strides).executable
                make = compiled(sizes, executable.parts)
        finally:
            account.spend("machine code", time.perf_counter() - started)
        return make, About(self.name, executable.work)


def _strides(sizes: Sizes, tape: Tape, first: int, inputs: tuple[np.ndarray, ...]) -> Strides:
    """The strides of the inputs as sizes, the dimensions from `first` on: what is as in contiguous
    inputs stays so; of others, 0, the distance of neighbours and what leads back are numbers.
    """
    found: list[tuple[int, ...]] = []
    for step, x in zip(tape.inputs, inputs, strict=True):
        plain = contiguous(step.shape, step.dtype.size)
        strides: list[Any] = []
        for length, stride, expected in zip(step.shape, x.strides, plain, strict=True):
            size = sizes.dimension(first, stride)
            first += 1
            if type(length) is int and length == 1:
                strides.append(expected)  # its stride does not matter
            elif stride == hint_of(expected):
                sizes.is_zero(size - expected)
                strides.append(expected)
            elif stride <= step.dtype.size:
                sizes.is_zero(size - stride)
                strides.append(stride)
            else:
                sizes.is_not_negative(size - 1)
                strides.append(size)
        found.append(tuple(strides))
    return tuple(found)


def _kind_of_layout(x: np.ndarray) -> tuple[int, ...]:
    """The layout of an array, whatever its lengths: the order of its axes by their strides."""
    if x.flags.c_contiguous:
        return ()
    signs = [
        0 if length == 1 else (s > 0) - (s < 0)
        for length, s in zip(x.shape, x.strides, strict=True)
    ]
    order = sorted(range(x.ndim), key=lambda axis: (-abs(x.strides[axis]), axis))
    return (*order, *signs)
