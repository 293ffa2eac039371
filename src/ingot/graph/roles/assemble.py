"""Assembly: ops whose result consists of copies of their inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.roles.view import View
    from ingot.graph.shape import Shape

__all__ = ["Assemble"]


class Assemble(Op, role=True):
    """Inputs copied to slices of the result: joining, padding, updating slices.

    Write `slices`. Every element of the result is in a slice; where slices overlap, the last one
    counts. Write `boxes` too, if slices have no gaps, and set `disjoint` if they never overlap:
    then loops read the inputs in place, or write them where they belong, without copies.
    """

    disjoint: ClassVar[bool] = False  # no element of the result is in two slices

    @abstractmethod
    def slices(self, *inputs: Any, **_: Any) -> list[tuple[int, View]]:
        """Which input is copied to which view of the result, in order."""

    def boxes(self, *inputs: Any, **_: Any) -> list[tuple[int, Shape]] | None:
        """The same as input and index of its first element in the result; None if a slice has gaps
        or is reversed.
        """
        return None

    emit = no_rule("its inputs are copied by loops of their own")
