"""Layouts of values in memory, by which views are free.

A layout is an offset and a stride per axis, in bytes, relative to the memory of the value that is
viewed.
"""

from __future__ import annotations

from ingot.compiler.forms.tape import Step
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.outputs import Output
from ingot.graph.roles import View
from ingot.graph.shape import contiguous, size_of

__all__ = ["Layout", "layout_of_view", "passed_input", "passes_inputs"]


@dataclass(frozen=True)
class Layout:
    """Offset and strides in bytes."""

    offset: int
    strides: tuple[int, ...]


def layout_of_view(step: Step, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]] | None:
    """Offset and strides in bytes of a view of a value with the given strides; None if only a copy
    can be viewed that way. An empty view has its source's address, because the address of its first
    element might lie outside the source's memory.
    """
    if size_of(step.shape) == 0:
        return 0, contiguous(step.shape, step.dtype.size)
    assert isinstance(step.op, View)
    return step.op.layout(step.inputs[0].shape, strides)


def passes_inputs(step: Step) -> bool:
    """Whether all outputs of a step with several outputs alias its inputs."""
    op = step.op
    return op is not None and op.several_outputs and op.passed_input(0) is not None


def passed_input(step: Step) -> Step | None:
    """The input that an output aliases, if any."""
    if not isinstance(step.op, Output) or not passes_inputs(step.inputs[0]):
        return None
    whole = step.inputs[0]
    assert whole.op is not None
    number = whole.op.passed_input(step.op.index)
    return None if number is None else whole.inputs[number]
