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
    shape. The indices have been checked to be in bounds (`Check`).

    Write the field `axes`, the axes that are indexed, `moved_strides` and `emit_indices`.
    """

    axes: Shape

    @abstractmethod
    def moved_strides(self, strides: Shape) -> Shape:
        """The stride in bytes along each axis of the result, apart from what the indices
        contribute, given the strides of the first input.
        """

    @abstractmethod
    def emit_indices(self, k: Kernel, shape: Shape, *indices: Value) -> list[Value]:
        """The nonnegative index along each of `axes` of an input of that shape, as an int64."""

    emit = no_rule("the kernel loads from an address that it computes")
