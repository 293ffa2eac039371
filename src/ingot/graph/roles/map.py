"""Maps: ops that compute each element from the corresponding elements of their inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from ingot.graph.op import Op

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value

__all__ = ["Map", "PairedMap"]


class Map(Op, role=True):
    """Each element by itself, from the same elements of inputs of the result's shape.

    Write `emit`: the element as an expression in the kernel vocabulary. Maps fuse into the
    loops of what they read and of what reads them. `Elementwise` derives most of the other rules.
    """

    @abstractmethod
    def emit(self, k: Kernel, *values: Any, **_: Any) -> Value:
        """One element of the result, given one of each input."""

    def upcasts(self, *inputs: Any) -> bool:
        """Whether it is a cast of its one input to a larger dtype: next to no work, so that it is
        better computed again by each reader than kept in memory.
        """
        return False


class PairedMap(Map, role=True):
    """A map that has two elements for the work of one, such as a cipher that makes two words.

    Write `paired_elements` and `emit_pair`. The first input is an element's position among all of
    them; the pair of a position in the front half is as far into the back half. Of an odd number of
    elements the front half has one more, whose pair is never asked for.
    """

    @property
    @abstractmethod
    def paired_elements(self) -> int:
        """How many elements there are."""

    @abstractmethod
    def emit_pair(self, k: Kernel, position: Value, *values: Any, **_: Any) -> tuple[Value, Value]:
        """The element at a position in the front half, and its pair with the same other inputs."""
