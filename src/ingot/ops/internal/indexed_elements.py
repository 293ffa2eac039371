"""The expansion of gathers and scatters in compiled programs: indexed loads inside kernels.

Before any element is loaded, a kernel checks whether all indices are in bounds; if not,
`CheckedIndex` raises the error that the ops themselves raise. The indices it returns are safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.dtype import bool_, int64, is_signed_integer
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import Op, no_rule
from ingot.graph.roles import Check, Gather, Map, Reduce
from ingot.graph.shape import Shape, size_of
from ingot.ops.internal.accumulate import out_of_range
from ingot.ops.internal.intervals import is_inside
from ingot.ops.internal.positions import IN_PROGRAMS

__all__ = [
    "CheckedIndex",
    "ElementsAt",
    "IsAt",
    "IsOutside",
    "SomeOutside",
    "checked",
    "emitted_wrap",
]


def emitted_wrap(k: Kernel, index: Value, length: int) -> Value:
    """An in-bounds index as a nonnegative int64."""
    slot = k.cast(index, int64)
    if not is_signed_integer(k.dtype(index)):
        return slot
    from_end = k.add(slot, k.constant(length, slot))
    return k.select(k.less(slot, k.constant(0, slot)), from_end, slot)


def _wrapped(index: np.ndarray, length: int) -> np.ndarray:
    slot = index.astype(np.int64)
    return np.where(slot < 0, slot + length, slot)


def checked(build: Callable[..., Any], index: Any, length: int) -> Any:
    """An index in a compiled program that is used only after a bounds check of all of it."""
    if size_of(index.shape) == 0:
        return index  # no flag: nothing would compute it
    if is_inside(index, length):
        return index
    outside = build(IsOutside(length), index)
    if size_of(index.shape) > 1:
        outside = build(SomeOutside(tuple(range(len(index.shape)))), outside)
    return build(CheckedIndex(length), index, outside)


class _InPrograms(Op, abstract=True):
    """Ops that only occur in expansions."""

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


@dataclass(frozen=True)
class IsOutside(_InPrograms, Map):
    """Whether indices are out of bounds for an axis of that length."""

    length: int

    def infer(self, index: array) -> tuple[Shape, Dtype]:
        return index.shape, bool_

    def evaluate(self, index: np.ndarray) -> np.ndarray:
        return (index < -self.length) | (index >= self.length)

    def emit(self, k: Kernel, index: Value) -> Value:
        slot = k.cast(index, int64)
        low, high = k.constant(-self.length, slot), k.constant(self.length, slot)
        above = k.greater_equal(slot, high)
        if k.dtype(index).name == "uint64":  # values from 2^63 on would look negative
            return k.bitwise_or(above, k.less(slot, k.constant(0, slot)))
        return k.bitwise_or(above, k.less(slot, low))


@dataclass(frozen=True)
class SomeOutside(Reduce):
    """Whether any of the flags along `axes` is set."""

    axes: Shape

    identity = 0

    def evaluate(self, flags: np.ndarray) -> np.ndarray:
        return np.logical_or.reduce(flags, self.axes, keepdims=True)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.bitwise_or(a, b)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)


@dataclass(frozen=True)
class CheckedIndex(_InPrograms, Check):
    """The first input, once the second says that all of its indices are in bounds."""

    length: int

    def infer(self, index: array, is_outside: array) -> tuple[Shape, Dtype]:
        assert size_of(is_outside.shape) == 1, "a check reads one flag"
        return index.shape, index.dtype

    def evaluate(self, index: np.ndarray, is_outside: np.ndarray) -> np.ndarray:
        if is_outside.any():
            raise out_of_range(index, self.length)
        return index


@dataclass(frozen=True)
class IsAt(_InPrograms, Map):
    """Whether a position along an axis equals a checked index."""

    length: int

    def infer(self, position: array, index: array) -> tuple[Shape, Dtype]:
        return position.shape, bool_

    def evaluate(self, position: np.ndarray, index: np.ndarray) -> Any:
        return position == _wrapped(index, self.length)

    def emit(self, k: Kernel, position: Value, index: Value) -> Value:
        return k.equal(position, emitted_wrap(k, index, self.length))


@dataclass(frozen=True)
class ElementsAt(_InPrograms, Gather):
    """Elements of the first input at checked indices, which are the other inputs.

    `axes` are the indexed axes; the indices have the shape of the result. For each axis of the
    result, `along` has the axis of the input that moves with it, or -1.
    """

    axes: Shape
    along: Shape

    def infer(self, x: array, *indices: array) -> tuple[Shape, Dtype]:
        return indices[0].shape, x.dtype

    def evaluate(self, x: np.ndarray, *indices: np.ndarray) -> np.ndarray:
        subscript: list[Any] = [None] * x.ndim
        for axis, index in zip(self.axes, indices, strict=True):
            subscript[axis] = _wrapped(index, x.shape[axis])
        for slot, axis in enumerate(self.along):
            if axis >= 0:
                behind = len(self.along) - 1 - slot
                subscript[axis] = np.arange(x.shape[axis]).reshape((-1,) + (1,) * behind)
        return x[tuple(subscript)]

    def moved_strides(self, strides: Shape) -> Shape:
        return tuple(strides[axis] if axis >= 0 else 0 for axis in self.along)

    def emit_indices(self, k: Kernel, shape: Shape, *indices: Value) -> list[Value]:
        pairs = zip(self.axes, indices, strict=True)
        return [emitted_wrap(k, index, shape[axis]) for axis, index in pairs]
