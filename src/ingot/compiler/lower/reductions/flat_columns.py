"""Few columns, whose rows are next to each other in memory: as many rows as there are lanes are one
run of elements, a whole number of vectors however few columns a row has. Such runs are added to the
lanes, which are as long a run on the stack.
"""

from __future__ import annotations

from math import gcd

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import VECTOR_BYTES, GroupBuilder, Known, Memory, Point
from ingot.compiler.lower.reductions.columns import Columns, Sink
from ingot.compiler.lower.reductions.tile_width import VECTOR
from ingot.graph.numerics.reduction_order import BLOCK, LANES
from ingot.tuning import MAX_FLAT_LANES_BYTES, RUNS_PER_LOOP

__all__ = ["FlatColumns", "columns_of"]


def columns_of(builder: GroupBuilder, maps: list[Step], outputs: list[Step]) -> Columns:
    """What reduces tiles of columns."""
    return (FlatColumns if _is_flat(builder, outputs) else Columns)(builder, maps, outputs)


def _is_flat(builder: GroupBuilder, outputs: list[Step]) -> bool:
    """Whether all operands are runs of whole rows, or the same in all rows, and a run of all lanes
    fits into L1 with what is added to it. Vectors of few rows stay in registers instead.
    """
    domain = builder.domain
    last = len(domain.lengths) - 1
    if outputs or builder.gathers or builder.iotas or domain.inner != (last - 1,):
        return False
    length, columns = domain.lengths[-2:]
    if is_symbolic(length) or is_symbolic(columns) or length < LANES:
        return False
    if columns >= VECTOR and length <= RUNS_PER_LOOP * LANES:
        return False
    size = max(step.dtype.size for step in builder.reductions)
    if columns * LANES * max(4, size) > MAX_FLAT_LANES_BYTES:
        return False
    return all(_is_run(operand, columns) for operand in builder.reads)


def _is_run(operand: Operand, columns: int) -> bool:
    """Whether the rows of an operand are adjacent in memory, or all the same."""
    row, column = operand.strides[-2:]
    return row == 0 or (column == operand.dtype.size and row == columns * column)


