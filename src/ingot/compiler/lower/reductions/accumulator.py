"""The accumulator of a reduction: in which dtype elements are combined, and how they get there."""

from __future__ import annotations

from ingot._native import Dtype
from ingot.compiler.forms.nest.data import Constant, Value
from ingot.compiler.forms.nest.words import RANKS
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder
from ingot.graph.dtype import bfloat16, complex64, float16, float32, float64
from ingot.graph.roles import Reduce

__all__ = ["Accumulator"]


class Accumulator:
    """A reduction's accumulator. Half types accumulate in float32 until the result is rounded; the
    sums of blocks of these and of float32 are added up in float64. Extremes of floating-point
    numbers are those of their ranks: the larger of two integers takes one instruction, that of two
    numbers, either of which may be NaN or a zero with a sign, three to six.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        assert isinstance(step.op, Reduce)
        self.op = step.op
        is_half = step.dtype is float16 or step.dtype is bfloat16
        self.dtype: Dtype = float32 if is_half else step.dtype
        self.total: Dtype = float64 if self.op.sums and self.dtype is float32 else self.dtype
        self.ranks = bool(self.op.order) and step.dtype in RANKS
        if self.ranks:
            self.dtype = self.total = RANKS[step.dtype]

    @property
    def in_lanes(self) -> bool:
        """Whether bundles can be combined as vectors, which the order of complex numbers does not
        allow.
        """
        return self.dtype is not complex64 or self.op.depends_on_order()

    def start(self, dtype: Dtype) -> Constant:
        """The initial value."""
        return Constant(dtype, self.op.start(dtype if self.ranks else self.step.dtype))

    def combine(self, builder: GroupBuilder, a: Value, b: Value) -> Value:
        """Combines two partial results."""
        found: Value = self.op.combine(builder.words, a, b)
        return found

    def added(self, builder: GroupBuilder, x: Value) -> Value:
        """An element in the dtype of the accumulator."""
        if self.ranks:
            return builder.words.rank(x, self.op.order)
        return builder.words.taken_for(x, self.dtype)

    def widened(self, builder: GroupBuilder, x: Value) -> Value:
        """A partial result in the dtype of totals."""
        return builder.words.cast(x, self.total)

    def result(self, builder: GroupBuilder, x: Value) -> Value:
        """The result of the reduction from its total."""
        if self.ranks:
            found = builder.words.from_rank(x, self.step.dtype, self.op.order)
        else:
            x = builder.words.cast(x, self.dtype)
            found = builder.rounded(builder.words.taken_for(x, self.step.dtype))
        found.origin = self.step
        return found
