"""Reductions: ops that combine the elements along some axes into one, and selections, which keep
some elements of each row.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import isinf
from typing import TYPE_CHECKING, Any, ClassVar, cast

from numpy import iinfo

from ingot._native import Dtype, array
from ingot.graph.dtype import bool_, is_complex, is_integer
from ingot.graph.op import Op, apply, no_rule

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value
    from ingot.graph.shape import Shape

__all__ = ["Reduce", "Selection", "neutral_value"]


def neutral_value(identity: float, dtype: Dtype) -> complex | bool:
    """`identity` as a number of that dtype; infinities become the dtype's extreme values."""
    if dtype is bool_:
        return identity > 0
    if is_complex(dtype) and isinf(identity):
        return complex(identity, identity)
    if is_integer(dtype) and isinf(identity):
        limits = iinfo(dtype.numpy)
        return int(limits.max if identity > 0 else limits.min)
    return identity


class Reduce(Op, role=True):
    """Reductions over `axes` (sorted, not negative), which stay in the result with length 1.

    Write a frozen dataclass with the field `axes`, the number `identity` and the method `combine`,
    besides `evaluate`, `vjp` and `jvp`; `infer` and `vmap` follow. Elements are converted to the
    result's dtype and combined, starting from `start`, in the order of `reduction_order.py` or,
    unless `depends_on_order`, in any. A reduction along rows fuses with what makes and what reads
    the rows.
    """

    axes: Shape
    identity: ClassVar[float]  # the identity of `combine`; inf: the dtype's extreme value
    sums: ClassVar[bool] = False  # partial results are kept in higher precision
    # Extremes: `combine` compares the ranks of floating-point numbers, in an order in which NaN is
    # the "largest" or the "smallest".
    order: ClassVar[str] = ""

    @abstractmethod
    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        """Combine two partial results, in the kernel vocabulary."""

    def result_dtype(self, dtype: Dtype) -> Dtype:
        """The dtype of the result for inputs of `dtype`."""
        return dtype

    def depends_on_order(self) -> bool:
        """Whether the order in which elements are combined can change the result's bits."""
        return False

    def start(self, dtype: Dtype) -> complex | bool:
        """`identity` in a form that a result of `dtype` can hold."""
        return neutral_value(self.identity, dtype)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        lengths = list(x.shape)
        for axis in self.axes:
            lengths[axis] = 1
        return tuple(lengths), self.result_dtype(x.dtype)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        shifted: Reduce = replace(cast(Any, self), axes=tuple(axis + 1 for axis in self.axes))
        return apply(shifted, x)

    emit = no_rule("a reduction is a loop, which the code generator makes of start and combine")


class Selection(Op, abstract=True):
    """Ops that select few elements of each row of their one input."""

    @abstractmethod
    def by_blocks(
        self,
        build: Callable[..., Any],
        elements: Callable[[Callable[[Any], Any]], Any],
        x: Any,
    ) -> Any | None:
        """The same of elements that maps compute, without storing all of them; None if storing
        them is as fast.

        `x` are these elements. `elements(view)` returns what the same maps compute of views, or
        gathers, of what they read. `build(op, *inputs)` returns the result of an op.
        """
