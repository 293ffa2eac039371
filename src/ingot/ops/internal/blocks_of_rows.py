"""Blocks of rows: the candidates for the largest elements of rows, in compiled programs.

Rows are cut into blocks of SELECTED_BLOCK elements. The `count` largest elements of a row are in
the `count` blocks with the largest maxima, or in the rest of the row, which fills no block. The
same holds for the smallest, NaN being larger than all numbers. The elements are computed by maps,
given as a function that computes them of views of what they read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ingot.graph.dtype import int64, is_inexact, uint32
from ingot.graph.kernel import Kernel, Value
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Reduce
from ingot.graph.roles.map import is_single
from ingot.graph.roles.view import behind_views
from ingot.graph.shape import Shape, size_of
from ingot.ops.elementwise.arithmetic import Add
from ingot.ops.elementwise.casting import AsType
from ingot.ops.internal.adjoints import Broadcast, Reshape
from ingot.ops.internal.indexed_elements import ElementsAt
from ingot.ops.internal.positions import IN_PROGRAMS
from ingot.ops.internal.summation import without_bfloat16
from ingot.ops.reduce.extremes import Max, Min
from ingot.ops.shape.creation import Arange, Counted
from ingot.ops.shape.joining import Concatenate
from ingot.ops.shape.slicing import Slice
from ingot.tuning_rows import MIN_BLOCK_SHARE, MIN_BLOCKED_SELECTION, SELECTED_BLOCK

__all__ = ["Blocks", "pays"]


def pays(shape: Shape, count: int) -> bool:
    """Whether rows are worth cutting to find so many of their elements."""
    blocks = shape[-1] // SELECTED_BLOCK
    return size_of(shape) >= MIN_BLOCKED_SELECTION and count * MIN_BLOCK_SHARE <= blocks


@dataclass(frozen=True)
class SmallestNumber(Reduce):
    """Smallest floating-point element; NaN only if all are, where `Min` returns it if one is."""

    axes: tuple[int, ...]
    identity = math.inf
    order = "largest"  # in which NaN comes last

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        found = np.fmin.reduce(without_bfloat16(x), self.axes, keepdims=True)
        return found.astype(x.dtype, copy=False)

    def combine(self, k: Kernel, a: Value, b: Value) -> Value:
        return k.smallest(a, b)

    vjp = no_rule(IN_PROGRAMS)
    jvp = no_rule(IN_PROGRAMS)


class Blocks:
    """The blocks of the rows of `x`, whose elements `elements` computes. `build(op, *inputs)`
    returns the result of an op.
    """

    def __init__(
        self,
        build: Callable[..., Any],
        elements: Callable[[Callable[[Any], Any]], Any],
        x: Any,
        largest: bool,
    ) -> None:
        self.build, self.elements, self.largest = build, elements, largest
        self.rows, self.length = size_of(x.shape[:-1]), x.shape[-1]
        self.count = self.length // SELECTED_BLOCK  # of blocks
        self.end = self.count * SELECTED_BLOCK

    def extremes(self) -> Any:
        """The largest, or smallest, element of each block."""
        elements = self.elements(self._in_blocks)
        smallest = SmallestNumber if is_inexact(elements.dtype) else Min
        found = self.build((Max if self.largest else smallest)((2,)), elements)
        return self.build(Reshape((self.rows, self.count)), found)

    def candidates(self, chosen: Any) -> Any:
        """The elements of the chosen blocks, and those in no block."""
        build, block = self.build, self._spread(chosen)

        def view(leaf: Any) -> Any:
            if is_single(leaf):
                return self._number(leaf, block.shape)
            return build(ElementsAt((1,), (0, -1, 2)), self._in_blocks(leaf), block)

        found = build(Reshape((self.rows, size_of(block.shape[1:]))), self.elements(view))
        if self.end == self.length:
            return found
        rest = self.elements(lambda leaf: self._columns(leaf, self.end, self.length))
        return build(Concatenate(1), found, rest)

    def positions(self, chosen: Any, selected: Any) -> Any:
        """The positions in their rows of candidates at selected positions among these."""
        build, block = self.build, self._spread(chosen)
        first = build(Counted(0, SELECTED_BLOCK, uint32), build(AsType(int64), block))
        offset = build(Broadcast(block.shape), build(Arange(0, 1, SELECTED_BLOCK, uint32)))
        shape = (self.rows, size_of(block.shape[1:]))
        indices = build(Reshape(shape), build(Add(), first, offset))
        if self.end < self.length:
            rest = build(Arange(self.end, 1, self.length - self.end, uint32))
            shape = (self.rows, self.length - self.end)
            indices = build(Concatenate(1), indices, build(Broadcast(shape), rest))
        return build(ElementsAt((1,), (0, -1)), indices, selected)

    def _spread(self, chosen: Any) -> Any:
        """The number of its block for each element of the chosen blocks."""
        count = chosen.shape[1]
        column = self.build(Reshape((self.rows, count, 1)), chosen)
        return self.build(Broadcast((self.rows, count, SELECTED_BLOCK)), column)

    def _in_blocks(self, leaf: Any) -> Any:
        shape = (self.rows, self.count, SELECTED_BLOCK)
        if is_single(leaf):
            return self._number(leaf, shape)
        return self.build(Reshape(shape), self._columns(leaf, 0, self.end))

    def _columns(self, leaf: Any, begin: int, end: int) -> Any:
        if is_single(leaf):
            return self._number(leaf, (self.rows, end - begin))
        matrix = self.build(Reshape((self.rows, self.length)), leaf)
        if (begin, end) == (0, self.length):
            return matrix
        return self.build(Slice((0, begin), (self.rows, end), (1, 1)), matrix)

    def _number(self, leaf: Any, shape: Shape) -> Any:
        return self.build(Broadcast(shape), self.build(Reshape(()), behind_views(leaf)))
