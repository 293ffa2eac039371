"""Elementwise ops: the rules that follow from partial derivatives, and sets of dtypes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from ingot._native import Dtype, Lift, array, scaled_by_partial, set_callbacks
from ingot.graph.dtype import ALL_DTYPES, complex64, is_complex, is_inexact
from ingot.graph.numerics.blocks import longest_axis
from ingot.graph.op import Op, Partial
from ingot.graph.roles.map import Map

if TYPE_CHECKING:
    from ingot.graph.shape import Shape

__all__ = [
    "ANY",
    "COMPLEX",
    "FLOATING",
    "INTEGRAL",
    "REAL",
    "Elementwise",
    "Pointwise",
    "dtype_mask",
    "is_approximate",
    "lift",
]


def dtype_mask(dtypes: tuple[Dtype, ...]) -> int:
    """The set of dtypes as the bits that `Lift` takes."""
    return sum(1 << dtype.number for dtype in dtypes)


ANY = dtype_mask(ALL_DTYPES)
REAL = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if not is_complex(dtype)))
COMPLEX = dtype_mask((complex64,))
FLOATING = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if is_inexact(dtype)))
INTEGRAL = dtype_mask(tuple(dtype for dtype in ALL_DTYPES if not is_inexact(dtype)))


class Pointwise(Op, abstract=True):
    """Ops that compute each element from the corresponding elements of inputs of equal shape, on
    the host or in kernels: `infer`, `vjp`, `jvp` and `vmap` follow from these declarations and
    from `partials`.
    """

    name: ClassVar[str]  # the function that users call, for error messages
    arity: ClassVar[int] = 1
    operands: ClassVar[str] = (
        "promote"  # or "floating", "logical", "select": the inputs' common dtype
    )
    result: ClassVar[str] = "same"  # or "bool", "real": the result's dtype, given the operands'
    accepts: ClassVar[int] = ANY  # the dtypes it takes, after promotion
    refusal: ClassVar[type[Exception]] = ValueError  # raised for other dtypes

    def infer(self, *inputs: array) -> tuple[Shape, Dtype]:
        return inputs[0].shape, lift(self).result_dtype(inputs[-1].dtype)

    worth_cutting = 1 << 24

    def block_axis(self, *inputs: Any) -> int | None:
        return longest_axis(inputs[0].shape)

    # (out, *inputs) -> the partial derivative for each input: an array, 1, -1, None (zero), or a
    # thunk that makes the array
    partials: Callable[..., tuple[Partial, ...]]

    def vjp(self, cotangent: array, out: array, *inputs: array) -> tuple[Any, ...]:
        # Reverse mode calls `partials` itself, in C, and scales those that it needs.
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
        # An input without the batch axis in front broadcasts along it.
        return lift(self)(*inputs)


set_callbacks(elementwise_vjp=Pointwise.vjp)


class Elementwise(Pointwise, Map, abstract=True):
    """Elementwise ops that kernels compute: write `name`, `evaluate`, `emit` and `partials`."""


@cache
def lift(op: Pointwise) -> Lift:
    """The function that applies `op` to arrays and Python scalars, and then perhaps a stream."""
    return Lift(op, op.name, op.arity, op.operands, op.result, op.accepts, op.refusal)


def is_approximate(op: Op, dtype: Dtype) -> bool:
    """Whether NumPy and kernels may differ in the last bits of an op's result for a dtype."""
    return bool(op.approximate >> dtype.number & 1)
