"""`mx.compile`: a function that is traced, compiled and cached by the signatures it is called with."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from typing import Any

from ingot import _native
from ingot._native import FastCall, array, signature
from ingot.compiler.cache import CacheInfo, Entry, Shapes, Variant, cache_of
from ingot.compiler.capture import Snapshot
from ingot.compiler.describe import describe, difference, input_names
from ingot.compiler.explain import Explanation
from ingot.compiler.pipeline import CompileMode, Stages, compile_mode, run_pipeline
from ingot.compiler.program import Compiled
from ingot.compiler.trace import Trace, trace
from ingot.compiler.verify import compare, flat_values
from ingot.graph.op import Output, apply_multiple
from ingot.graph.state import implicit_states, state_lock
from ingot.graph.tree import arrays_in

__all__ = ["CompiledFunction", "RecompilationWarning", "compile"]

log = logging.getLogger("ingot.compile")

WARN_AFTER_MISSES = 16  # in a row: whoever recompiles on every call should hear of it
MOST_PROGRAMS = 256  # of one shapeless trace
MOST_FAST_ENTRIES = 512


class RecompilationWarning(UserWarning):
    """A compiled function compiles again and again."""


def compile(
    fun: Callable[..., Any],
    inputs: Any = None,
    outputs: Any = None,
    shapeless: bool = False,
    *,
    on_recompile: str | None = None,
    verify: bool = False,
) -> CompiledFunction:
    """Compile a function: trace it once, then run one optimised program for each kind of arguments.

    Args:
        fun: A function of arrays, trees of arrays and constants. It should be pure.
        inputs: A list, dict or tree of arrays that the function reads besides its arguments.
        outputs: A list, dict or tree of arrays that the function updates besides what it returns.
        shapeless: Whether one trace serves all shapes of the inputs. Sizes stay symbolic; where the function really
            depends on one, a call that changes it is traced again.
        on_recompile: "warn" or "error" when a signature after the first has to be compiled.
        verify: Whether every call also runs uncompiled and compares; for bring-up.

    Returns:
        The compiled function, with the methods `cache_info`, `cache_clear` and `explain`.
    """
    if not callable(fun):
        raise TypeError(
            f"[compile] fun must be callable, got {type(fun).__name__}: {fun!r}. "
            "Pass the function itself, not its result."
        )
    if on_recompile not in (None, "warn", "error"):
        raise ValueError(
            f'[compile] on_recompile is "warn", "error" or None, got {on_recompile!r}.'
        )
    return CompiledFunction(fun, inputs, outputs, shapeless, on_recompile, verify)


class CompiledFunction(FastCall):
    """A function that compiles itself when it is called. Made by `compile`."""

    def __init__(
        self,
        fun: Callable[..., Any],
        inputs: Any,
        outputs: Any,
        shapeless: bool,
        on_recompile: str | None,
        verify: bool,
    ) -> None:
        self._function = fun
        self._inputs = inputs
        self._outputs = outputs
        self._shapeless = bool(shapeless)
        self._on_recompile = on_recompile
        self._verify = verify
        self._cache = cache_of(fun)
        self._name = getattr(fun, "__qualname__", None) or type(fun).__name__
        update_wrapper(self, fun, updated=())
        # Calls without side effects whose signature was seen never reach Python.
        self.fast_entries: dict[Hashable, tuple[Any, ...]] = {}
        self._cache.callers.add(self)
        if outputs is None and not verify:
            self.prepare(self.fast_entries, inputs, self._cache, True)

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return _BoundCompiled(self, instance)

    def cache_info(self) -> CacheInfo:
        """Entries, hits, misses with their reasons, evictions, and the seconds spent compiling."""
        return self._cache.info()

    def cache_clear(self) -> None:
        """Forget everything that was compiled of this function."""
        self._cache.clear()

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What compilation makes of the function for these arguments: the tape after each stage, the groups, the costs."""
        started = time.perf_counter()
        traced = self._trace(args, kwargs)
        seconds = time.perf_counter() - started
        mode = compile_mode()
        if mode is CompileMode.disabled:
            mode = CompileMode.enabled
        tape = traced.tape
        if self._shapeless:
            tape = traced.for_shapes([x.shape for x in self._input_arrays(args, kwargs)])
        stages = run_pipeline(tape, mode)
        stages.seconds = {"trace": seconds, **stages.seconds}
        return Explanation(self._name, stages, traced)

    def slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], fast_key: Hashable) -> Any:
        """A call that the fast path does not know; `fast_key` is what it will know it by, or None."""
        mode = compile_mode()
        if mode is CompileMode.disabled:
            return self._function(*args, **kwargs)
        key, arrays = signature((args, kwargs, self._inputs), not self._shapeless, True)
        if _native.in_tracing() and (_native.recording() or any(x._node.tracer for x in arrays)):
            return self._function(*args, **kwargs)  # the transform that runs sees the whole graph
        if self._verify:
            return self._verified(key, arrays, mode, args, kwargs)
        return self._run(key, arrays, mode, args, kwargs, fast_key)

    def _run(
        self,
        key: Any,
        arrays: list[array],
        mode: CompileMode,
        args: Any,
        kwargs: Any,
        fast_key: Hashable = None,
    ) -> Any:
        full_key = self._full_key(key, mode)
        shapes: Shapes = tuple(x.shape for x in arrays) if self._shapeless else ()
        found = self._find(full_key, shapes, arrays)
        if found is None:
            found = self._compile(full_key, shapes, arrays, mode, args, kwargs)
        else:
            self._cache.count_hit()
        traced, op = found
        if traced.recipe is None and not traced.followed and not traced.updates:
            results: Sequence[array] = apply_multiple(op, *arrays)
            if fast_key is not None and results and not traced.aliases:
                self._remember(fast_key, traced, op)
        else:
            results = self._run_with_state(traced, op, arrays)
        return traced.build_result(results[: traced.result_count])

    def _remember(self, fast_key: Hashable, traced: Trace, op: Compiled) -> None:
        """Lets the fast path answer equal calls from now on."""
        if len(self.fast_entries) >= MOST_FAST_ENTRIES:
            self.fast_entries.clear()
        shapes, dtypes = zip(*op.program.results, strict=True)
        picks = tuple(Output(index) for index in range(len(shapes)))
        builder = None if traced.returns_array else traced.build_result
        self.fast_entries[fast_key] = (op, shapes, dtypes, picks, builder)

    def _run_with_state(self, traced: Trace, op: Compiled, arrays: list[array]) -> Sequence[array]:
        with state_lock:
            states = [state[place] for state, place in traced.followed]
            results = apply_multiple(op, *arrays, *states)
            for state, place, output in traced.updates:
                state[place] = results[output]
        if traced.recipe is not None:
            traced.recipe.replay([self._inputs, self._outputs], list(results))
        return results

    def _full_key(self, key: Hashable, mode: CompileMode) -> Hashable:
        """Everything that an entry is for: the arguments, the containers it updates, stream, mode, `shapeless`."""
        containers: Hashable = None
        if self._outputs is not None and self._outputs is not self._inputs:
            containers = signature(self._outputs, False, False)[0]
        return (key, containers, _native.current_stream(), mode, self._shapeless)

    def _find(
        self, key: Hashable, shapes: Shapes, arrays: list[array]
    ) -> tuple[Trace, Compiled] | None:
        entry = self._cache.get(key)
        if entry is None:
            return None
        for variant in entry.variants:
            program = variant.programs.get(shapes)
            if program is not None and _same_aliases(variant.trace, arrays):
                return variant.trace, program[0]
        return None

    def _compile(
        self,
        key: Any,
        shapes: Shapes,
        arrays: list[array],
        mode: CompileMode,
        args: Any,
        kwargs: Any,
    ) -> tuple[Trace, Compiled]:
        cache = self._cache
        with cache.lock:
            found = self._find(key, shapes, arrays)  # another thread may have been first
            if found is not None:
                cache.count_hit()
                return found
            started = time.perf_counter()
            entry = cache.get(key)
            for variant in entry.variants if entry is not None else ():
                if (
                    _same_aliases(variant.trace, arrays)
                    and variant.trace.guards.broken_by(shapes) is None
                ):
                    return variant.trace, self._instantiate(variant, shapes, mode)
            described = describe(self._function, args, kwargs, self._inputs)
            reason = self._reason(entry, described, shapes)
            self._complain(reason)
            variant = Variant(self._trace(args, kwargs))
            if entry is None:
                entry = Entry(described)
                cache.put(key, entry)
            op = self._instantiate(variant, shapes, mode)
            entry.variants.insert(0, variant)
            seconds = time.perf_counter() - started
            cache.count_miss(reason, seconds)
            log.info("compiled %s in %.1f ms: %s", self._name, seconds * 1e3, reason)
            return variant.trace, op

    def _instantiate(self, variant: Variant, shapes: Shapes, mode: CompileMode) -> Compiled:
        tape = variant.trace.for_shapes(shapes) if self._shapeless else variant.trace.tape
        stages: Stages = run_pipeline(tape, mode)
        op = Compiled(stages.program)
        variant.programs[shapes] = (op, stages)
        while len(variant.programs) > MOST_PROGRAMS:
            variant.programs.popitem(last=False)
        return op

    def _trace(self, args: Any, kwargs: Any) -> Trace:
        names = input_names(self._function, args, kwargs, self._inputs)
        return trace(
            self._function, args, kwargs, self._inputs, self._outputs, names, self._shapeless
        )

    def _input_arrays(self, args: Any, kwargs: Any) -> list[array]:
        return arrays_in((args, kwargs, self._inputs))

    def _reason(self, entry: Entry | None, described: dict[str, str], shapes: Shapes) -> str:
        if entry is not None:
            broken = [variant.trace.guards.broken_by(shapes) for variant in entry.variants]
            guards = "; ".join(sorted({guard for guard in broken if guard is not None}))
            return f"a size that the function depends on changed: {guards or 'arrays are shared differently'}"
        others = [other.described for other in list(self._cache.entries.values())]
        return difference(others, described)

    def _complain(self, reason: str) -> None:
        if self._cache.miss_count == 0:
            return
        message = f"[compile] {self._name} is compiled again: {reason}."
        if self._on_recompile == "error":
            raise RuntimeError(message)
        in_a_row = self._cache.misses_in_a_row + 1
        if self._on_recompile == "warn":
            warnings.warn(message, RecompilationWarning, stacklevel=5)
        elif in_a_row == WARN_AFTER_MISSES:
            warnings.warn(
                f"{message} That is {in_a_row} times in a row: see cache_info(), and think of "
                "shapeless=True or of passing what changes as an array.",
                RecompilationWarning,
                stacklevel=5,
            )

    def _verified(
        self, key: Any, arrays: list[array], mode: CompileMode, args: Any, kwargs: Any
    ) -> Any:
        """Runs uncompiled and compiled from the same state and compares everything that comes out."""
        states = [*implicit_states(), self._inputs, self._outputs]
        snapshot = Snapshot(states)
        try:
            expected = flat_values((self._function(*args, **kwargs), states))
        finally:
            snapshot.restore()
        result = self._run(key, arrays, mode, args, kwargs)
        compare(self._name, expected, flat_values((result, states)))
        return result


def _same_aliases(traced: Trace, arrays: list[array]) -> bool:
    return all(arrays[i] is arrays[j] for i, j in traced.aliases)


class _BoundCompiled:
    """A compiled method of an object."""

    def __init__(self, compiled: CompiledFunction, instance: Any) -> None:
        self.compiled = compiled
        self.instance = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiled(self.instance, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.compiled, name)
