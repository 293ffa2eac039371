"""Maps: ops that compute each element from the corresponding elements of their inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ingot.graph.op import Op
from ingot.graph.roles.view import behind_views
from ingot.graph.shape import size_of

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value

__all__ = ["Map", "PairedMap", "is_positive", "is_single", "is_zero_of_zero"]


class Map(Op, role=True):
    """Computes each element separately, from the same element of inputs of the result's shape.

    Write `emit`: the element as an expression in the kernel vocabulary. Maps fuse into the loops of
    their producers and consumers. `Elementwise` derives most of the other rules.
    """

    # An operand, of two, that leaves the other one as it is, bit by bit.
    neutral: ClassVar[int | None] = None
    # Operands, of two, that leave the other one as it is if they are 0, except for the sign of 0.
    neutral_at: ClassVar[tuple[int, ...]] = ()
    # Whether no result is below 0.
    is_not_negative: ClassVar[bool] = False

    @abstractmethod
    def emit(self, k: Kernel, *values: Any, **_: Any) -> Value:
        """One element of the result, given one of each input."""

    def is_zero(self, are_zero: Sequence[bool], *inputs: Any) -> bool:
        """Whether the result is 0 wherever some of the inputs are, given which of them, and that
        single numbers among the others are finite, and not 0 as a divisor.
        """
        return False

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


def is_zero_of_zero(op: Op, are_zero: Sequence[bool], *inputs: Any) -> bool:
    """`Map.is_zero` of ops of one input that map 0 to 0."""
    return are_zero[0]


def is_single(step: Any) -> bool:
    """Whether a step of a program is one number, also through views."""
    return bool(size_of(behind_views(step).shape) == 1)


def is_positive(step: Any) -> bool:
    """Whether a step is the sum of a constant above 0 and of what is not negative."""
    if not isinstance(step.op, Map) or step.op.neutral_at != (0, 1):
        return False
    for root, constant in (step.inputs, step.inputs[::-1]):
        value = behind_views(constant).value
        if isinstance(root.op, Map) and root.op.is_not_negative and value is not None:
            return bool((value > 0).all())
    return False
