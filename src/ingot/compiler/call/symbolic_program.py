"""Symbolic programs: a symbolic tape from which programs for shapes are instantiated.

Input: a tape with symbolic sizes, of a trace for all shapes or of uncompiled graphs that differ in
shapes. The pipeline runs once and generates machine code once; instantiating the program for other
shapes that satisfy the conditions on sizes takes microseconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ingot._native import NativeProgram, ProgramTemplate
from ingot.compiler.call.cache_info import Account
from ingot.compiler.forms.size import hint_of
from ingot.compiler.forms.size_code import SizeFunction, compiled
from ingot.compiler.forms.size_text import condition_lines
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Tape
from ingot.compiler.machine.about import About
from ingot.compiler.machine.generate import Executable
from ingot.compiler.machine.template import program_template
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
        example: Sequence[Any],
        mode: CompileMode = CompileMode.enabled,
        name: str = "graph",
        account: Account | None = None,
    ) -> None:
        """`example`: the values of the dimensions for which comparisons of sizes are answered."""
        account = account or Account()
        self.sizes = sizes
        self.tape = tape
        self.example = example
        self.mode = mode
        self.name = name
        self.account = account  # charged with the time of generating machine code
        self._symbolic = run_pipeline(tape, mode, name, account, sizes).program
        results = self._symbolic.results
        self.dtypes = tuple([dtype for _, dtype in results])
        self._shapes = compiled(sizes, tuple([shape for shape, _ in results]), example)
        self._programs: _Programs | None = None  # once there is machine code
        # the template of native programs; None also if 64 bits are too few for their numbers
        self.template: ProgramTemplate | None = None
        self._layouts = Layouts()
        # for non-contiguous inputs, most recent first
        self._for_layouts: list[_Programs] = []
        self._lock = threading.RLock()  # held while machine code is generated

    def first(self, values: Sequence[Any]) -> ShapedProgram:
        """The program for the example's shapes; its machine code is generated on first use."""
        return ShapedProgram(self, values, self._shapes(values), self.dtypes, None)

    def program(self, values: Sequence[Any]) -> ShapedProgram | None:
        """The program for other shapes; None if they violate the conditions."""
        self._finished()
        return self.program_if_ready(values)

    def program_if_ready(self, values: Sequence[Any]) -> ShapedProgram | None:
        """The same; None also if there is no machine code yet."""
        native = None if self._programs is None else self._programs.native(values)
        if native is None:
            return None
        shapes = native.shapes if self.template is not None else self._shapes(values)
        return ShapedProgram(self, values, shapes, self.dtypes, native)

    def conditions(self, name_of: Callable[[int], str]) -> list[str]:
        """The conditions on shapes as text; `name_of` names dimensions."""
        self._finished()
        return condition_lines(self.sizes, name_of)

    def native(self, values: Sequence[Any]) -> NativeProgram:
        """The native program for shapes that satisfy the conditions."""
        native = self._finished().native(values)
        assert native is not None, "a program is asked for shapes that meet the conditions"
        return native

    def _finished(self) -> _Programs:
        """Generates machine code, and what instantiates programs of it."""
        with self._lock:
            if self._programs is not None:
                return self._programs
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
            self._programs = _Programs(self.name, self.sizes, executable, self.example)
            self.template = self._programs.template
            log.info(
                "machine code of %s for all shapes in %.1f ms: %d kernels, %d compiled, "
                "%d from the disk cache",
                self.name,
                seconds * 1e3,
                len(executable.loaded.codes),
                executable.loaded.compiled,
                executable.loaded.from_disk,
            )
            return self._programs

    def tape_for(self, values: Sequence[Any]) -> Tape:
        """The traced tape for some shapes."""
        return with_numbers(self.tape, self.sizes, values)

    # Non-contiguous inputs

    def native_for_layout(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        """The native program for the layout of some inputs; None if copying them is better, because
        nothing like them came before.
        """
        with self._lock:
            native = self._native_if_made(values, inputs)
            if native is not None:
                return native
            if not self._layouts.is_due(tuple(map(_kind_of_layout, inputs)), inputs):
                return None
            return self._native_for_layout(values, inputs)

    def native_at_once(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        """The native program for some inputs, which are never copied; None if their shapes violate
        the conditions.
        """
        if all(x.flags.c_contiguous for x in inputs):
            return self._finished().native(values)
        with self._lock:
            made = self._native_if_made(values, inputs)
            if made is not None or not self.sizes.allow(values):
                return made
            return self._native_for_layout(values, inputs)

    def _native_if_made(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        numbers = _with_strides(values, inputs)
        found = (programs.native(numbers) for programs in self._for_layouts)
        return next((native for native in found if native is not None), None)

    def _native_for_layout(
        self, values: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> NativeProgram | None:
        numbers = _with_strides(values, inputs)
        programs = self._made_for_layout(values, numbers, inputs)
        self._for_layouts.insert(0, programs)
        del self._for_layouts[MAX_LAYOUTS:]
        return programs.native(numbers)

    def _made_for_layout(
        self, values: Sequence[Any], numbers: Sequence[Any], inputs: tuple[np.ndarray, ...]
    ) -> _Programs:
        """Machine code that takes strides as arguments, which are dimensions after the others."""
        account = self.account.for_layout(layout_text(self.tape, inputs))
        started = time.perf_counter()
        try:
            with compiling(self.name, account.seconds):
                sizes, tape = with_hints(self.tape, self.sizes, values)
                strides = _strides(sizes, tape, len(values), inputs)
                program = run_pipeline(tape, self.mode, self.name, account, sizes).program
                executable = program.finish(strides).executable
                return _Programs(self.name, sizes, executable, numbers)
        finally:
            account.spend("machine code", time.perf_counter() - started)


class _Programs:
    """Native programs that share machine code."""

    def __init__(
        self, name: str, sizes: Sizes, executable: Executable, example: Sequence[Any]
    ) -> None:
        self._about = partial(AboutShapes, About(name, executable.describe()), sizes)
        self._parts = SizeFunction(sizes, executable.parts, example)
        self.template = program_template(self._parts, example, self._about)

    def native(self, values: Sequence[Any]) -> NativeProgram | None:
        """The program for values of the dimensions; None if they do not meet the conditions."""
        if self.template is not None:
            try:
                # dimensions that were used after the trace are not among the inputs
                return self.template.make(values[: self._parts.inputs])
            except OverflowError:
                pass  # Python's integers are unbounded
        parts = self._parts(values)
        if parts is None:
            return None
        native = NativeProgram(*parts)
        native.about = self._about(values)
        return native


def _with_strides(values: Sequence[Any], inputs: tuple[np.ndarray, ...]) -> list[Any]:
    """Values of the dimensions, and after them the strides of all inputs."""
    return [*values, *(stride for x in inputs for stride in x.strides)]


def _strides(sizes: Sizes, tape: Tape, first: int, inputs: tuple[np.ndarray, ...]) -> Strides:
    """The strides of the inputs as sizes, dimensions from `first` on: strides as in contiguous
    inputs are expressed by lengths, and those of at most one element are constants.
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
    """The layout of an array regardless of its lengths: the order of its axes by stride."""
    if x.flags.c_contiguous:
        return ()
    signs = [
        0 if length == 1 else (s > 0) - (s < 0)
        for length, s in zip(x.shape, x.strides, strict=True)
    ]
    order = sorted(range(x.ndim), key=lambda axis: (-abs(x.strides[axis]), axis))
    return (*order, *signs)
