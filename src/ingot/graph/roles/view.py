"""Views: ops whose elements are their input's, under other strides."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ingot import _native
from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.shape import Shape

__all__ = ["View", "behind_views"]


class View(Op, role=True):
    """The elements of the one input under other strides. Views move no memory.

    Write `layout`, and set `keeps_order` or `broadcasts` where they hold: the fuser keeps such
    views inside loops.
    """

    keeps_order: ClassVar[bool] = False  # the elements in row-major order are the input's
    broadcasts: ClassVar[bool] = False  # elements are repeated along axes

    @abstractmethod
    def layout(self, shape: Shape, strides: Shape) -> tuple[int, Shape] | None:
        """The layout of the result, given the shape and the strides in bytes of the input.

        The offset of the first element and the strides, in bytes; None if no strides can describe
        it.
        """

    def extent(self, shape: Shape) -> Shape:
        """How far along each axis it reads its input, whose other elements could be absent."""
        return shape

    def interval(self, *inputs: Any) -> tuple[int, int] | None:
        found: tuple[int, int] | None = inputs[0]
        return found

    emit = no_rule("a view is index arithmetic of the loop that reads it")


def behind_views(step: Any) -> Any:
    """What a step of a program is a view of, also through other views; itself if it is none."""
    while isinstance(step.op, View):
        step = step.inputs[0]
    return step


_native.set_callbacks(view_type=View)
