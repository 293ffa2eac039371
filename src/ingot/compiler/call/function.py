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
from ingot.compiler.call.cache import Known, cache_of
from ingot.compiler.call.cache_info import CacheInfo
from ingot.compiler.call.describe import contents_of, foreign_argument
from ingot.compiler.call.lengths import NO_AXES, all_axes
from ingot.compiler.call.misses import Misses
from ingot.compiler.call.reshaping import reshaped
from ingot.compiler.call.verify import compare, flat_values
from ingot.compiler.programs import prepare
from ingot.compiler.trace.call import Call
from ingot.compiler.trace.capture import Snapshot
from ingot.compiler.trace.trace import Axes
from ingot.graph.deferred import Deferred
from ingot.graph.outputs import apply_multiple, output_ops
from ingot.graph.reporting.hints import COMPILED, add_hints
from ingot.graph.reporting.source import depth_of_user
from ingot.graph.state import implicit_states, state_lock
from ingot.runtime.compile_mode import (
    CompileMode,
    UndeclaredStateWarning,
    compile_mode,
)
from ingot.runtime.per_owner_cache import capture_lock
from ingot.runtime.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from ingot.compiler import pipeline
    from ingot.explain.report import Explanation
else:
    pipeline = Deferred("ingot.compiler.pipeline")

__all__ = ["CompiledFunction", "compile"]

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
        self._misses = Misses(self._name, options, cache)
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
        mode, shapeless = compile_mode(), self._options.shapeless
        with capture_lock:
            started = time.perf_counter()
            key, arrays, objects = self._signature(call)
            known = Known((key, self._updated_structure(), mode), shapeless, arrays, objects, None)
            axes = self._symbolic_axes(call, known)
            traced = self._misses.trace(call, contents_of(call), axes)
            seconds = time.perf_counter() - started
            if traced is None:
                raise ValueError(
                    "[explain] the function depends on a transform that is running: "
                    "explain it outside."
                )
            states = [state[position] for state, position in traced.followed]
        values = traced.guards.values([x.shape for x in arrays])
        if mode is CompileMode.disabled:
            mode = CompileMode.enabled
        stages = pipeline.run_pipeline(traced.for_values(values or ()), mode, self._name)
        inputs = [x._node for x in (*arrays, *states)]
        cache = explain.CacheReport(self._cache.info(), self._cache.described())
        explanation = explain.Explanation(self._name, stages, traced, inputs, cache)
        stages.seconds = {"trace": seconds, **stages.seconds}
        return explanation

    def _symbolic_axes(self, call: Call, known: Known) -> Axes:
        """The axes whose lengths are symbols in the program that runs a call."""
        if known.is_symbolic:
            return all_axes(known.shapes)
        if known.key in self._cache.entries:
            return NO_AXES
        return self._cache.lengths.symbolic_axes(self._without_shapes(call, known).key)

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
        full_key = (key, self._updated_structure(), mode)
        known = Known(full_key, self._options.shapeless, arrays, objects, fast_key)
        if self._options.verify:
            return self._verified(call, known)
        return self._run(call, known)

    def _in_order(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Keyword arguments sorted, if the function cannot tell."""
        if self._cache.keeps_keyword_order is None:
            self._cache.keeps_keyword_order = takes_any_keywords(self._function)
        return kwargs if self._cache.keeps_keyword_order else dict(sorted(kwargs.items()))

    def _updated_structure(self) -> Hashable:
        """The structure of containers to update, unless they are inputs as well."""
        options = self._options
        if options.outputs is None or options.outputs is options.inputs:
            return None
        return structure(options.outputs)

    def _run(self, call: Call, known: Known) -> Any:
        counts = self._cache.counts
        instance, is_hit = self._found(known)
        if instance is None and not known.is_symbolic:
            known.general = self._without_shapes(call, known)
            if self._cache.lengths.has_symbols:
                instance, is_hit = self._found(known.general)
        if instance is None:
            instance = self._misses.compile(call, known)
            if instance is None:
                return call.run()
        elif instance.trace.captures is not None:
            message = instance.trace.captures.warning(self._name)
            if message is not None:
                warnings.warn(message, UndeclaredStateWarning, stacklevel=depth_of_user())
        if not instance.trace.is_pure:
            with uninterrupted(), state_lock:  # an interrupt would leave the lock held
                if instance.trace.fits_states():
                    traced = instance.trace
                    if traced.recipe is None and traced.tape.outputs:
                        self._remember(known, instance)
                    return self._run_with_state(call, instance, known.arrays)
            # Another thread changed a state meanwhile: find what fits it now. The call is
            # counted once.
            if is_hit:
                counts.add_hit(-1)
            return self._run(call, known)
        assert instance.result is not None
        if not instance.trace.tape.outputs:
            return instance.result.filled(())
        self._remember(known, instance)
        return instance.result.filled(apply_multiple(instance.op, *known.arrays))

    def _found(self, known: Known) -> tuple[Instance | None, bool]:
        """A program that need not be compiled, and whether the call is a hit."""
        entry = self._cache.entries.get(known.key)
        if entry is None:
            return None, False
        instance = self._cache.get_of(entry, known)
        if instance is not None:
            self._cache.counts.add_hit()
            return instance, True
        return reshaped(self._cache, entry, known) if known.is_symbolic else None, False

    def _without_shapes(self, call: Call, known: Known) -> Known:
        """The same call, with a key that all lengths of its arrays share."""
        key, _, _ = self.signature(call.args, call.kwargs, False)
        _, *others = known.key
        fast_key = None if known.fast_key is None else key
        return Known((key, *others), True, known.arrays, known.objects, fast_key)

    def _remember(self, known: Known, instance: Instance) -> None:
        """Makes the fast path handle equal calls from now on."""
        variant = instance.variant()
        if known.fast_key is None or variant is None:
            return
        op = instance.op
        shapes, dtypes = zip(*op.program.results, strict=True)
        assert instance.result is not None
        builder = None if instance.result.is_array else instance.result.filled
        states = instance.trace.states_for_calls()
        answer = (op, shapes, dtypes, output_ops(len(shapes)), builder, states)
        if not variant.is_symbolic:
            self._cache.remember(known.fast_key, instance, answer)
        elif known.general is None:
            self._cache.remember_shapeless(known.fast_key, instance, answer)
        else:
            self._cache.remember_shapeless(known.general.fast_key, instance, answer)
            self.look_without_shapes()

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
        result = self._run(call, known)
        compare(self._name, expected, flat_values((result, states)))
        return result


add_hints(CompiledFunction, COMPILED)


prepare()
