"""Errors of evaluation: which op failed, on what inputs, and which line of the user's program asked
for it.

Input: an exception that an op's rule or an instruction of a program raised, with the node or the
instruction, from native code (`_native/evaluate/failure.c`). Output: the exception to raise
instead, usually the same one with a sentence added. Its type stays, except that a request that
exceeds memory is always a MemoryError. Tracebacks lose ingot's own frames, unless
INGOT_TRACEBACK=full.
"""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any

from ingot import _native
from ingot._native import Dtype, Node
from ingot.graph.errors import operation_text
from ingot.graph.shape import size_of

__all__ = ["install", "named"]

ADVICE = "Compute in smaller chunks, or drop arrays that are not needed any more."


# What failed


def _explain_node(error: BaseException, node: Node) -> BaseException:
    """For a node that was evaluated by its op's rule, or for a compiled function as a whole."""
    op = node.op
    if op is None:
        return error  # another thread was faster, and the node has dropped its op
    return _explained(error, operation_text(op, node.inputs, node.origin), _nbytes(node))


def _explain_instruction(error: BaseException, about: Any, number: int) -> BaseException:
    """For an instruction of a program; a negative index stands for the program's own
    allocations.
    """
    if about is None:
        return error
    if number < 0:
        largest = max(
            (step for work in about.work for step in work.writes if _has_size(step)),
            key=lambda step: step.nbytes,
            default=None,
        )
        text = f"the values of {about.name}, compiled as a whole"
        if largest is None:
            return _explained(error, text, 0)
        text += f"; the largest is of {_step_text(largest)}"
        return _explained(error, text, largest.nbytes)
    work = about.work[number]
    text = _step_text(work.steps[0]) if len(work.steps) == 1 else work.name
    return _explained(error, text, max((s.nbytes for s in work.steps if _has_size(s)), default=0))


def _step_text(step: Any) -> str:
    """Name the op that the user wrote, which the program may have expanded into others."""
    step = step.expanded_from or step
    source = step.source
    if isinstance(source, int):  # the index of a node in a graph that was not traced
        nodes = _native.evaluated_nodes()
        source = nodes[source].origin if source < len(nodes) else None
    return operation_text(step.op, step.inputs, source)


def _explained(error: BaseException, operation: str, nbytes: int) -> BaseException:
    """The error with a sentence that names the operation; errors that have one are unchanged."""
    if getattr(error, "names_operation", False):
        return error
    explained: BaseException = _of_memory(error, operation, nbytes) or error
    if explained is error:
        sentence = f"Raised by {operation}."
        if len(error.args) == 1 and isinstance(error.args[0], str):
            text = error.args[0].rstrip()
            end = "" if text.endswith((".", "!", "?")) else "."
            error.args = (f"{text}{end} {sentence}",)
        else:
            error.add_note(sentence)
    return named(explained)


def named(error: BaseException) -> BaseException:
    """The error, marked as naming its operation, so that no other is added."""
    error.names_operation = True  # type: ignore[attr-defined]
    return error


def _of_memory(error: BaseException, operation: str, nbytes: int) -> MemoryError | None:
    """A MemoryError that says what needed how much; None for other errors."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if isinstance(error, MemoryError):
        text = str(error)
        if shape is not None and dtype is not None:  # NumPy's exception
            text = _native.memory_text(min(size_of(shape) * dtype.itemsize, sys.maxsize))
        elif not text.startswith("[malloc]"):
            text = _native.memory_text(min(nbytes, sys.maxsize))
    elif isinstance(error, ValueError | OverflowError) and nbytes > _native.memory_reach():
        text = _native.memory_text(min(nbytes, sys.maxsize))  # NumPy: ValueError
    else:
        return None
    explained = MemoryError(f"{text} It was for {operation}. {ADVICE}")
    explained.__traceback__, explained.__suppress_context__ = error.__traceback__, True
    return explained


def _has_size(step: Any) -> bool:
    return isinstance(step.dtype, Dtype)


def _nbytes(node: Node) -> int:
    if isinstance(node.dtype, Dtype):
        return size_of(node.shape) * node.dtype.size
    return sum(size_of(s) * d.size for s, d in zip(node.shape, node.dtype, strict=True))


def _shorten(error: BaseException) -> None:
    """Remove ingot's own frames from the traceback of an error that leaves ingot.

    The traceback so far lies inside ingot: its own functions are removed, user functions that it
    called stay.
    """
    kept = []
    entry = error.__traceback__
    while entry is not None:
        if not _native.is_own_code(entry.tb_frame.f_code):
            kept.append(entry)
        entry = entry.tb_next
    shortened = None
    for each in reversed(kept):
        shortened = TracebackType(shortened, each.tb_frame, each.tb_lasti, each.tb_lineno)
    error.__traceback__ = shortened


def install() -> None:
    """Register this module's handlers for failed evaluations with native code."""
    _native.set_callbacks(explain_node=_explain_node, explain_instruction=_explain_instruction)
    if os.environ.get("INGOT_TRACEBACK", "") != "full":
        _native.set_callbacks(shorten=_shorten)
