"""Ranks: argmax and argmin in compiled programs, as maxima of one number per element.

An element of at most 32 bits and its position are packed into one uint64, so that an argmax is an
ordinary reduction: LLVM vectorises it, and it fuses like others.
"""

from __future__ import annotations

import numpy as np

from ingot._native import Dtype, array
from ingot.graph.dtype import float32, int32, is_inexact, is_signed_integer, uint32, uint64
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Map
from ingot.graph.shape import Shape
from ingot.ops.internal.positions import IN_PROGRAMS

__all__ = ["Ranked", "RankedPlace"]

_LOW = 0xFFFFFFFF
_TOP = 1 << 31


@dataclass(frozen=True)
class Ranked(Map):
    """Elements packed with their positions into uint64, ordered by precedence.

    The high half increases with the element (decreases if `largest` is false) and is highest for
    NaN; the low half decreases with the position, so that the first of equal elements wins.
    """

    largest: bool

    def infer(self, x: array, position: array) -> tuple[Shape, Dtype]:
        return x.shape, uint64

    def evaluate(self, x: np.ndarray, position: np.ndarray) -> np.ndarray:
        if x.dtype.kind == "i":
            rank = (x.astype(np.int64) + 2**31).astype(np.uint32)
        elif x.dtype.kind in "bu":
            rank = x.astype(np.uint32)
        else:
            bits = (x.astype(np.float32) + np.float32(0)).view(np.uint32)
            rank = np.where(bits >> 31, ~bits, bits ^ np.uint32(_TOP))
        if not self.largest:
            rank = ~rank
        rank = np.where(x == x, rank, np.uint32(_LOW))  # NaN
        return rank.astype(np.uint64) << np.uint64(32) | (~position).astype(np.uint64)

    def emit(self, k: Kernel, x: Value, position: Value) -> Value:
        rank = self._emitted_rank(k, x)
        high = k.cast(rank, uint64)
        high = k.left_shift(high, k.constant(32, high))
        return k.bitwise_or(high, k.cast(k.bitwise_invert(position), uint64))

    def _emitted_rank(self, k: Kernel, x: Value) -> Value:
        dtype = k.dtype(x)
        if not is_inexact(dtype):
            rank = k.cast(x, int32 if is_signed_integer(dtype) else uint32)
            rank = k.cast(rank, uint32)
            if is_signed_integer(dtype):
                rank = k.bitwise_xor(rank, k.constant(_TOP, rank))
            return rank if self.largest else k.bitwise_invert(rank)
        value = k.cast(x, float32)
        bits = k.bits(k.add(value, k.constant(0.0, value)))  # -0 becomes 0
        top = k.constant(_TOP, bits)
        negative = k.greater_equal(bits, top)
        rank = k.select(negative, k.bitwise_invert(bits), k.bitwise_xor(bits, top))
        if not self.largest:
            rank = k.bitwise_invert(rank)
        return k.select(k.not_equal(value, value), k.constant(_LOW, rank), rank)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)


class RankedPlace(Map):
    """The position packed into a rank of `Ranked`."""

    def infer(self, rank: array) -> tuple[Shape, Dtype]:
        return rank.shape, uint32

    def evaluate(self, rank: np.ndarray) -> np.ndarray:
        return ~rank.astype(np.uint32)

    def emit(self, k: Kernel, rank: Value) -> Value:
        return k.bitwise_invert(k.cast(rank, uint32))

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)
    vmap = no_rule(IN_PROGRAMS)
