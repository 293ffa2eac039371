"""Gathers: ops that load elements of their first input at computed indices, inside kernels."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value
    from ingot.graph.shape import Shape

__all__ = ["Gather"]


class Gather(Op, role=True):
    """Elements of the first input at indices, which are the other inputs and have the result's
    shape. That the indices are inside of their axes was checked before (`Check`).

    Write the field `axes`, which the indices belong to, `moved_strides` and `emit_indices`.
    """

    axes: Shape

    @abstractmethod
    def moved_strides(self, strides: Shape) -> Shape:
        """By how many bytes an address moves along each axis of the result, apart from what the
        indices do, given the strides of the first input.
        """

    @abstractmethod
    def emit_indices(self, k: Kernel, shape: Shape, *indices: Value) -> list[Value]:
        """The index along each of `axes` of an input of that shape, from its front, as an int64."""

    emit = no_rule("the kernel loads from an address that it computes")
