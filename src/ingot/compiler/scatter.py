"""Scatters: a kernel that copies an array and combines updates into the rows that indices name.

A row is what remains of the array once its indexed axes are fixed. The rows are shared out in
ranges: whoever has a range copies its rows, then walks all indices in order and takes the updates
of its own rows. So no two threads write to the same place, and the result depends neither on their
number nor on chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, cast

from ingot.compiler.code import Code, Register, literal
from ingot.compiler.emit import LLVMKernel
from ingot.compiler.loops import Kernel, module_text, work_grain
from ingot.compiler.tape import Step

__all__ = ["lower_scatter"]

RANGES = 16  # at most; each walks all indices

Strides = tuple[int, ...]
Walk = list[tuple[int, list[int]]]  # loops: a length, and by how much each operand moves


def lower_scatter(step: Step, strides_of: dict[Step, Strides], in_place: bool) -> Kernel:
    """The kernel of a step over the array, the updates and the indices, which were checked. With
    `in_place` the result may be where the array is, which then is not copied.
    """
    return _Scatter(step, strides_of, in_place).kernel()


class _Scatter:
    def __init__(self, step: Step, strides_of: dict[Step, Strides], in_place: bool) -> None:
        self.in_place = in_place
        self.step = step
        self.op = cast(Any, step.op)
        self.code = Code()
        self.k = LLVMKernel(self.code)
        base, updates, *indices = step.inputs
        self.indices = indices
        self.shape = base.shape
        self.out_strides = strides_of[step]
        steps = (base, updates, *indices, step)
        # an operand may be passed twice, so each has an argument of its own
        self.operands = steps
        self.base, self.updates, *rest = (
            Register(f"%a{number}", "ptr") for number in range(len(steps))
        )
        *self.index_pointers, self.out = rest
        self.strides_of = strides_of
        axes = self.op.axes
        kept = [axis for axis in range(len(self.shape)) if axis not in axes]
        position, count = self.op.position, len(indices[0].shape)
        update_strides = strides_of[updates]
        in_updates = [*update_strides[:position], *update_strides[position + count :]]
        # what a row moves along: base, updates, out
        self.row: Walk = _joined(
            [
                (
                    self.shape[axis],
                    [strides_of[base][axis], in_updates[number], self.out_strides[axis]],
                )
                for number, axis in enumerate(kept)
            ]
        )
        # what the indices move along: updates, and each of the indices
        self.turns: Walk = _joined(
            [
                (
                    length,
                    [update_strides[position + axis], *(strides_of[i][axis] for i in indices)],
                )
                for axis, length in enumerate(indices[0].shape)
            ]
        )

    def kernel(self) -> Kernel:
        code = self.code
        rows = prod(self.shape[axis] for axis in self.op.axes)
        width = prod(length for length, _ in self.row)
        updates = prod(length for length, _ in self.turns)
        ranges = min(rows, RANGES, width)
        height = -(-rows // ranges)
        begin, end = Register("%begin", "i64"), Register("%end", "i64")
        with code.loop(begin, end) as parts:
            low = code.binary("mul nsw", parts.index, _i64(height))
            past = code.binary("add nsw", low, _i64(height))
            high = code.intrinsic("smin", past, _i64(rows))
            with code.loop(low, self._end_of_copy(low, high)) as loop:
                self._copy_row(loop.index)
            self._walk(
                self.turns,
                [self.updates, *self.index_pointers],
                lambda here: self._update(here, low, high),
            )
        grain = work_grain(code, -(-(rows * width) // ranges) + updates)
        steps = tuple(self.operands)
        alone = [not self.in_place or each not in (steps[0], steps[-1]) for each in steps]
        return Kernel(module_text(code, alone), ranges, grain, steps, tuple(code.notes))

    def _end_of_copy(self, low: Register, high: Register) -> Register:
        """The row after the last one to copy: none if the result is where the array is."""
        if not self.in_place:
            return high
        return self.code.select(self.code.compare("icmp eq", self.base, self.out), low, high)

    def _copy_row(self, row: Register) -> None:
        code = self.code
        strides = self.strides_of[self.step.inputs[0]]
        base, out = self.base, self.out
        for axis in reversed(self.op.axes):
            length = _i64(self.shape[axis])
            place = code.binary("urem", row, length)
            row = code.binary("udiv", row, length)
            base = code.offset(base, code.binary("mul nsw", place, _i64(strides[axis])))
            out = code.offset(out, code.binary("mul nsw", place, _i64(self.out_strides[axis])))

        def copy(here: list[Register]) -> None:
            self.k.store(self.k.load(self.step.dtype, here[0]), here[1])

        self._walk([(n, [by[0], by[2]]) for n, by in self.row], [base, out], copy)

    def _update(self, here: list[Register], low: Register, high: Register) -> None:
        """Combines one update into its row, if that is in the range."""
        code = self.code
        updates, *index_pointers = here
        number, out = _i64(0), self.out
        for axis, index, pointer in zip(self.op.axes, self.indices, index_pointers, strict=True):
            length = self.shape[axis]
            found = self.op.emit_place(self.k, self.k.load(index.dtype, pointer), length)
            place = found.register
            out = code.offset(out, code.binary("mul nsw", place, _i64(self.out_strides[axis])))
            number = code.binary("mul nsw", number, _i64(length))
            number = code.binary("add nsw", number, place)
        above = code.compare("icmp sge", number, low)
        inside = code.binary("and", above, code.compare("icmp slt", number, high))

        def combine(here: list[Register]) -> None:
            old = self.k.load(self.step.dtype, here[1])
            new = self.k.load(self.step.dtype, here[0])
            self.k.store(self.op.emit_combined(self.k, old, new), here[1])

        loops = [(n, [by[1], by[2]]) for n, by in self.row] or [(1, [0, 0])]
        self._walk(loops, [updates, out], combine, only_if=inside)

    def _walk(
        self,
        loops: Walk,
        pointers: Sequence[Register],
        body: Callable[[list[Register]], None],
        only_if: Register | None = None,
    ) -> None:
        """Nested loops that move the pointers; none is run unless the condition holds."""
        if not loops:
            body(list(pointers))
            return
        code = self.code
        (length, strides), rest = loops[0], loops[1:]
        end = _i64(length)
        if only_if is not None:
            end = code.select(only_if, end, _i64(0))
        with code.loop(_i64(0), end) as loop:
            moved = [
                code.offset(pointer, code.binary("mul nsw", loop.index, _i64(stride)))
                if stride
                else pointer
                for pointer, stride in zip(pointers, strides, strict=True)
            ]
            self._walk(rest, moved, body)


def _i64(value: int) -> Register:
    return literal("i64", value)


def _joined(loops: Walk) -> Walk:
    """The same walk with loops that are one loop for every operand joined, and none of length 1."""
    found: Walk = []
    for length, strides in loops:
        if length == 1:
            continue
        if found and all(
            outer == inner * length for outer, inner in zip(found[-1][1], strides, strict=True)
        ):
            found[-1] = (found[-1][0] * length, strides)
        else:
            found.append((length, strides))
    return found
