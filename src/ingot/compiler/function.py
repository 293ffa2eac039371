"""`mx.compile`: functions that are traced, compiled and cached by the signatures of their calls."""

from __future__ import annotations

import importlib
import inspect
import time
import warnings
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial, update_wrapper
from types import MethodType
from typing import TYPE_CHECKING, Any

from ingot import _native
from ingot._native import FastCall, array, signature
from ingot.compiler.cache import Instance, Shapes, Variant, cache_of
from ingot.compiler.cache_info import Account, CacheInfo
from ingot.compiler.capture import Snapshot
from ingot.compiler.describe import describe, difference, input_names
from ingot.compiler.escapes import Escapes
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.program import Compiled
from ingot.compiler.trace import Trace, trace, with_arrays
from ingot.compiler.verify import compare, flat_values
from ingot.graph.op import Output, apply_multiple
from ingot.graph.source import depth_of_user
from ingot.graph.state import implicit_states, state_lock
from ingot.graph.tree import arrays_in
from ingot.runtime.belongings import capture_lock
from ingot.runtime.compile_log import log
from ingot.runtime.compile_mode import (
    CompileMode,
    RecompilationWarning,
    UndeclaredStateWarning,
    compile_mode,
)
from ingot.runtime.numerics import excess_precision
from ingot.runtime.profile import profiled
from ingot.runtime.progress import compiling, working

if TYPE_CHECKING:
    from ingot.compiler.explain import Explanation

__all__ = ["CompiledFunction", "compile"]

MAX_SHAPES_NAMED = 6
WARN_AFTER_MISSES = 16  # in a row: whoever recompiles on every call should hear of it


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
        shapeless: Whether one trace serves all shapes of the inputs. Sizes stay symbolic; where the
            function really depends on one, a call that changes it is traced again.
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
    for name, captured in (("inputs", inputs), ("outputs", outputs)):
        if captured is not None and not isinstance(captured, (list, dict, tuple, array)):
            raise TypeError(
                f"[compile] {name} must be a list, dict or tuple of arrays or an array, "
                f"got {type(captured).__name__}: {captured!r}."
            )
    if on_recompile not in (None, "warn", "error"):
        raise ValueError(
            f'[compile] on_recompile is "warn", "error" or None, got {on_recompile!r}.'
        )
    options = _Options(inputs, outputs, bool(shapeless), on_recompile, bool(verify))
    compiled = CompiledFunction(fun, options)
    update_wrapper(compiled, fun, updated=())
    return compiled


@dataclass(frozen=True)
class _Options:
    """What `compile` was told besides the function."""

    inputs: Any
    outputs: Any
    shapeless: bool
    on_recompile: str | None
    verify: bool


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, partial):
        return f"partial({_name_of(function.func)})"
    return getattr(function, "__qualname__", None) or type(function).__qualname__


