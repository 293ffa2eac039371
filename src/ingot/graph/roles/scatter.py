"""Scatters: ops that copy an array and combine updates into the rows that indices select, and sums
that are zero except in such rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ingot.graph.op import Op, no_rule

if TYPE_CHECKING:
    from ingot.graph.kernel import Kernel, Value
    from ingot.graph.shape import Shape

__all__ = ["Scatter", "SparseSum"]

Build = Callable[..., Any]


class Scatter(Op, role=True):
    """The first input with the second, the updates, combined into it at indices, which are the
    other inputs and have been checked to be in bounds (`Check`).

    Write the field `axes`, the axes that are indexed, `position`, `emit_index` and `emit_combined`.
    One kernel distributes the rows over threads, so that the updates of a row are combined in
    order.
    """

    axes: Shape

    @property
    @abstractmethod
    def position(self) -> int:
        """The first axis of the updates that belongs to the indices."""

    @abstractmethod
    def emit_index(self, k: Kernel, index: Value, length: int) -> Value:
        """The nonnegative index along an axis of that length, as an int64."""

    @abstractmethod
    def emit_combined(self, k: Kernel, old: Value, new: Value) -> Value:
        """The value that replaces `old`."""

    emit = no_rule("a kernel of its own stores through indices")


class SparseSum(Op, abstract=True):
    """Adds the second input, the updates, to rows of the first, of zeros, at indices, which are the
    other inputs: the gradient of a lookup in a table.

    In a compiled program, `compiler/passes/sparse_updates.py` replaces what depends on such a
    gradient by the same for the rows that the indices select. `build(op, *inputs)` returns the
    result of an op.
    """

    @abstractmethod
    def selects(self, shape: Any, index_shape: Any) -> tuple[int, int, int] | None:
        """How many rows, of how many, indices of a shape select at most, and the length of a row;
        None if there is no sparse form.
        """

    @abstractmethod
    def selected_sums(
        self, build: Build, zeros: tuple[Any, Any], shape: Any, updates: Any, *indices: Any
    ) -> Any:
        """For each update, the sum of all updates of its row of an array of that shape. `zeros` are
        scalars of the updates' dtype and of int32.
        """

    @abstractmethod
    def selected(self, build: Build, x: Any, *indices: Any) -> Any:
        """The rows of an array that the indices select."""

    @abstractmethod
    def replaced(self, build: Build, x: Any, rows: Any, *indices: Any) -> Any:
        """An array with other rows where the indices select them."""
