"""Calls that miss the cache of a compiled function: they trace it, or make a program of a trace."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

from ingot import _native
from ingot._native import Instance
from ingot.compiler.call.binding import Options
from ingot.compiler.call.cache import FunctionCache, Known, Variant
from ingot.compiler.call.cache_info import Account, new_shapes_text
from ingot.compiler.call.describe import contents_of, describe, difference
from ingot.compiler.call.lengths import NO_AXES, all_axes, pinned
from ingot.compiler.programs import program_of
from ingot.compiler.run.program import Compiled, Program
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.escapes import Escapes
from ingot.compiler.trace.structure import Contents
from ingot.compiler.trace.trace import SIZES_CHANGED, Axes, Trace, trace
from ingot.graph.deferred import Deferred
from ingot.graph.reporting.source import depth_of_user
from ingot.runtime.compile_log import log
from ingot.runtime.compile_mode import CompileMode, RecompilationWarning, UndeclaredStateWarning
from ingot.runtime.numerics import numerics_settings
from ingot.runtime.profile.profiler import profiled
from ingot.runtime.progress import compiling, working
from ingot.tuning import MAX_LENGTH_CLASSES

if TYPE_CHECKING:
    from ingot.compiler.call import symbolic_program
    from ingot.compiler.run.shaped_program import ShapedProgram
    from ingot.compiler.trace import symbolic as symbolic_traces
else:
    symbolic_program = Deferred("ingot.compiler.call.symbolic_program")
    symbolic_traces = Deferred("ingot.compiler.trace.symbolic")

__all__ = ["WARN_AFTER_MISSES", "Misses"]

WARN_AFTER_MISSES = 16  # in a row: recompiling on every call deserves a warning
MAX_AXES_NAMED = 4  # in one reason; the others are counted


class _LengthsNeededError(Exception):
    """There is no program for all lengths; the text says why."""


class Misses:
    """Compiles a function for calls that its cache cannot answer."""

    def __init__(self, name: str, options: Options, cache: FunctionCache) -> None:
        self._name = name
        self._options = options
        self._cache = cache

    def compile(self, call: Call, known: Known) -> Instance | None:
        """The program for a signature, made now; None if only an enclosing transform can trace
        it.
        """
        with self._cache.lock, compiling(self._name):
            for each in (known, known.general):  # another thread may have been first
                found = None if each is None else self._cache.get(each)
                if found is not None:
                    self._cache.counts.add_hit()
                    return found
            if known.general is None:
                return self._made(call, known, all_axes(known.shapes))
            return self._of_some_lengths(call, known, known.general)

    def _of_some_lengths(self, call: Call, known: Known, general: Known) -> Instance | None:
        """A program for all lengths of the axes that vary, or else for the shapes of the call."""
        lengths = self._cache.lengths
        axes = lengths.noted(general.key, general.shapes)
        if not axes:
            return self._made(call, known, NO_AXES)
        try:
            return self._made(call, general, axes)
        except _LengthsNeededError as refused:
            remark = f"; there is no program for all lengths, because {refused}"
        made = self._made(call, known, NO_AXES, remark)
        lengths.refuse(general.key)
        return made

    def _made(self, call: Call, known: Known, axes: Axes, remark: str = "") -> Instance | None:
        """A program of a trace that is there, or of a new one with symbols for these axes."""
        account = Account()
        started = time.perf_counter()
        problems: list[str] = []
        for variant in self._variants(known):
            problem = variant.trace.problem(known.arrays, known.objects)
            if problem is not None:
                problems.append(problem)
                continue
            values = variant.trace.guards.values(known.shapes)
            size = variant.trace.guards.broken_by(values)
            if size is None:
                account.reason = new_shapes_text(known.shapes)
                made = self._instantiate(variant, known, values or [], account, started)
                self._cache.counts.add_shapes(account)
                self._log(account)
                return made
            problems.append(f"{SIZES_CHANGED}{size}")
        return self._traced_anew(call, known, axes, account, (_joined(problems), remark))

    def _traced_anew(
        self, call: Call, known: Known, axes: Axes, account: Account, reason: tuple[str, str]
    ) -> Instance | None:
        started = time.perf_counter()
        call = call.with_arrays()
        contents = contents_of(call)
        described = self._describe(call, contents, known.key[-1])
        problem, remark = reason
        is_of_some = bool(axes) and not self._options.shapeless
        if is_of_some:
            traced = self._trace_for_some_lengths(call, contents, axes)
            remark = f"; {_names(contents, axes)} may have any length from now on"
        else:
            traced = self.trace(call, contents, axes)
        account.reason = (problem or difference(self._cache.described(), described)) + remark
        self._report_recompilation(account.reason)
        if traced is None:
            return None
        variant = Variant(traced, known.is_symbolic)
        values = traced.guards.values(known.shapes) or []
        instance = self._instantiate(variant, known, values, account, started)
        self._cache.add_variant(known.key, variant, described)
        if is_of_some:
            self._cache.lengths.add_trace(known.key)
        self._cache.counts.add_miss(account)
        self._log(account)
        return instance

    def _variants(self, known: Known) -> list[Variant]:
        entry = self._cache.entries.get(known.key)
        return [] if entry is None else entry.variants

    def _instantiate(
        self, variant: Variant, known: Known, values: list[Any], account: Account, started: float
    ) -> Instance:
        """A program for shapes that a trace covers; `started` is when the work on it began."""
        traced = variant.trace
        account.spend("trace", time.perf_counter() - started)
        program: Program | ShapedProgram
        if known.is_symbolic:
            program = self._shaped(variant, known.key[-1], values, account)
        else:
            with profiled("compile", f"{self._name}: simplify, fuse"):
                program = program_of(traced.tape, known.key[-1], self._name, account)
        result = traced.result and traced.result.resolved(values)
        instance = Instance(variant.reference, traced, Compiled(program), result, values)
        self._cache.add_instance(known.shapes, instance)
        return instance

    def _shaped(
        self, variant: Variant, mode: CompileMode, values: list[Any], account: Account
    ) -> ShapedProgram:
        """The program of a trace for all shapes, instantiated for some."""
        for symbolic in variant.programs:
            found = symbolic.program(values)
            if found is not None:
                return found
        if not self._options.shapeless and len(variant.programs) >= MAX_LENGTH_CLASSES:
            raise _LengthsNeededError("the machine code depends on them")
        with profiled("compile", f"{self._name}: simplify, fuse"):
            sizes, tape = symbolic_traces.symbolic_tape(
                variant.trace.tape, variant.trace.guards, values
            )
            made = symbolic_program.SymbolicProgram(sizes, tape, values, mode, self._name, account)
        variant.add_program(made)
        return made.first(values)

    def _log(self, account: Account) -> None:
        log.info("compiled %s in %.1f ms: %s", self._name, account.seconds * 1e3, account.reason)

    # Traces

    def _trace_for_some_lengths(self, call: Call, contents: Contents, axes: Axes) -> Trace | None:
        """A trace that is valid for other lengths of these axes too."""
        try:
            traced = self.trace(call, contents, axes)
        except Exception as error:  # the trace with numbers raises it again, if it is the user's
            raise _LengthsNeededError(f"a trace without the numbers raised {error!r}") from error
        guard = None if traced is None else pinned(traced.guards, axes)
        if guard is not None:
            raise _LengthsNeededError(f"the function depends on {guard}")
        return traced

    def trace(self, call: Call, contents: Contents, axes: Axes) -> Trace | None:
        """A trace with symbols for the lengths of these axes; None if only an enclosing transform
        can make one.
        """
        working("tracing")
        with profiled("compile", f"{self._name}: trace"):
            traced, escapes = _traced(call, contents, axes, False)
            if traced is not None and traced.depends_on_sharing:
                traced, escapes = _traced(call, contents, axes, True)
        if traced is not None and escapes.count > 0 and not self._cache.has_warned:
            self._warn_of(escapes, traced, call)
        return traced

    def _warn_of(self, escapes: Escapes, traced: Trace, call: Call) -> None:
        """Warns once per function about traced arrays that it stored somewhere."""
        constants = traced.result.constants if traced.result is not None else None
        others = {"the arguments": (call.args, call.kwargs), "the result": constants}
        message = escapes.warning(self._name, call.function, others, traced.returned)
        if message is not None:
            self._cache.has_warned = True
            warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())

    def _describe(self, call: Call, contents: Contents, mode: CompileMode) -> Any:
        circumstances = {"the stream": str(_native.current_stream()), "the mode": mode.value}
        return describe(call, contents, circumstances | numerics_settings())

    def _report_recompilation(self, reason: str) -> None:
        if self._cache.counts.misses == 0:
            return
        message = f"[compile] {self._name} is compiled again: {reason}."
        on_recompile = self._options.on_recompile
        if on_recompile == "error":
            raise RuntimeError(message)
        in_a_row = self._cache.counts.next_in_a_row
        if on_recompile == "warn":
            warnings.warn(message, RecompilationWarning, stacklevel=depth_of_user())
        elif in_a_row == WARN_AFTER_MISSES:
            warnings.warn(
                f"{message} That is {in_a_row} times in a row: see cache_info(), and think of "
                "shapeless=True or of passing what changes as an array.",
                RecompilationWarning,
                stacklevel=depth_of_user(),
            )


def _joined(problems: list[str]) -> str:
    """Why no trace fits, from the latest; sizes are named together."""
    sizes = sorted({x.removeprefix(SIZES_CHANGED) for x in problems if x.startswith(SIZES_CHANGED)})
    if problems and problems[0].startswith(SIZES_CHANGED):
        return SIZES_CHANGED + ", ".join(sizes)
    return problems[0] if problems else ""


def _traced(
    call: Call, contents: Contents, axes: Axes, shared: bool
) -> tuple[Trace | None, Escapes]:
    escapes = Escapes()
    return trace(call, contents, axes, shared, escapes.recorder), escapes


def _names(contents: Contents, axes: Axes) -> str:
    """Axes of inputs as text."""
    named = [f"{contents.arrays[position][0]}, axis {axis}" for position, axis in sorted(axes)]
    more = len(named) - MAX_AXES_NAMED
    return "; ".join(named[:MAX_AXES_NAMED]) + (f" and {more} more axes" if more > 0 else "")
