"""`mx.compile`: functions that are traced, compiled and cached by the signatures of their calls."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Hashable
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from ingot import _native
from ingot._native import (
    FastCall,
    ForeignArgument,
    Instance,
    array,
    register_constant_type,
    structure,
)
from ingot.compiler.call.binding import (
    CompiledMethod,
    Options,
    Target,
    name_of,
    takes_any_keywords,
    target_of,
)
from ingot.compiler.call.cache import Known, Shapes, Variant, cache_of
from ingot.compiler.call.cache_info import Account, CacheInfo, new_shapes_text
from ingot.compiler.call.describe import contents_of, describe, difference, foreign_argument
from ingot.compiler.call.reshaping import reshaped
from ingot.compiler.call.symbolic_program import SymbolicProgram
from ingot.compiler.call.verify import compare, flat_values
from ingot.compiler.pipeline import run_pipeline
from ingot.compiler.run.program import Compiled, Program
from ingot.compiler.run.shaped_program import ShapedProgram
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.capture import Snapshot
from ingot.compiler.trace.escapes import Escapes
from ingot.compiler.trace.structure import Contents
from ingot.compiler.trace.symbolic import symbolic_tape
from ingot.compiler.trace.trace import SIZES_CHANGED, Trace, trace
from ingot.graph.outputs import apply_multiple, output_ops
from ingot.graph.reporting.source import depth_of_user
from ingot.graph.state import implicit_states, state_lock
from ingot.runtime.compile_log import log
from ingot.runtime.compile_mode import (
    CompileMode,
    RecompilationWarning,
    UndeclaredStateWarning,
    compile_mode,
)
from ingot.runtime.numerics import excess_precision, numerics_key, product_engine
from ingot.runtime.per_owner_cache import capture_lock
from ingot.runtime.profile.profiler import profiled
from ingot.runtime.progress import compiling, working
from ingot.runtime.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from ingot.explain.report import Explanation

__all__ = ["CompiledFunction", "compile"]

WARN_AFTER_MISSES = 16  # in a row: recompiling on every call deserves a warning

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")
S = TypeVar("S")

Signature = tuple[tuple[Any, ...], list[array], list[Any]]  # key, arrays, objects


def compile(
    fun: Callable[P, R],
    inputs: Any = None,
    outputs: Any = None,
    shapeless: bool = False,
    *,
    on_recompile: str | None = None,
    verify: bool = False,
) -> CompiledFunction[P, R]:
    """`ingot.core.compile`, which documents the arguments."""
    target = target_of(fun)
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
    options = Options(inputs, outputs, bool(shapeless), on_recompile, bool(verify))
    compiled: CompiledFunction[P, R] = CompiledFunction(target, options)
    update_wrapper(compiled, target.function, updated=())
    return compiled


@register_constant_type
class CompiledFunction(FastCall, Generic[P, R]):
    """A function that compiles itself when it is called. Made by `compile`.

    Calls without side effects whose signature was seen are answered by the native base class; all
    others reach `slow_call`.
    """

    def __init__(self, target: Target, options: Options) -> None:
        self._target = target
        self._function = target.function
        self._name = name_of(target.function)
        self._options = options
        captured = options.inputs, options.outputs
        self._cache = cache = cache_of(target.owner, *captured, options.shapeless)
        self._method_of: type | None = None
        is_fast = options.outputs is None and not options.verify
        self.prepare(
            cache.fast_entries if is_fast else None,
            options.inputs,
            target.bound,
            cache.fast_hits,
            target.has_receiver,
            options.shapeless,
        )

    if TYPE_CHECKING:

        def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...

    @property
    def bound(self) -> Any:
        """The method, partial or callable object that was compiled; None if it was a function."""
        return self._target.bound

    def __repr__(self) -> str:
        return f"<compiled {self._name}>"

    # Copies are the function itself, and it is pickled by its name, as other functions are.

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> str:
        return self._name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(
        self: CompiledFunction[Concatenate[S, Q], R], instance: S, owner: type | None = None
    ) -> CompiledMethod[Q, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if owner is not self._method_of or owner is None:
            # As in MLX, a compiled function is no method only because it is kept in a class; one
            # that is defined there is. A classmethod binds what it wraps to its class.
            if not self._target.is_method_of(type(instance)) and instance is not owner:
                return self
            self._method_of = owner
        return CompiledMethod(self, instance)

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
        explain: Any = importlib.import_module("ingot.explain.report")  # few programs need it
        call = self._call_with(args, kwargs).with_arrays()
        with capture_lock:
            started = time.perf_counter()
            _, arrays, _ = self._signature(call)
            traced = self._trace(call, contents_of(call))
            seconds = time.perf_counter() - started
            if traced is None:
                raise ValueError(
                    "[explain] the function depends on a transform that is running: "
                    "explain it outside."
                )
            shapes = self._shapes(arrays)
            states = [state[position] for state, position in traced.followed]
        values = traced.guards.values(shapes)
        mode = compile_mode()
        if mode is CompileMode.disabled:
            mode = CompileMode.enabled
        stages = run_pipeline(traced.for_values(values or ()), mode, self._name)
        inputs = [x._node for x in (*arrays, *states)]
        cache = explain.CacheReport(self._cache.info(), self._cache.described())
        explanation = explain.Explanation(self._name, stages, traced, inputs, cache)
        stages.seconds = {"trace": seconds, **stages.seconds}
        return explanation

    def slow_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], known: Any) -> Any:
        """A call that the fast path cannot answer; `known` is the signature that it looked for,
        of which only the key is there if objects or captured containers are involved, or None.
        """
        mode = compile_mode()
        if mode is CompileMode.disabled or _native.recording():
            return self._function(*args, **kwargs)  # the outermost trace sees the whole graph
        if len(kwargs) > 1:
            kwargs = self._in_order(kwargs)
        call = self._call_with(args, kwargs)
        fast_key = None if known is None else known[0]
        captures = call.inputs is not None or call.outputs is not None
        if known is not None and known[1] is not None and not captures:
            return self._call(call, known, mode, fast_key)
        # One thread at a time reads objects and captured containers, replaces them by placeholders,
        # or updates them. Tracing counts references to the placeholders, so no other thread may
        # read them meanwhile, not even to find out whether there are objects.
        with capture_lock:
            signature = self._signature(call)
            if captures or signature[-1]:
                return self._call(call, signature, mode, fast_key)
        return self._call(call, signature, mode, fast_key)

    def _call_with(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        options, target = self._options, self._target
        return Call(
            target.function,
            args,
            kwargs,
            options.inputs,
            options.outputs,
            target.bound,
            target.has_receiver,
        )

    def _signature(self, call: Call) -> Signature:
        try:
            return self.signature(call.args, call.kwargs, not self._options.shapeless)
        except ForeignArgument:
            raise foreign_argument(call) from None

    def _call(self, call: Call, signature: Signature, mode: CompileMode, fast_key: Hashable) -> Any:
        key, arrays, objects = signature
        if _native.in_tracing() and any(x._node.tracer for x in arrays):
            return call.run()  # the transform that runs follows its arrays
        full_key = (key, self._circumstances(), mode)
        known = Known(full_key, self._shapes(arrays), arrays, objects)
        if self._options.verify:
            return self._verified(call, known)
        return self._run(call, known, fast_key)

    def _in_order(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments sorted, if the function cannot tell."""
        if self._cache.keeps_keyword_order is None:
            self._cache.keeps_keyword_order = takes_any_keywords(self._function)
        return kwargs if self._cache.keeps_keyword_order else dict(sorted(kwargs.items()))

    def _circumstances(self) -> Hashable:
        """What an entry depends on besides arguments: the stream, and containers to update."""
        options = self._options
        stream: Hashable = (_native.current_stream(), numerics_key())
        if options.outputs is None or options.outputs is options.inputs:
            return stream
        return stream, structure(options.outputs)

    def _run(self, call: Call, known: Known, fast_key: Hashable) -> Any:
        counts = self._cache.counts
        entry = self._cache.entries.get(known.key)
        instance = None if entry is None else self._cache.get_of(entry, known)
        is_hit = instance is not None
        if is_hit:
            counts.add_hit()
        elif entry is not None and self._options.shapeless:
            instance = reshaped(self._cache, entry, known)
        if instance is None:
            instance = self._compile(call, known)
            if instance is None:
                return call.run()
        elif instance.trace.captures is not None:
            message = instance.trace.captures.warning(self._name)
            if message is not None:
                warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())
        if not instance.trace.is_pure:
            with uninterrupted(), state_lock:  # who is interrupted would keep the lock
                if instance.trace.fits_states():
                    traced = instance.trace
                    if fast_key is not None and traced.recipe is None and traced.tape.outputs:
                        self._remember(fast_key, instance)
                    return self._run_with_state(call, instance, known.arrays)
            # Another thread changed a state in the meantime: find what fits it now. The call is
            # counted once.
            if is_hit:
                counts.add_hit(-1)
            return self._run(call, known, fast_key)
        assert instance.result is not None
        if not instance.trace.tape.outputs:
            return instance.result.filled(())
        if fast_key is not None:
            self._remember(fast_key, instance)
        return instance.result.filled(apply_multiple(instance.op, *known.arrays))

    def _shapes(self, arrays: list[array]) -> Shapes:
        return tuple([x.shape for x in arrays]) if self._options.shapeless else ()

    def _remember(self, fast_key: Hashable, instance: Instance) -> None:
        """Makes the fast path handle equal calls from now on."""
        op = instance.op
        shapes, dtypes = zip(*op.program.results, strict=True)
        assert instance.result is not None
        builder = None if instance.result.is_array else instance.result.filled
        states = instance.trace.states_for_calls()
        answer = (op, shapes, dtypes, output_ops(len(shapes)), builder, states)
        if self._options.shapeless:
            self._cache.remember_shapeless(fast_key, instance, answer)
        else:
            self._cache.remember(fast_key, instance, answer)

    def _run_with_state(self, call: Call, instance: Instance, arrays: list[array]) -> Any:
        traced = instance.trace
        states = [state[position] for state, position in traced.followed]
        results: tuple[array, ...] = ()
        if traced.tape.outputs:
            results = apply_multiple(instance.op, *arrays, *states)
        result = None
        with uninterrupted():  # all of it is updated, or nothing
            for state, position, output in traced.updates:
                state[position] = results[output]
            if traced.recipe is not None:
                result = traced.recipe.replay(call.roots, results, instance.values)
        if instance.result is None:
            return result
        return instance.result.filled(results[: traced.result_count])

    def _compile(self, call: Call, known: Known) -> Instance | None:
        """The program for a signature, made now; None if only an enclosing transform can trace
        it.
        """
        cache = self._cache
        mode = known.key[-1]
        with cache.lock, compiling(self._name):
            found = cache.get(known)  # another thread may have been first
            if found is not None:
                cache.counts.add_hit()
                return found
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
                    cache.counts.add_shapes(account)
                    self._log(account)
                    return made
                problems.append(f"{SIZES_CHANGED}{size}")
            call = call.with_arrays()
            contents = contents_of(call)
            described = self._describe(call, contents, mode)
            account.reason = _joined(problems) or difference(cache.described(), described)
            self._complain(account.reason)
            traced = self._trace(call, contents)
            if traced is None:
                return None
            variant = Variant(traced)
            values = traced.guards.values(known.shapes) or []
            instance = self._instantiate(variant, known, values, account, started)
            cache.add_variant(known.key, variant, described)
            cache.counts.add_miss(account)
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
        if self._options.shapeless:
            program = self._shaped(variant, known.key[-1], values, account)
        else:
            with profiled("compile", f"{self._name}: simplify, fuse"):
                program = run_pipeline(traced.tape, known.key[-1], self._name, account).program
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
        with profiled("compile", f"{self._name}: simplify, fuse"):
            sizes, tape = symbolic_tape(variant.trace.tape, variant.trace.guards, values)
            made = SymbolicProgram(sizes, tape, values, mode, self._name, account)
        variant.add_program(made)
        return made.first(values)

    def _log(self, account: Account) -> None:
        log.info("compiled %s in %.1f ms: %s", self._name, account.seconds * 1e3, account.reason)

    def _trace(self, call: Call, contents: Contents) -> Trace | None:
        working("tracing")
        with profiled("compile", f"{self._name}: trace"):
            traced, escapes = self._traced(call, contents, False)
            if traced is not None and traced.depends_on_sharing:
                traced, escapes = self._traced(call, contents, True)
        if traced is not None and escapes.count > 0 and not self._cache.has_warned:
            self._warn_of(escapes, traced, call)
        return traced

    def _traced(self, call: Call, contents: Contents, shared: bool) -> tuple[Trace | None, Escapes]:
        escapes = Escapes()
        return trace(call, contents, self._options.shapeless, shared, escapes.recorder), escapes

    def _warn_of(self, escapes: Escapes, traced: Trace, call: Call) -> None:
        """Warns once per function about traced arrays that it stored somewhere."""
        constants = traced.result.constants if traced.result is not None else None
        others = {"the arguments": (call.args, call.kwargs), "the result": constants}
        message = escapes.warning(self._name, call.function, others, traced.returned)
        if message is not None:
            self._cache.has_warned = True
            warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())

    def _describe(self, call: Call, contents: Contents, mode: CompileMode) -> Any:
        circumstances = {
            "the stream": str(_native.current_stream()),
            "the mode": mode.value,
            "excess precision": str(excess_precision()),
            "product engine": product_engine(),
        }
        return describe(call, contents, circumstances)

    def _complain(self, reason: str) -> None:
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

    def _verified(self, call: Call, known: Known) -> Any:
        """Runs the function uncompiled and compiled from the same state and compares the
        results.
        """
        states = [*implicit_states(), self._options.inputs, self._options.outputs]
        snapshot = Snapshot([states, *call.roots])
        with uninterrupted() as ctrl_c:
            try:
                expected = ctrl_c.let_through(lambda: flat_values((call.run(), states)))
            finally:
                snapshot.restore()
        result = self._run(call, known, None)
        compare(self._name, expected, flat_values((result, states)))
        return result


def _joined(problems: list[str]) -> str:
    """Why no trace fits, from the latest; sizes are named together."""
    sizes = sorted({x.removeprefix(SIZES_CHANGED) for x in problems if x.startswith(SIZES_CHANGED)})
    if problems and problems[0].startswith(SIZES_CHANGED):
        return SIZES_CHANGED + ", ".join(sizes)
    return problems[0] if problems else ""
