"""`compile` and fusion without it, before the compiler is loaded, which their first use does."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from ingot import _native
from ingot.graph.libraries import limit_blas_threads
from ingot.graph.roles import Map, Reduce, Tiled
from ingot.graph.roles.elementwise import is_approximate
from ingot.tuning_products import MIN_SMALL_RUNS_ALONE

if TYPE_CHECKING:
    from ingot.compiler.call import function

    # Not known at run time, so that the arguments are checked where callables are taken apart.
    P = ParamSpec("P")
    R = TypeVar("R")

__all__ = ["compile", "eager_fusion_info", "set_deterministic", "set_eager_fusion"]


@cache
def _function() -> Any:
    return importlib.import_module("ingot.compiler.call.function")


@cache
def _eager() -> Any:
    return importlib.import_module("ingot.compiler.call.eager")


def compile(
    fun: Callable[P, R],
    inputs: Any = None,
    outputs: Any = None,
    shapeless: bool = False,
    *,
    on_recompile: str | None = None,
    verify: bool = False,
) -> function.CompiledFunction[P, R]:
    """Compile a function: trace it once per signature, then run an optimised native program.

    Args:
        fun: A function of arrays, trees of arrays and constants; trees may contain modules,
            dataclasses and optimizers. A method takes its object as an input. Changes to arguments
            and captured containers are tracked; otherwise the function should be pure.
        inputs: A list, dict or tree of arrays that the function reads besides its arguments.
        outputs: A list, dict or tree of arrays that the function updates besides its result.
        shapeless: Whether one trace serves inputs of all shapes. Sizes are symbolic; if the
            function depends on the value of one, a call that changes it is traced again. Without
            `shapeless`, an axis becomes symbolic when it arrives with a fourth length.
        on_recompile: "warn" or "error" if a signature after the first has to be compiled.
        verify: Whether every call also runs uncompiled and compares the results, for debugging.

    Returns:
        The compiled function, with the methods `cache_info`, `cache_clear` and `explain`.
    """
    made: function.CompiledFunction[P, R] = _function().compile(
        fun, inputs, outputs, shapeless, on_recompile=on_recompile, verify=verify
    )
    return made


def set_eager_fusion(on: bool) -> None:
    """Choose whether large graphs are fused when they are evaluated without `compile`.

    Args:
        on: Whether to fuse them. The default is True unless INGOT_EAGER_FUSION is "off".
    """
    _native.set_callbacks(
        fuse=_evaluate_whole if on else None, program_often=_program_often if on else None
    )


def set_deterministic(on: bool) -> None:
    """Choose whether results are bitwise identical in every run, with any number of threads.

    If so, math functions come from the same library whether or not they are fused, the blocks of
    matrix products do not depend on the number of threads, and BLAS calls of NumPy and SciPy use
    one thread. Everything else is deterministic in any case. The first use of a math function takes
    longer, because it is compiled.

    Args:
        on: Whether to. The default is False unless INGOT_DETERMINISTIC is "1".
    """
    _deterministic(on)
    limit_blas_threads()


def _deterministic(on: bool) -> None:
    _native.set_deterministic(on)
    _native.set_callbacks(run_kernel=_run_kernel if on else None)
    _native.forget_programs()  # some ops have one only while this is on


def _run_kernel(node: Any, op: Any, values: tuple[Any, ...]) -> Any:
    """Runs a math function as a kernel instead of by NumPy; other ops run by their own rules."""
    if not values or not is_approximate(op, node.inputs[0].dtype):
        return NotImplemented
    return _math_kernels().run(op, values)


_small_runs = count(1)  # of ops that have not needed the compiler yet


def _program_alone(node: Any, op: Any, values: tuple[Any, ...]) -> Any:
    """Loads the compiler, which makes the programs of ops that have loop nests of their own."""
    if not op.runs_alone(*[value.shape for value in values]):
        if not op.is_compiled_often:
            return op.small_product(*values)
        if next(_small_runs) < MIN_SMALL_RUNS_ALONE:
            return NotImplemented  # asks again next time
    find = importlib.import_module("ingot.compiler.call.alone").program_alone
    _native.set_callbacks(program_alone=find)
    return find(node, op, values)


_native.set_callbacks(
    program_alone=_program_alone, alone_type=Tiled, map_type=Map, reduce_type=Reduce
)


def _program_often(node: Any, op: Any, values: tuple[Any, ...]) -> Any:
    return importlib.import_module("ingot.compiler.call.alone").program_often(op, values)


@cache
def _math_kernels() -> Any:
    return importlib.import_module("ingot.compiler.call.math_kernels")


def eager_fusion_info() -> dict[str, int]:
    """The number of graph structures seen, how many are compiled, and how often those ran."""
    found: dict[str, int] = _eager().eager_fusion_info()
    return found


def _evaluate_whole(nodes: list[Any], wanted: list[int], is_frequent: bool) -> Any:
    """Loads the compiler and passes it this graph and all later ones."""
    whole: Callable[..., Any] = _eager().evaluate_whole
    _native.set_callbacks(fuse=whole)
    return whole(nodes, wanted, is_frequent)


_ON = ("1", "on", "true", "yes")
if os.environ.get("INGOT_DETERMINISTIC", "").lower() in _ON:
    _deterministic(True)  # BLAS reads it before its first use
_OFF = ("0", "off", "false", "no")
set_eager_fusion(os.environ.get("INGOT_EAGER_FUSION", "on").lower() not in _OFF)
