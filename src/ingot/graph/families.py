"""Families: what ops of a kind share, derived once. An op overrides only what differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import isinf
from typing import TYPE_CHECKING, Any, ClassVar, cast

from numpy import iinfo

from ingot._native import Dtype, Lift, array, scaled_by_partial, set_callbacks
from ingot.graph.blocks import longest_axis
from ingot.graph.dtype import (
    ALL_DTYPES,
    bool_,
    complex64,
    is_complex,
    is_inexact,
    is_integer,
)
from ingot.graph.op import Op, Partial, apply, no_rule

if TYPE_CHECKING:
    from ingot.graph.kernel import Value
    from ingot.graph.shape import Shape

__all__ = [
    "ANY",
    "COMPLEX",
    "FLOATING",
    "INTEGRAL",
    "REAL",
    "Elementwise",
    "Linear",
    "Reduce",
    "dtype_mask",
    "is_approximate",
    "lift",
    "neutral_value",
]


def dtype_mask(dtypes: tuple[Dtype, ...]) -> int:
    """The set of dtypes as the bits that `Lift` takes."""
    return sum(1 << dtype.number for dtype in dtypes)


ANY = dtype_mask(ALL_DTYPES)
REAL = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if not is_complex(dtype)))
COMPLEX = dtype_mask((complex64,))
FLOATING = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if is_inexact(dtype)))
INTEGRAL = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if not is_inexact(dtype)))


class Elementwise(Op, abstract=True):
    """Ops that compute each element from the same elements of inputs of equal shape."""

    role = "map"

    name: ClassVar[str]  # the function that users call, for error sentences
    arity: ClassVar[int] = 1
    operands: ClassVar[str] = (
        "promote"  # or "floating", "logical", "select": the inputs' common dtype
    )
    result: ClassVar[str] = "same"  # or "bool", "real": the result's dtype, given the operands'
    accepts: ClassVar[int] = ANY  # the dtypes it takes, after promotion
    refusal: ClassVar[type[Exception]] = ValueError  # what is raised for other dtypes

    def infer(self, *inputs: array) -> tuple[Shape, Dtype]:
        return inputs[0].shape, lift(self).result_dtype(inputs[-1].dtype)

    worth_cutting = 1 << 24

    def block_axis(self, *inputs: Any) -> int | None:
        return longest_axis(inputs[0].shape)

    # (out, *inputs) -> the derivative by each input: an array, 1, -1, None (there is none), or a
    # function without arguments that makes the array
    partials: Callable[..., tuple[Partial, ...]]

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[Any, ...]:
        # Reverse mode asks for the partials itself, in C, and scales those that it needs.
        partials = self.partials(out, *inputs)
        return tuple(scaled_by_partial(cotangent, partial, True) for partial in partials)

    def jvp(self, tangents: tuple[array | None, ...], out: array, *inputs: array) -> array | None:
        total: array | None = None
        for tangent, partial in zip(tangents, self.partials(out, *inputs), strict=True):
            if tangent is None:
                continue
            term = scaled_by_partial(tangent, partial, False)
            if term is not None:
                total = term if total is None else total + term
        return total

    def vmap(self, size: int, batched: tuple[bool, ...], *inputs: array) -> array:
        # Without the batch axis in front, an input broadcasts along it.
        return lift(self)(*inputs)


set_callbacks(elementwise_vjp=Elementwise.vjp)


@cache
def lift(op: Elementwise) -> Lift:
    """The function that applies `op` to arrays and Python scalars, and then perhaps a stream."""
    return Lift(op, op.name, op.arity, op.operands, op.result, op.accepts, op.refusal)


def is_approximate(op: Op, dtype: Dtype) -> bool:
    """Whether NumPy and kernels may differ in the last places of what an op makes of a dtype."""
    return bool(op.approximate >> dtype.number & 1)


class Linear(Op, abstract=True):
    """Ops of one input that are linear in it, such as movements."""

    def jvp(self, tangents: tuple[array | None, ...], out: array, x: array) -> array | None:
        tangent = tangents[0]
        return None if tangent is None else apply(self, tangent)


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


class Reduce(Op, abstract=True):
    """Reductions over `axes` (sorted, not negative), which stay in the result with length 1.

    Elements are converted to the result's dtype and combined, starting from `start`, in the order
    of `reduction_order.py` or, unless `depends_on_order`, in any.
    """

    role = "reduce"

    axes: tuple[int, ...]
    identity: ClassVar[float]  # what `combine` leaves as it is; inf: the dtype's extreme value
    combine: Callable[..., Value]  # (k, a, b) -> how two partial results become one

    def result_dtype(self, dtype: Dtype) -> Dtype:
        """The dtype of the result for inputs of `dtype`."""
        return dtype

    def depends_on_order(self) -> bool:
        """Whether the order in which elements are combined shows in the bits of the result."""
        return False

    def start(self, dtype: Dtype) -> complex | bool:
        """`identity` as a number that a result of `dtype` can hold."""
        return neutral_value(self.identity, dtype)

    def infer(self, x: array) -> tuple[Shape, Dtype]:
        lengths = list(x.shape)
        for axis in self.axes:
            lengths[axis] = 1
        return tuple(lengths), self.result_dtype(x.dtype)

    def vmap(self, size: int, batched: tuple[bool, ...], x: array) -> array:
        shifted: Any = replace(cast(Any, self), axes=tuple(axis + 1 for axis in self.axes))
        return apply(shifted, x)

    emit = no_rule("a reduction is a loop, which the code generator makes of start and combine")