class FlatColumns(Columns):
    """Reduces a tile that has all columns."""

    def _allocate(self) -> None:
        self.together = self._rows_of_run()
        self.run = self.together * self.columns_in_all
        self.lanes = [
            self.builder.stack(f"lanes{number}", x.dtype, (self.run,))
            for number, x in enumerate(self.accumulators)
        ]
        self.flat: dict[Step, Memory] = {}
        self.repeated: dict[Step, Buffer] = {}  # runs of rows that are all the same
        for step, memory in self.builder.read_of.items():
            if self.last in memory.axes and self.last - 1 not in memory.axes:
                name = f"repeated{len(self.repeated)}"
                self.repeated[step] = self.builder.stack(name, step.dtype, (self.run,))
            self.flat[step] = self._flattened(memory)

    def _rows_of_run(self) -> int:
        """As many rows as there are lanes or, where the order is free, as fill whole vectors."""
        if self.apart > 1:
            return LANES
        lanes = min(LANES, VECTOR_BYTES // min(x.dtype.size for x in self.accumulators))
        return lanes // gcd(lanes, self.columns_in_all)

    def _flattened(self, memory: Memory) -> Memory:
        """An operand with its rows joined into one axis."""
        if self.last - 1 not in memory.axes:
            return memory
        buffer = memory.buffer
        joined = self.builder.buffer(
            buffer.name,
            buffer.dtype,
            (*buffer.shape[:-2], self.length * self.columns_in_all),
            (*buffer.strides[:-2], buffer.strides[-1]),
            buffer.argument,
            buffer.offset,
            buffer.origin,
        )
        return Memory(joined, tuple(axis for axis in memory.axes if axis != self.last - 1))

    def _reduce_rows(self, point: Point, start: Affine, sink: Sink) -> None:
        self._fill_repeated(point)
        read_of = self.builder.read_of
        self._add_block(point, start)
        self.builder.read_of = read_of
        for column in self._columns():
            found = [
                self._combined(
                    x,
                    [
                        self.builder.load(memory, (column + lane * self.columns_in_all,))
                        for lane in range(self.together)
                    ],
                )
                for x, memory in zip(self.accumulators, self.lanes, strict=True)
            ]
            self._hand_on_widened(found, column, sink)

    def _fill_repeated(self, point: Point) -> None:
        """Copies rows that are all the same as often as a run has rows."""
        if not self.repeated:
            return
        builder, columns = self.builder, self.columns_in_all
        with builder.loop(0, self.together, copies=1) as row:
            for column in self._columns():
                here = (*point[: self.last], column)
                for step, buffer in self.repeated.items():
                    memory = builder.read_of[step]
                    value = builder.load(memory.buffer, memory.index(here))
                    builder.store(value, buffer, (affine(row) * columns + column,))

    def _add_block(self, point: Point, start: Affine) -> None:
        """Adds the rows of a block from `start` on to the lanes: runs that all blocks have, then
        those of longer blocks, the last of which may be incomplete.
        """
        builder = self.builder
        in_last = self.length - (self.blocks_in_row - 1) * BLOCK
        sure, most = in_last // self.together, -(-min(self.length, BLOCK) // self.together)
        done = min(RUNS_PER_LOOP, sure)
        self._add_runs(point, start, done, is_first=True)
        chunks, rest = divmod(sure - done, RUNS_PER_LOOP)
        first, by = start + done * self.together, RUNS_PER_LOOP * self.together
        if chunks:
            with builder.loop(first, first + chunks * by, step=by, copies=1) as row:
                self._add_runs(point, affine(row), RUNS_PER_LOOP)
            first = first + chunks * by
        if rest:
            self._add_runs(point, first, rest)
            first = first + rest * self.together
        ends = (start + BLOCK, affine(self.length)) if self.is_long else (affine(self.length),)
        if most - sure >= RUNS_PER_LOOP:
            whole = affine(builder.multiple(first, *ends, by=by))
            with builder.loop(first, whole, step=by, copies=1) as row:
                self._add_runs(point, affine(row), RUNS_PER_LOOP)
            first = whole
        if most > sure:
            with builder.loop(first, *ends, step=self.together, copies=1) as row:
                self._add_last_run(point, affine(row), ends)

    def _add_runs(self, point: Point, first: Affine, count: int, is_first: bool = False) -> None:
        """Adds the runs of rows from `first` on to the lanes, which are uninitialised before the
        first.
        """
        columns = self.columns_in_all
        with self.builder.loop(0, self.run, kind="vector", lanes=0) as at:
            lanes = (affine(at),)
            found: list[list[Value]] = []
            if not is_first:
                found = [[self.builder.load(each, lanes) for each in self.lanes]]
            for number in range(count):
                row = (first + number * self.together) * columns
                found.append(self._elements_in_run(point, row, row + at))
            found = found or [[x.start(x.dtype) for x in self.accumulators]]
            for x, memory, *values in zip(self.accumulators, self.lanes, *found, strict=True):
                self.builder.store(self._combined_rows(x, values), memory, lanes)

    def _add_last_run(self, point: Point, row: Affine, ends: tuple[Affine, ...]) -> None:
        """Adds the run from a row on, up to the end of the block."""
        columns = self.columns_in_all
        begin = row * columns
        limits = [begin + self.run, *(end * columns for end in ends)]
        with self.builder.loop(begin, *limits, kind="vector") as at:
            lanes = (affine(at) - begin,)
            found = self._elements_in_run(point, begin, affine(at))
            for x, memory, value in zip(self.accumulators, self.lanes, found, strict=True):
                old = self.builder.load(memory, lanes)
                self.builder.store(x.combine(self.builder, old, value), memory, lanes)

    def _elements_in_run(self, point: Point, begin: Affine, at: Affine) -> list[Value]:
        """The elements that are reduced at a position among those of all rows, in the run that
        begins at another.
        """
        builder, here = self.builder, (*point[: self.last], at)
        origin = (*point[: self.last], begin)
        builder.read_of = self.flat | {
            step: Memory(buffer, (self.last,), origin) for step, buffer in self.repeated.items()
        }
        known: Known = {}
        builder.compute(self.maps, known, here)
        return [
            x.added(builder, builder.reduced_input(x.step, known, here)) for x in self.accumulators
        ]
