"""Linear ops: each is its own derivative."""

from __future__ import annotations

from ingot._native import array
from ingot.graph.op import Op, apply

__all__ = ["Linear"]


class Linear(Op, abstract=True):
    """Ops of one input that are linear in it, such as movements."""

    def jvp(self, tangents: tuple[array | None, ...], out: array, x: array) -> array | None:
        tangent = tangents[0]
        return None if tangent is None else apply(self, tangent)
