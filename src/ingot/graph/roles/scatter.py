"""Scatters: ops that copy an array and combine updates into the rows that indices name."""

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
    other inputs. That these are inside of their axes was checked before (`Check`).

    Write the field `axes`, which the indices belong to, `position`, `emit_index` and
    `emit_combined`. One kernel shares out the rows among threads, so that the updates of a row are
    combined in their order.
    """

    axes: Shape

    @property
    @abstractmethod
    def position(self) -> int:
        """Where the axes of the indices begin in the shape of the updates."""

    @abstractmethod
    def emit_index(self, k: Kernel, index: Value, length: int) -> Value:
        """An index along an axis of that length, from its front, as an int64."""

    @abstractmethod
    def emit_combined(self, k: Kernel, old: Value, new: Value) -> Value:
        """What is stored where `old` was."""

    emit = no_rule("a kernel of its own stores through indices")
