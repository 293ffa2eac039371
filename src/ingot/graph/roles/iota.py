"""Iotas: ops whose elements are affine functions of their index."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.shape import Shape

__all__ = ["Iota"]


class Iota(Op, role=True):
    """Numbers that grow by a fixed step along each axis, starting at 0. They have no inputs and are
    never stored: a kernel computes them from its loop counters.

    Write `steps`.
    """

    @property
    @abstractmethod
    def steps(self) -> Shape:
        """The step along each axis of the result."""

    emit = no_rule("the loop around it knows the position")
