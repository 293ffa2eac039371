"""Short rows in registers: kernels that load a row once, as bundles, and store results once.

Input: a builder whose rows fit into registers, and the passes of its steps. Output: the same values
as those of `rows.py`, in the same order of summation, but nothing is kept in memory between passes,
and what remains of a row after whole bundles is a masked bundle rather than several narrower
vectors and single elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import repeated
from ingot.compiler.forms.nest.data import Constant, Value
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder, Known, Point
from ingot.compiler.lower.reductions.accumulator import Accumulator
from ingot.compiler.lower.reductions.row_blocks import calls_functions, is_written_out
from ingot.graph.dtype import bfloat16, bool_, float16, float32, int32, uint32
from ingot.graph.numerics.reduction_order import BLOCK, LANES
from ingot.graph.roles import Reduce
from ingot.runtime.processor import vector_bytes, vector_registers
from ingot.tuning_vectors import (
    MAX_FUNCTIONS_TOGETHER,
    MAX_ROW_OF_FOUR,
    MAX_ROW_OF_ONE_SUM,
    MAX_ROWS_TOGETHER,
    MAX_UNROLLED_HALVES,
)

__all__ = ["MASKED_VECTOR_BYTES", "RegisterRows", "fits_registers", "rows_together"]

MASKED_VECTOR_BYTES = 64  # of vectors with instructions for masked lanes

MIN_LANES = 8
DTYPES = (float32, float16, bfloat16, int32, uint32)


class Passes(Protocol):
    """Which steps have one element per row, and which pass can compute a step."""

    is_row: dict[Step, bool]
    stage: dict[Step, int]
    targets: list[list[Step]]

    def rows_known_before(self, number: int) -> list[Step]: ...


def fits_registers(builder: GroupBuilder, passes: Passes) -> bool:
    """Whether rows are short, and their elements adjacent in memory."""
    domain = builder.domain
    length = domain.size(domain.reduced)
    if vector_bytes() < MASKED_VECTOR_BYTES or is_symbolic(length) or len(domain.reduced) > 1:
        return False
    shortest = MAX_UNROLLED_HALVES if _has_halves(builder) else MIN_LANES
    if length <= shortest and is_written_out(builder, length):
        return False
    if not domain.kept or length > _longest(builder) or builder.iotas or builder.gathers:
        return False
    (axis,) = domain.reduced
    if any(x.strides[axis] not in (0, x.dtype.size) for x in (*builder.reads, *builder.writes)):
        return False
    # rows may have conditions, but not elements: bundles of bools differ in memory and registers
    elements = [step for step in builder.group.steps if not passes.is_row[step]]
    needed = {source for step in elements for source in step.inputs}
    bools = [x for x in (*builder.reads, *builder.writes) if x.dtype is bool_]
    return not bools and all(
        step.dtype in DTYPES or (step.dtype is bool_ and passes.is_row[step] and step not in needed)
        for step in builder.group.steps
    )


def rows_together(builder: GroupBuilder, passes: Passes) -> int:
    """How many rows to compute at a time, a power of two: what waits for the reductions of one
    leaves the processor the others to compute.
    """
    domain = builder.domain
    if len(domain.kept) != 1 or is_symbolic(domain.lengths[domain.kept[0]]):
        return 1
    (kept,), (reduced,) = domain.kept, domain.reduced
    per_row = [x for x in (*builder.reads, *builder.writes) if not x.strides[reduced]]
    if any(x.strides[kept] not in (0, x.dtype.size) for x in per_row):
        return 1
    lanes = vector_bytes() // float32.size
    held = -(-domain.lengths[reduced] // lanes) * lanes
    count, room = MAX_ROWS_TOGETHER, _room(builder, passes, held)
    calls = calls_functions(builder) * (held // lanes)
    while count > 1 and (
        count * held > room
        or count > domain.lengths[kept]
        or count * calls > MAX_FUNCTIONS_TOGETHER
    ):
        count //= 2
    return count


def _capacity() -> int:
    """The float32 that half of the registers hold."""
    return vector_registers() * vector_bytes() // (2 * float32.size)


def _longest(builder: GroupBuilder) -> int:
    """The elements of the longest row that is kept in registers, most of them at least."""
    if calls_functions(builder):
        return _capacity()
    return min(BLOCK, 2 * _capacity()) if _has_halves(builder) else _capacity() * 5 // 4


def _room(builder: GroupBuilder, passes: Passes, row: int) -> int:
    """How many float32 several rows may have, given those of one row. Rows of half types may have
    more than registers hold: what they wait for takes longer than to load some elements again.
    """
    functions = calls_functions(builder)
    if _has_halves(builder):
        return (2 if functions else 4) * _capacity()
    waits = len({passes.stage[step] for step in builder.reductions})
    if waits == 1 and row > MAX_ROW_OF_ONE_SUM:
        return row
    return _capacity() if functions or row > MAX_ROW_OF_FOUR else _capacity() * 3 // 2


def _has_halves(builder: GroupBuilder) -> bool:
    return any(x.dtype is float16 or x.dtype is bfloat16 for x in builder.reads)


class RegisterRows:
    """Some rows of a group, whose elements stay in registers from the first pass to the last.
    Values of rows are bundles with a lane for each.
    """

    def __init__(self, builder: GroupBuilder, passes: Passes, count: int) -> None:
        self.builder = builder
        self.passes = passes
        self.count = count
        (self.axis,) = builder.domain.reduced
        self.length = builder.domain.size(builder.domain.reduced)
        whole, rest = divmod(self.length, LANES)
        self.widths = [LANES] * whole
        if rest:
            self.widths.append(max(MIN_LANES, 1 << (rest - 1).bit_length()))

    def compute(self, points: Sequence[Point]) -> None:
        """Computes and stores the rows at some points, which are adjacent."""
        builder, passes = self.builder, self.passes
        row_values = self._loaded_of_rows(points[0])
        numbers = range(len(self.widths))
        known = [[self._loaded(point, number) for number in numbers] for point in points]
        for stage in range(len(passes.targets)):
            builder.compute(passes.rows_known_before(stage), row_values, points[0])
            steps = [step for step in builder.group.steps if self._is_computed_in(step, stage)]
            for row, bundles in enumerate(known):
                of_row = self._of_row(row_values, row)
                for values in bundles:
                    values.update(of_row)
                    builder.compute(steps, values, points[row])
            for step in builder.reductions:
                if passes.stage[step] == stage + 1:
                    row_values[step] = self._reduced(step, known, points)
        for point, bundles in zip(points, known, strict=True):
            for number, values in enumerate(bundles):
                self._store(number, values, point)
        builder.compute(passes.rows_known_before(len(passes.targets)), row_values, points[0])
        self._store_rows(row_values, points[0])

    def _is_computed_in(self, step: Step, stage: int) -> bool:
        is_element = not self.passes.is_row[step] and not isinstance(step.op, Reduce)
        return is_element and self.passes.stage[step] == stage

    # Memory

    def _at(self, point: Point, number: int) -> Point:
        """The point of the first lane of a bundle."""
        return (*point[: self.axis], affine(number * LANES), *point[self.axis + 1 :])

    def _limit(self, number: int) -> int | None:
        return None if self._is_whole(number) else self.length

    def _is_whole(self, number: int) -> bool:
        return number * LANES + self.widths[number] <= self.length

    def _loaded(self, point: Point, number: int) -> Known:
        """The operands of one bundle."""
        builder = self.builder
        found: Known = {}
        here = self._at(point, number)
        for operand in builder.reads:
            memory = builder.read_of[operand.step]
            if self.axis in memory.axes:
                found[operand.step] = builder.load_lanes(
                    memory.buffer, memory.index(here), self.widths[number], self._limit(number)
                )
        return found

    def _loaded_of_rows(self, point: Point) -> Known:
        """The operands with one element per row, or one for all."""
        builder = self.builder
        found: Known = {}
        for operand in builder.reads:
            memory = builder.read_of[operand.step]
            if self.axis not in memory.axes:
                lanes = self.count if memory.axes else 1
                index = memory.index(point)
                found[operand.step] = builder.load_lanes(memory.buffer, index, lanes)
        return found

    def _store(self, number: int, values: Known, point: Point) -> None:
        builder = self.builder
        for step in builder.group.outputs:
            if not self.passes.is_row[step]:
                memory = builder.write_of[step]
                value = builder.in_lanes(values[step], self.widths[number])
                index = memory.index(self._at(point, number))
                builder.store(value, memory.buffer, index, self._limit(number))

    def _store_rows(self, row_values: Known, point: Point) -> None:
        builder = self.builder
        for step in builder.group.outputs:
            if self.passes.is_row[step]:
                memory = builder.write_of[step]
                value = builder.in_lanes(row_values[step], self.count)
                builder.store(value, memory.buffer, memory.index(point))

    def _of_row(self, row_values: Known, row: int) -> Known:
        """The values of one row."""
        return {
            step: self.builder.some_lanes(value, row, 1) if value.lanes > 1 else value
            for step, value in row_values.items()
            if value.dtype is not bool_
        }

    # Reductions

    def _reduced(
        self, step: Step, known: Sequence[Sequence[Known]], points: Sequence[Point]
    ) -> Value:
        """A reduction of all rows."""
        builder, accumulator = self.builder, Accumulator(step)
        totals = []
        for point, bundles in zip(points, known, strict=True):
            elements = [builder.reduced_input(step, values, point) for values in bundles]
            totals.append(self._total(accumulator, elements))
        (found,) = builder.fold_together(totals, partial(accumulator.combine, builder))
        return accumulator.result(builder, found)

    def _total(self, accumulator: Accumulator, elements: Sequence[Value]) -> Value:
        """The sums of equal lanes of all bundles of a row."""
        builder = self.builder
        start = accumulator.start(accumulator.dtype)
        total: Value = repeated(start.dtype, start.value, self.widths[0])
        for number, element in enumerate(elements):
            found = accumulator.added(builder, builder.in_lanes(element, self.widths[number]))
            if not self._is_whole(number):
                found = self._with_neutral(found, start)
            total = self._added(accumulator, total, found)
        return total

    def _with_neutral(self, x: Value, start: Constant) -> Value:
        """A bundle with the neutral element in the lanes beyond the row."""
        rest = self.length % LANES
        picks = (*range(rest), *range(x.lanes + rest, 2 * x.lanes))
        return self.builder.picked_lanes((x, repeated(x.dtype, start.value, x.lanes)), picks)

    def _added(self, accumulator: Accumulator, total: Value, x: Value) -> Value:
        """The sum of two bundles. If one has fewer lanes, the first lanes of the other are combined
        with it before the others are folded to as many.
        """
        builder, count = self.builder, x.lanes
        parts: list[Value] = [total]
        if count < total.lanes:
            lanes = range(0, total.lanes, count)
            parts = [builder.some_lanes(total, first, count) for first in lanes]
        parts[0] = accumulator.combine(builder, parts[0], x)
        while len(parts) > 1:
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [accumulator.combine(builder, *pair) for pair in pairs]
        return parts[0]
