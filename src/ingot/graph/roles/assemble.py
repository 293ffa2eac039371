"""Assembly: ops whose result consists of copies of their inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.roles.view import View

__all__ = ["Assemble"]


class Assemble(Op, role=True):
    """Inputs copied to slices of the result: joining, padding, updating slices.

    Write `slices`. Every element of the result is in a slice; where slices overlap, the last one
    counts.
    """

    @abstractmethod
    def slices(self, *inputs: Any, **_: Any) -> list[tuple[int, View]]:
        """Which input is copied to which view of the result, in order."""

    emit = no_rule("its inputs are copied by loops of their own")