def _takes_any_keywords(function: Callable[..., Any]) -> bool:
    """Whether the order of keyword arguments can show: in a function's **kwargs it does."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


class CompiledFunction(FastCall):
    """A function that compiles itself when it is called. Made by `compile`.

    Calls without side effects whose signature was seen are answered by the native base class; all
    others reach `slow_call`.
    """

    def __init__(self, fun: Callable[..., Any], options: _Options) -> None:
        self._function = fun
        self._options = options
        self._cache = cache = cache_of(fun, options.inputs, options.outputs, options.shapeless)
        self._is_method = False
        if options.outputs is None and not options.verify:
            self.prepare(cache.fast_entries, options.inputs, cache.fast_hits, True)

    def __repr__(self) -> str:
        return f"<compiled {_name_of(self._function)}>"

    # Copies are the function itself, and it is pickled by its name, as other functions are.

    def __copy__(self) -> CompiledFunction:
        return self

    def __deepcopy__(self, memo: Any) -> CompiledFunction:
        return self

    def __reduce__(self) -> str:
        return _name_of(self._function)

    def __set_name__(self, owner: type, name: str) -> None:
        # As in MLX, a compiled function is no method only because it is kept in a class; one that
        # is defined there, with the decorator, is.
        own_name = getattr(self._function, "__name__", "<lambda>")
        qualified = getattr(self._function, "__qualname__", "")
        self._is_method = qualified == f"{owner.__qualname__}.{own_name}" and "<" not in own_name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None or not self._is_method:
            return self
        # Each object has caches of its own, which die with it, or else is an argument like others.
        if type(instance).__weakrefoffset__ == 0 or not hasattr(self._function, "__get__"):
            return MethodType(self, instance)
        return CompiledFunction(self._function.__get__(instance, owner), self._options)

    def cache_info(self) -> CacheInfo:
        """How many calls there were, which of them compiled and why, and what that took.

        Returns:
            Counts that add up: a table when printed, also in notebooks.
        """
        return self._cache.info()

    def cache_clear(self) -> None:
        """Forget everything that was compiled of this function."""
        self._cache.clear()

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """What compilation makes of the function for these arguments.

        Returns:
            A report: printed, it shows every stage, what runs in the end and why; `to_html(file)`
            writes it as a page with drawn graphs; `to_dict()` is for programs.
        """
        explain: Any = importlib.import_module("ingot.compiler.explain")  # few programs need it
        args, kwargs = with_arrays((args, kwargs))
        with self._captured_alone():
            started = time.perf_counter()
            traced = self._trace(args, kwargs)
            seconds = time.perf_counter() - started
            if traced is None:
                raise ValueError(
                    "[explain] the function depends on a transform that is running: "
                    "explain it outside."
                )
            arrays = arrays_in((args, kwargs, self._options.inputs))
            shapes = self._shapes(arrays)
            states = [state[place] for state, place in traced.followed]
        values = traced.guards.values(shapes)
        mode = compile_mode()
        if mode is CompileMode.disabled:
            mode = CompileMode.enabled
        stages = run_pipeline(traced.for_values(values or ()), mode, _name_of(self._function))
        inputs = [x._node for x in (*arrays, *states)]
        cache = explain.CacheReport(self._cache.info(), self._cache.described())
        name = _name_of(self._function)
        explanation = explain.Explanation(name, stages, traced, inputs, cache)
        code_seconds = stages.program.account.phases["machine code"]
        stages.seconds = {"trace": seconds, **stages.seconds, "machine code": code_seconds}
        return explanation

    def slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], fast_key: Hashable) -> Any:
        """A call that the fast path does not know; `fast_key` is how it will know it, or None."""
        mode = compile_mode()
        if mode is CompileMode.disabled or _native.recording():
            return self._function(*args, **kwargs)  # the outermost trace sees the whole graph
        with self._captured_alone():
            return self._call(args, kwargs, mode, fast_key)

    def _captured_alone(self) -> Any:
        """Keeps other threads from captured containers; reading and updating them is one thing."""
        if self._options.inputs is None and self._options.outputs is None:
            return nullcontext()
        return capture_lock

    def _call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: CompileMode, fast_key: Hashable
    ) -> Any:
        if len(kwargs) > 1:
            kwargs = self._in_order(kwargs)
        options = self._options
        key, arrays = signature((args, kwargs, options.inputs), not options.shapeless, True)
        if _native.in_tracing() and any(x._node.tracer for x in arrays):
            return self._function(*args, **kwargs)  # the transform that runs follows its arrays
        full_key = (key, self._circumstances(arrays), mode)
        if options.verify:
            return self._verified(full_key, arrays, args, kwargs)
        return self._run(full_key, arrays, args, kwargs, fast_key)

    def _in_order(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments sorted, if the function cannot tell."""
        if self._cache.keeps_keyword_order is None:
            self._cache.keeps_keyword_order = _takes_any_keywords(self._function)
        return kwargs if self._cache.keeps_keyword_order else dict(sorted(kwargs.items()))

    def _circumstances(self, arrays: list[array]) -> Hashable:
        """What an entry is for besides arguments: stream, containers to update, shared arrays."""
        options = self._options
        stream: Hashable = (_native.current_stream(), excess_precision())
        if options.inputs is None and options.outputs is None:
            return stream
        containers: Hashable = None
        if options.outputs is not None and options.outputs is not options.inputs:
            containers = signature(options.outputs, False, False)[0]
        return stream, containers, _shared(arrays)

    def _run(
        self,
        key: tuple[Any, ...],
        arrays: list[array],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        fast_key: Hashable,
    ) -> Any:
        shapes = self._shapes(arrays)
        instance = self._cache.get(key, shapes)
        if instance is None:
            instance = self._compile(key, shapes, args, kwargs)
            if instance is None:
                return self._function(*args, **kwargs)
        else:
            self._cache.counts.add_hit()
            if instance.trace.captures is not None:
                message = instance.trace.captures.warning(_name_of(self._function))
                if message is not None:
                    warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())
        if not instance.trace.is_pure:
            with state_lock:
                if instance.trace.fits_states():
                    return self._run_with_state(instance, arrays)
            # Another thread changed a state in the meantime: what fits it now has to be found. The
            # call is counted once.
            self._cache.counts.add_hit(-1)
            return self._run(key, arrays, args, kwargs, fast_key)
        if not instance.trace.tape.outputs:
            return instance.result.filled(())
        if fast_key is not None:
            self._remember(fast_key, instance)
        return instance.result.filled(apply_multiple(instance.op, *arrays))

    def _shapes(self, arrays: list[array]) -> Shapes:
        return tuple([x.shape for x in arrays]) if self._options.shapeless else ()

    def _remember(self, fast_key: Hashable, instance: Instance) -> None:
        """Lets the fast path answer equal calls from now on."""
        op = instance.op
        shapes, dtypes = zip(*op.program.results, strict=True)
        picks = tuple(Output(index) for index in range(len(shapes)))
        builder = None if instance.result.is_array else instance.result.filled
        self._cache.remember(fast_key, instance, (op, shapes, dtypes, picks, builder))

    def _run_with_state(self, instance: Instance, arrays: list[array]) -> Any:
        traced = instance.trace
        states = [state[place] for state, place in traced.followed]
        results: tuple[array, ...] = ()
        if traced.tape.outputs:
            results = apply_multiple(instance.op, *arrays, *states)
        for state, place, output in traced.updates:
            state[place] = results[output]
        if traced.recipe is not None:
            options = self._options
            traced.recipe.replay([options.inputs, options.outputs], results, instance.values)
        return instance.result.filled(results[: traced.result_count])

    def _compile(
        self, key: tuple[Any, ...], shapes: Shapes, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Instance | None:
        """What to run for a signature, made now; None if only a transform around can follow it."""
        cache = self._cache
        mode = key[-1]
        with cache.lock, compiling(_name_of(self._function)):
            found = cache.get(key, shapes)  # another thread may have been first
            if found is not None:
                cache.counts.add_hit()
                return found
            account = Account()
            started = time.perf_counter()
            entry = cache.entries.get(key)
            broken: list[str] = []
            for variant in entry.variants if entry is not None else ():
                if not variant.trace.fits_states():
                    broken.append("those of a state that it reads")
                    continue
                values = variant.trace.guards.values(shapes)
                problem = variant.trace.guards.broken_by(values)
                if problem is None:
                    account.reason = f"the trace had not run for {_shapes_text(shapes)}"
                    made = self._instantiate(variant, shapes, values or [], mode, account, started)
                    cache.counts.add_shapes(account)
                    self._log(account)
                    return made
                broken.append(problem)
            args, kwargs = with_arrays((args, kwargs))
            described = self._describe(args, kwargs, mode)
            if broken:
                reason = (
                    f"the function depends on sizes that changed: {', '.join(sorted(set(broken)))}"
                )
            else:
                reason = difference(cache.described(), described)
            self._complain(reason)
            traced = self._trace(args, kwargs)
            if traced is None:
                return None
            variant = Variant(traced)
            values = traced.guards.values(shapes) or []
            account.reason = reason
            instance = self._instantiate(variant, shapes, values, mode, account, started)
            cache.add_variant(key, variant, described)
            cache.counts.add_miss(account)
            self._log(account)
            return instance

    def _instantiate(
        self,
        variant: Variant,
        shapes: Shapes,
        values: list[Any],
        mode: CompileMode,
        account: Account,
        started: float,
    ) -> Instance:
        """A program for shapes that a trace covers; `started` is when the work on it began."""
        traced = variant.trace
        tape = traced.for_values(values) if self._options.shapeless else traced.tape
        name = _name_of(self._function)
        account.spend("trace", time.perf_counter() - started)
        with profiled("compile", f"{name}: simplify, fuse"):
            program = run_pipeline(tape, mode, name, account).program
        instance = Instance(traced, Compiled(program), traced.result.resolved(values), values)
        self._cache.add_instance(variant, shapes, instance)
        return instance

    def _log(self, account: Account) -> None:
        name, milliseconds = _name_of(self._function), account.seconds * 1e3
        log.info("compiled %s in %.1f ms: %s", name, milliseconds, account.reason)

    def _trace(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Trace | None:
        options = self._options
        function = self._function
        names = input_names(function, args, kwargs, options.inputs)
        escapes = Escapes()
        working("tracing")
        with profiled("compile", f"{_name_of(function)}: trace"):
            traced = trace(
                function,
                args,
                kwargs,
                options.inputs,
                options.outputs,
                names,
                options.shapeless,
                escapes.recorder,
            )
        if traced is not None and escapes.count > 0 and not self._cache.has_warned:
            self._warn_of(escapes, traced, args, kwargs)
        return traced

    def _warn_of(
        self, escapes: Escapes, traced: Trace, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Tells the user, once for each function, of traced arrays that it left somewhere."""
        others = {"the arguments": (args, kwargs), "the result": traced.result.constants}
        function = self._function
        message = escapes.warning(_name_of(function), function, others, traced.returned)
        if message is not None:
            self._cache.has_warned = True
            warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())

    def _describe(self, args: tuple[Any, ...], kwargs: dict[str, Any], mode: CompileMode) -> Any:
        options = self._options
        circumstances = {
            "the stream": str(_native.current_stream()),
            "the mode": mode.value,
            "excess precision": str(excess_precision()),
        }
        return describe(
            self._function, args, kwargs, options.inputs, options.outputs, circumstances
        )

    def _complain(self, reason: str) -> None:
        if self._cache.counts.misses == 0:
            return
        message = f"[compile] {_name_of(self._function)} is compiled again: {reason}."
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

    def _verified(
        self,
        key: tuple[Any, ...],
        arrays: list[array],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Runs uncompiled and compiled from the same state and compares what comes out."""
        states = [*implicit_states(), self._options.inputs, self._options.outputs]
        snapshot = Snapshot([states, args, kwargs])
        try:
            expected = flat_values((self._function(*args, **kwargs), states))
        finally:
            snapshot.restore()
        result = self._run(key, arrays, args, kwargs, None)
        compare(_name_of(self._function), expected, flat_values((result, states)))
        return result


def _shapes_text(shapes: Shapes) -> str:
    known = ", ".join(map(str, shapes[:MAX_SHAPES_NAMED]))
    more = len(shapes) - MAX_SHAPES_NAMED
    return f"inputs of shape {known}" + (f" and {more} more" if more > 0 else "")


def _shared(arrays: list[array]) -> tuple[tuple[int, int], ...]:
    """Pairs of positions that hold the same array: what updates one updates the other."""
    if len({id(x) for x in arrays}) == len(arrays):
        return ()
    first: dict[int, int] = {}
    pairs = []
    for position, x in enumerate(arrays):
        if id(x) in first:
            pairs.append((first[id(x)], position))
        else:
            first[id(x)] = position
    return tuple(pairs)
