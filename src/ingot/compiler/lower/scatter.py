"""Scatters: a kernel that copies an array and combines updates into the rows selected by indices.

A row is what remains of the array when its indexed axes are fixed. Each parallel iteration owns a
range of rows: it copies them, then scans all indices in order and applies the updates of its own
rows. So no two threads write the same element, and the result does not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.size import (
    Number,
    hint_of,
    is_symbolic,
    largest,
    provably_equal,
    smallest,
)
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, kernel_of
from ingot.graph.roles import Scatter
from ingot.tuning_rows import MAX_SCATTER_RANGES, MIN_SCATTER_RANGE_WIDTH, SCATTER_GRAIN

__all__ = ["lower_scatter"]


Strides = tuple[int, ...]
Axes = list[tuple[int, list[int]]]  # lengths, and the stride of each operand


def lower_scatter(step: Step, strides_of: dict[Step, Strides]) -> Kernel:
    """The kernel of a step over the array, the updates and the indices, which are known to be in
    range. The result may alias the array, which then is not copied.
    """
    builder = _Scatter(step, strides_of)
    builder.build()
    return kernel_of(builder.nest, (*step.inputs, step))


class _Scatter(NestBuilder):
    def __init__(self, step: Step, strides_of: dict[Step, Strides]) -> None:
        super().__init__()
        self.step = step
        assert isinstance(step.op, Scatter)
        self.op = step.op
        base, updates, *indices = step.inputs
        self.indexed = [base.shape[axis] for axis in self.op.axes]
        kept = [axis for axis in range(len(base.shape)) if axis not in self.op.axes]
        position, count = self.op.position, len(indices[0].shape)
        in_base, in_updates, in_out = (strides_of[each] for each in (base, updates, step))
        beside = [*in_updates[:position], *in_updates[position + count :]]
        # the axes of a row, with strides of: base, updates, out
        self.row = _joined(
            [
                (base.shape[axis], [in_base[axis], beside[number], in_out[axis]])
                for number, axis in enumerate(kept)
            ]
        )
        # the axes of the indices, with strides of: updates, and each of the indices
        self.update_axes = _joined(
            [
                (length, [in_updates[position + axis], *(strides_of[i][axis] for i in indices)])
                for axis, length in enumerate(indices[0].shape)
            ]
        )
        # one value may be passed for two operands, so each is an argument of its own
        rows = [
            (n, [in_base[axis], in_out[axis]])
            for n, axis in zip(self.indexed, self.op.axes, strict=True)
        ]
        self.base = self._operand(base, 0, [*_along(rows, 0), *_along(self.row, 0)])
        self.updates = self._operand(
            updates, 1, [*_along(self.update_axes, 0), *_along(self.row, 1)]
        )
        self.indices = [
            self._operand(index, 2 + number, _along(self.update_axes, 1 + number))
            for number, index in enumerate(indices)
        ]
        self.out = self._operand(step, 2 + len(indices), [*_along(rows, 1), *_along(self.row, 2)])

    def _operand(self, step: Step, argument: int, axes: list[tuple[int, int]]) -> Buffer:
        lengths, strides = [n for n, _ in axes], [s for _, s in axes]
        return self.buffer(f"a{argument}", step.dtype, lengths, strides, argument, origin=step)

    def build(self) -> None:
        rows, width = prod(self.indexed), prod(length for length, _ in self.row)
        updates = prod(length for length, _ in self.update_axes)
        height = _height(rows, width, updates)
        ranges = -(-rows // height) if rows > height else 1
        with self.parallel((ranges,), -(-(rows * width) // ranges) + updates) as (part,):
            low = affine(part) * height
            with self.apart(self.base, self.out):
                self._copy_rows(low, height, rows)
            # serial: the updates of one row are applied in order
            self._loops(self.update_axes, (), lambda at: self._update(at, low, height), "for")

    def _copy_rows(self, low: Affine, height: int, rows: int) -> None:
        def copy(at: tuple[Affine, ...]) -> None:
            self.store(self.load(self.base, at), self.out, at)

        kind = "for" if self.row else "vector"
        with self.loop(low, low + height, rows, kind=kind) as row:
            several = len(self.indexed) > 1
            along = self.split(row, self.indexed) if several else (row,)
            self._loops(self.row, tuple(map(affine, along)), copy)

    def _update(self, update: tuple[Affine, ...], low: Affine, height: int) -> None:
        """Applies one update to its row, if that is in the range."""
        found = [
            self.op.emit_index(self.words, self.load(index, update), length)
            for index, length in zip(self.indices, self.indexed, strict=True)
        ]
        along = [self.checked(at, n) for at, n in zip(found, self.indexed, strict=True)]

        def combine(at: tuple[Affine, ...]) -> None:
            target: tuple[Affine | Value, ...] = (*along, *at)
            old, new = self.load(self.out, target), self.load(self.updates, (*update, *at))
            self.store(self.op.emit_combined(self.words, old, new), self.out, target)

        if height >= prod(self.indexed):
            self._loops(self.row, (), combine)  # the single range holds all rows
            return
        row = along[0] if len(along) == 1 else self.joined(along, self.indexed)
        with self.when(row, low, low + height):
            self._loops(self.row, (), combine)

    def _loops(
        self,
        axes: Axes,
        outer: tuple[Affine, ...],
        body: Callable[[tuple[Affine, ...]], None],
        innermost: str = "vector",
    ) -> None:
        """Nested loops over axes, around a body that takes all indices."""
        if not axes:
            body(outer)
            return
        kind = innermost if len(axes) == 1 else "for"
        with self.loop(0, axes[0][0], kind=kind) as index:
            self._loops(axes[1:], (*outer, affine(index)), body, innermost)


def _height(rows: Number, width: Number, updates: Number) -> int:
    """The number of rows in a range. If the number of rows is symbolic, a power of two that suits
    numbers of its magnitude.
    """
    # each range goes through all indices, and processors guess wrong which are its own
    of_work = largest((1, (rows + updates) * width // SCATTER_GRAIN))
    of_width = largest((1, width // MIN_SCATTER_RANGE_WIDTH))
    ranges = smallest((rows, MAX_SCATTER_RANGES, of_width, of_work))
    height = -(-rows // ranges)
    if not is_symbolic(height):
        return int(height)
    found = 1
    while found < hint_of(height):
        found *= 2
    if rows > found * (2 * MAX_SCATTER_RANGES):  # each range scans all indices
        raise AssertionError("a power of two that is no less than the height of a range")
    return found


def _along(axes: Axes, operand: int) -> list[tuple[int, int]]:
    """The lengths and strides of one operand."""
    return [(length, strides[operand]) for length, strides in axes]


def _joined(axes: Axes) -> Axes:
    """The axes with those joined that every operand traverses as one, without axes of length 1."""
    found: Axes = []
    for length, strides in axes:
        if length == 1:
            continue
        if found and all(
            provably_equal(outer, inner * length)
            for outer, inner in zip(found[-1][1], strides, strict=True)
        ):
            found[-1] = (found[-1][0] * length, strides)
        else:
            found.append((length, strides))
    return found
