"""Compositions as one node outside transforms, where a program of its own computes it."""

from __future__ import annotations

from ingot import _native
from ingot._native import array
from ingot.graph.device import StreamLike
from ingot.graph.op import apply
from ingot.graph.roles import Composite

__all__ = ["composed"]


def composed(op: Composite, *inputs: array, stream: StreamLike = None) -> array:
    """The result of a composition: one node or, inside a transform or a compiled function, the ops
    it is composed of. As a node it has a program for all lengths; op by op, a row of 576 takes
    eight times as long, and the 511 rows of a prompt, rotated, twice as long. The program of a
    whole graph contains the ops and fuses them with others.
    """
    if _native.in_tracing():
        return op.compose(*inputs)
    return apply(op, *inputs, stream=stream)
