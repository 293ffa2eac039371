"""Maps: ops that compute each element from the corresponding elements of their inputs."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from ingot.graph.op import Op

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value

__all__ = ["Map", "PairedMap"]


class Map(Op, role=True):
    """Computes each element separately, from the same element of inputs of the result's shape.

    Write `emit`: the element as an expression in the kernel vocabulary. Maps fuse into the loops of
    their producers and consumers. `Elementwise` derives most of the other rules.
    """

    # An operand, of two, that leaves the other one as it is, bit by bit.
    neutral: ClassVar[int | None] = None

    @abstractmethod
    def emit(self, k: Kernel, *values: Any, **_: Any) -> Value:
        """One element of the result, given one of each input."""

    def upcasts(self, *inputs: Any) -> bool:
        """Whether it is a cast of its one input to a larger dtype: almost free, so that each
        consumer should rematerialise it rather than store it.
        """
        return False


class PairedMap(Map, role=True):
    """A map that produces two elements for the work of one, such as a cipher that yields two words.

    Write `paired_elements` and `emit_pair`. The first input is the position of an element. Position
    i of the front half is paired with position i of the back half. For an odd number of elements
    the front half has one more, whose pair is never used.
    """

    @property
    @abstractmethod
    def paired_elements(self) -> int:
        """How many elements there are."""

    @abstractmethod
    def emit_pair(self, k: Kernel, position: Value, *values: Any, **_: Any) -> tuple[Value, Value]:
        """The element at a position in the front half, and its pair, for the same other inputs."""
