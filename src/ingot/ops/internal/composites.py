"""Compositions as one node where that is faster: on few elements, outside transforms."""

from __future__ import annotations

from ingot import _native
from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.op import apply
from ingot.graph.roles import Composite
from ingot.tuning import MAX_COMPOSITE_ELEMENTS

__all__ = ["composed"]


def composed(op: Composite, *inputs: array, stream: StreamLike = None) -> array:
    """The result of a composition whose first input has about that many elements: one node for few
    of them; otherwise, or inside a transform or a compiled function, the ops it is composed of.
    """
    if not _native.in_tracing() and inputs[0].size <= MAX_COMPOSITE_ELEMENTS:
        return apply(op, *inputs, stream=stream)
    return op.compose(*inputs)
