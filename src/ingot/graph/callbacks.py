"""The interface between C and Python, from Python's side: the types of everything that C calls.

`Callbacks` are the keyword arguments of `_native.set_callbacks`, through which modules of all
layers register their functions with C when they are imported. The C half of the table, with the
attributes that C reads by name, is `_native/callbacks.h`; `tests/native/test_seam.py` compares the
two. C calls Python for what need not be fast, or what only Python can decide.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from types import CodeType
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict

if TYPE_CHECKING:
    import numpy as np

    from ingot._native import (
        Checked,
        Dtype,
        NativeProgram,
        Node,
        SmallReduction,
        UseCounter,
        array,
    )
    from ingot.graph.device import Stream
    from ingot.graph.op import Op
    from ingot.graph.reporting.source import Source
    from ingot.graph.shape import Shape

__all__ = ["Callbacks"]


class Callbacks(TypedDict, total=False):
    """The functions and objects that C uses. None unsets an optional one."""

    # Making arrays
    construct: Callable[[Any, Dtype | None], array]  # the array constructor
    coerce: Callable[[Any, Dtype | None], Any]  # an operand of another library, or NotImplemented
    scalar: Callable[[Any, Dtype], array]  # a 0-d constant
    dtype_named: Callable[[str], Dtype]  # what pickles call
    numpy_bfloat16: Callable[[], np.dtype[Any]]  # which is imported when it is first used
    resolve_stream: Callable[[Any], Stream]
    state_lock: Any  # the RLock held while implicit states are updated
    source_of: Callable[[CodeType, int], Source]  # (code, instruction) -> the user's line

    # Arguments, and errors of arguments
    operand_error: Callable[[str, Any, Any], NoReturn]  # (operator, left, right)
    keyword_refused: Callable[[dict[str, Any]], None]  # raises if the constructor has no such ones
    placeholder_error: Callable[[Node, Node], NoReturn]  # (placeholder, what needs its value)
    parameter_kinds: Callable[[Checked], tuple[tuple[str, ...], int, tuple[int, ...], int, int]]
    taken_arguments: Callable[
        [Checked, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]
    ]

    # Ops that C applies, and what transforms need from ops
    cast: Callable[[Dtype], Op]
    broadcast: Callable[[Shape], Op]
    broadcast_shapes: Callable[..., Shape]  # (name, *shapes): the general case, and its error
    conjugate: Callable[[array], array]
    elementwise_vjp: Callable[..., tuple[Any, ...]]  # ops with this rule define their partials
    update_type: type[Any] | None  # `SliceUpdate`
    sum_of_slices: Callable[[array, array], array | None] | None
    outputs_of: Callable[[Node], tuple[array, ...]]
    output_type: type[Any]  # `Output`
    view_type: type[Any]  # the role `View`

    # Evaluation
    evaluate_large: Callable[..., Any]  # (op, *ndarrays) -> what op.evaluate returns, in blocks
    make_context: Callable[[], Context]  # the context in which NumPy is called
    # (nodes, indices of live-out ones, whether it is small and frequent): evaluates a graph as a
    # whole, or declines; returns the program for graphs like it, and the counter of its runs
    fuse: Callable[[list[Node], list[int], bool], bool | tuple[NativeProgram, UseCounter]] | None
    run_checked: Callable[[Node, Op, tuple[np.ndarray, ...]], Any] | None  # mx.debug_nans
    run_kernel: Callable[[Node, Op, tuple[np.ndarray, ...]], Any] | None  # mx.set_deterministic
    compiled_type: type[Any]  # `Compiled`
    shaped_type: type[Any]  # `ShapedProgram`
    alone_type: type[Any] | None  # ops that are whole programs, and what makes those
    program_alone: Callable[[Node, Op, tuple[np.ndarray, ...]], Any] | None
    map_type: type[Any] | None  # the roles `Map` and `Reduce`, and what makes the programs of
    reduce_type: type[Any] | None  # their ops that are evaluated often
    program_often: Callable[[Node, Op, tuple[np.ndarray, ...]], NativeProgram | None] | None
    ordered_type: type[Any] | None  # `Ordered`: communication, and its tokens
    # of communication: op, shape, dtype and value
    token: tuple[Op, tuple[()], Dtype, np.ndarray] | None
    finish_type: type[Any] | None  # `Finish`, from the first one on
    reduction_type: type[Any] | None  # reductions over processes, and what runs small ones
    small_reduction: Callable[[Node, Op, tuple[np.ndarray, ...]], SmallReduction | None] | None

    # Errors of evaluations
    explain_node: Callable[[BaseException, Node], BaseException]
    explain_instruction: Callable[[BaseException, Any, int], BaseException]
    shorten: Callable[[BaseException], None] | None

    # Profiles, while one runs; times are nanoseconds of the monotonic clock
    ran_node: Callable[[Node, int, int], Any] | None  # (node, begin, end)
    ran_program: Callable[[Any, bytes], Any] | None  # (about, times)
    ran_loop: Callable[[Any, bytes, int], Any] | None  # (about, times, iterations)

    # Types that compiled functions recognise
    enum_metatype: type[type]
    partial_type: type[Any]
