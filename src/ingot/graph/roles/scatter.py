"""Scatters: ops that copy an array and combine updates into the rows that indices select."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value
    from ingot.graph.shape import Shape

__all__ = ["Scatter"]


class Scatter(Op, role=True):
    """The first input with the second, the updates, combined into it at indices, which are the
    other inputs and have been checked to be in bounds (`Check`).

    Write the field `axes`, the axes that are indexed, `position`, `emit_index` and `emit_combined`.
    One kernel distributes the rows over threads, so that the updates of a row are combined in
    order.
    """

    axes: Shape

    @property
    @abstractmethod
    def position(self) -> int:
        """The first axis of the updates that belongs to the indices."""

    @abstractmethod
    def emit_index(self, k: Kernel, index: Value, length: int) -> Value:
        """The nonnegative index along an axis of that length, as an int64."""

    @abstractmethod
    def emit_combined(self, k: Kernel, old: Value, new: Value) -> Value:
        """The value that replaces `old`."""

    emit = no_rule("a kernel of its own stores through indices")
