"""Columns: reductions along other axes than the last, in tiles of the last axis.

A lane of the order (`graph/numerics/reduction_order.py`) is a row of stack memory as wide as the
tile. Lanes are computed and combined a few at a time, in the order of combining, so that they stay
in L1 and tiles can be wide, which hardware prefetching needs. Narrow tiles keep all lanes in L1 and
read rows in the order of memory. Where the order is free there is one lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder, Known, Point
from ingot.compiler.lower.reductions.accumulator import Accumulator
from ingot.compiler.lower.reductions.row_blocks import is_provably_zero, lane_count
from ingot.compiler.lower.reductions.tile_width import VECTOR, min_split_elements, tile_width
from ingot.graph.numerics.reduction_order import BLOCK, LANES, PART
from ingot.tuning import (
    LANES_PER_LOOP,
    MAX_LANES_BYTES,
    MAX_UNROLLED_COLUMN_STEPS,
    ROWS_PER_LOOP,
)

__all__ = ["Columns", "Sink"]

ALIASING_ELEMENTS = 1024  # rows that are 4 KiB or multiples apart share a set of L1
MASKED_BYTES = 4  # of elements for which a mask costs little
MIN_SPLIT_VECTORS = 4  # of a tile whose last columns have a loop of their own

# Consumes the results of a block in one column of the tile, one value per reduction.
Sink = Callable[[Affine, list[Value]], None]


class Columns:
    """Builds the reduction of one tile of columns, which `begin_tile` selects."""

    def __init__(self, builder: GroupBuilder, maps: list[Step], outputs: list[Step]) -> None:
        self.builder = builder
        domain = builder.domain
        self.last = len(domain.lengths) - 1
        self.kept = [axis for axis in domain.kept if axis != self.last]
        self.columns_in_all = domain.lengths[self.last]
        self.accumulators = [Accumulator(step) for step in builder.reductions]
        self.inner = domain.inner
        self.outer = tuple(axis for axis in domain.reduced if axis not in domain.inner)
        self.length = domain.size(self.inner)
        self.is_long = self.length > BLOCK
        self.blocks_in_row = -(-self.length // BLOCK) if self.is_long else 1
        self.blocks = self.blocks_in_row * domain.size(self.outer)
        self.is_one_block = type(self.blocks) is int and self.blocks == 1
        others = domain.size(self.kept) * (self.blocks if self.is_long else 1)
        self.width = tile_width(self.columns_in_all, others)
        self.several = self.columns_in_all > self.width
        # tiles along the last axis
        self.in_row = -(-self.columns_in_all // self.width) if self.several else 1
        self.count = domain.size(self.kept) * self.in_row
        self.in_parts = self.blocks > PART
        self.parts = -(-self.blocks // PART) if self.in_parts else 1
        in_order = any(x.op.depends_on_order() for x in self.accumulators)
        self.lane_count = lane_count(self.length) if in_order else 1
        self.apart = LANES if in_order else 1  # distance between the rows of a lane
        self.maps, self.outputs = maps, outputs
        self.is_short = (
            type(self.length) is int
            and 0 < self.length <= LANES
            and self.length * (len(self.maps) + 1) <= MAX_UNROLLED_COLUMN_STEPS
        )
        self.lanes: list[Buffer] = []
        self.folded: list[Buffer] = []  # combined lanes, if there is more than one level
        nbytes = self.lane_count * self.width * sum(x.dtype.size for x in self.accumulators)
        # masked vectors of a plain sum would take longer than reading it does
        is_worth_it = self.width % VECTOR == 0 or bool(maps)
        self.is_narrow = (
            is_worth_it
            and self.lane_count > LANES_PER_LOOP
            and not is_symbolic(self.columns_in_all)
            and not self.several
            and nbytes < MAX_LANES_BYTES
        )
        is_plain = in_order and not maps and not self.is_narrow
        self.rows_at_once = max(1, (2 if is_plain else 1) * ROWS_PER_LOOP // max(1, len(maps)))
        self._allocate()

    def _allocate(self) -> None:
        """Decides where lanes are kept while rows are added to them."""
        self.lanes_at_once = self._lanes_at_once()
        if self.lanes_at_once:
            self.folded = self._memory("folded", self.lane_count // self.lanes_at_once)
        elif not self.is_short:
            rows = self.lane_count if self.is_narrow else min(LANES_PER_LOOP, self.lane_count)
            self.lanes = self._memory("lanes", rows)
            if self.lane_count > LANES_PER_LOOP:
                self.folded = self._memory("folded", self.lane_count // LANES_PER_LOOP)

    def _lanes_at_once(self) -> int:
        """How many lanes of few rows are computed and combined in registers; 0 if lanes are kept in
        memory.
        """
        if is_symbolic(self.length) or self.is_long or self.is_short or self.is_narrow:
            return 0
        fewest, most = self._rows_of_lanes()
        if self.apart == 1 or not fewest:
            return 0
        for count in (LANES_PER_LOOP, LANES_PER_LOOP // 2):
            rows = count * most
            is_small = rows * (len(self.maps) + 1) <= MAX_UNROLLED_COLUMN_STEPS
            if rows <= 2 * ROWS_PER_LOOP and is_small:
                return count
        return 0

    def _memory(self, name: str, rows: int) -> list[Buffer]:
        return [
            self.builder.stack(f"{name}{number}", x.dtype, (rows, self.width))
            for number, x in enumerate(self.accumulators)
        ]

    def _totals(self, name: str) -> list[Buffer]:
        """Stack buffers for totals, initialised to the neutral element."""
        found = [
            self.builder.stack(f"{name}{number}", x.total, (self.width,))
            for number, x in enumerate(self.accumulators)
        ]
        self._start(found)
        return found

    def begin_tile(self, kept: Sequence[Index], tile: Index) -> None:
        """Selects the tile that the following loops process."""
        point = [affine(0)] * (self.last + 1)
        for axis, index in zip(self.kept, kept, strict=True):
            point[axis] = affine(index)
        self.left = affine(0)
        self.ends: tuple[Extent, ...] = (self.columns_in_all,)
        if self.several:
            self.left = affine(tile) * self.width
            self.ends = (self.width,)
            if not is_provably_zero(self.columns_in_all % self.width):
                self.ends = (self.width, affine(self.columns_in_all) - self.left)
        self.whole = self._whole_vectors()
        self.point = tuple(point)

    def _whole_vectors(self) -> Extent | None:
        """The end of the columns of the tile that fill vectors; None if one masked loop handles
        all.
        """
        end = self.ends[-1]
        if type(end) is int and end % VECTOR == 0:
            return end
        size = self.builder.domain.size(range(self.last + 1))
        if is_symbolic(size) or self.width < MIN_SPLIT_VECTORS * VECTOR:
            return None
        reads = self.builder.reads
        # halves are smaller than what is computed with, which takes two masks
        is_slow = bool(self.maps) or any(x.dtype.size < MASKED_BYTES for x in reads)
        is_large = size >= min_split_elements(is_slow)
        # a mask would make gathers of loads of elements that are not adjacent along columns
        gathers = any(abs(x.strides[self.last]) not in (0, x.dtype.size) for x in reads)
        is_cheap = not self.maps and (self.apart == 1 or gathers)
        if not is_cheap and not is_large:
            return None
        if type(end) is int:
            return end - end % VECTOR
        return affine(self.builder.multiple(0, *self.ends, by=VECTOR))

    def _columns(self) -> Iterator[Affine]:
        """Opens loops over the columns of the tile, whose bodies the caller builds: one over whole
        vectors, one over the rest, with a mask, which would slow down all of them.
        """
        lanes = self.builder.lanes(self.last)
        if self.whole is not None:
            with self.builder.loop(0, self.whole, kind="vector", lanes=lanes) as column:
                yield affine(column)
        if self.whole != self.ends[-1]:
            begin = 0 if self.whole is None else self.whole
            with self.builder.loop(begin, *self.ends, kind="masked", lanes=lanes) as column:
                yield affine(column)

    def point_of(self, column: Affine) -> Point:
        """The point of a column of the tile."""
        return (*self.point[: self.last], self.left + column)

    def _start(self, memories: list[Buffer]) -> None:
        for column in self._columns():
            for x, memory in zip(self.accumulators, memories, strict=True):
                self.builder.store(x.start(x.total), memory, (column,))

    def reduce_all(self, sink: Sink) -> None:
        """Passes the totals over all rows of the tile to `sink`."""
        if self.is_one_block:
            self.reduce_block(affine(0), self._from_start(sink))
            return
        totals = self._totals("totals")
        if not self.in_parts:
            self._reduce_blocks(totals, affine(0), affine(self.blocks))
        else:
            in_part = self._totals("part")
            with self.builder.loop(0, self.parts, copies=1) as part:
                self._start(in_part)
                self._reduce_group(in_part, affine(part))
                for column in self._columns():
                    added: list[Value] = [self.builder.load(each, (column,)) for each in in_part]
                    self._added_to(totals)(column, added)
        self._hand_on(totals, sink)

    def reduce_part(self, part: Affine, sink: Sink) -> None:
        """Passes the totals of one group of blocks to `sink`."""
        totals = self._totals("totals")
        self._reduce_group(totals, part)
        self._hand_on(totals, sink)

    def _hand_on(self, totals: list[Buffer], sink: Sink) -> None:
        for column in self._columns():
            sink(column, [self.builder.load(each, (column,)) for each in totals])

    def _reduce_group(self, totals: list[Buffer], part: Affine) -> None:
        first = part * PART
        self._reduce_blocks(totals, first, first + PART, affine(self.blocks))

    def _reduce_blocks(self, totals: list[Buffer], first: Affine, *ends: Affine) -> None:
        with self.builder.loop(first, *ends, copies=1) as block:
            self.reduce_block(affine(block), self._added_to(totals))

    def _from_start(self, sink: Sink) -> Sink:
        """A sink that combines with the initial value first."""

        def combine(column: Affine, found: list[Value]) -> None:
            pairs = zip(self.accumulators, found, strict=True)
            sink(column, [x.combine(self.builder, x.start(x.total), each) for x, each in pairs])

        return combine

    def _added_to(self, totals: list[Buffer]) -> Sink:
        builder = self.builder

        def add(column: Affine, found: list[Value]) -> None:
            for x, total, each in zip(self.accumulators, totals, found, strict=True):
                old = builder.load(total, (column,))
                builder.store(x.combine(builder, old, each), total, (column,))

        return add

    def reduce_block(self, number: Affine, sink: Sink) -> None:
        """Passes the results of a block to `sink`, in the dtype of totals."""
        builder, point = self.builder, self.point
        if self.outer and not self.is_long:
            point, number = builder.at(point, self.outer, number), affine(0)
        elif self.outer:
            lengths = [builder.domain.lengths[axis] for axis in self.outer]
            *above, inside = builder.split(number, [*lengths, self.blocks_in_row])
            moved, number = list(point), affine(inside)
            for axis, index in zip(self.outer, above, strict=True):
                moved[axis] = affine(index)
            point = tuple(moved)
        self._reduce_rows(point, number * BLOCK, sink)

    def _reduce_rows(self, point: Point, start: Affine, sink: Sink) -> None:
        """Passes the results of the block that begins at a row to `sink`."""
        if self.is_short:
            self._reduce_short(point, sink)
        elif self.is_narrow:
            self._reduce_in_order(point, start, sink)
        elif self.lanes_at_once:
            self._reduce_few_rows(point, sink)
        else:
            self._reduce_lanes(point, start, sink)

    def _reduce_lanes(self, point: Point, start: Affine, sink: Sink) -> None:
        """The rows of a block from `start` on: first the lanes that are combined first, side by
        side, then their combinations.
        """
        builder = self.builder
        count = min(LANES_PER_LOOP, self.lane_count)
        groups = self.lane_count // count
        with builder.loop(0, groups, copies=1) as group:
            with builder.loop(0, count, copies=1) as lane:
                number = affine(group) + affine(lane) * groups
                self._reduce_lane(point, start, number, affine(lane))
            if groups > 1:
                for column in self._columns():
                    folded = self._fold(self.lanes, count, column)
                    for value, memory in zip(folded, self.folded, strict=True):
                        builder.store(value, memory, (affine(group), column))
        lanes, left = (self.folded, groups) if groups > 1 else (self.lanes, count)
        for column in self._columns():
            self._hand_on_widened(self._fold(lanes, left, column), column, sink)

    def _fold(
        self,
        memories: list[Buffer],
        count: int,
        column: Affine,
        first: Affine | None = None,
        apart: int = 1,
    ) -> list[Value]:
        """Combines `count` lanes in memory, from `first` on, `apart` rows apart."""
        begin = affine(0) if first is None else first
        return [
            self._combined(
                x,
                [
                    self.builder.load(memory, (begin + lane * apart, column))
                    for lane in range(count)
                ],
            )
            for x, memory in zip(self.accumulators, memories, strict=True)
        ]

    def _reduce_few_rows(self, point: Point, sink: Sink) -> None:
        """The rows of a block, some lanes at a time, in registers. The first lanes may have one row
        more than the others.
        """
        count = self.lanes_at_once
        groups = self.lane_count // count
        rows, longer = divmod(self.length, self.apart)
        middle = longer % groups
        for first, end in ((0, middle), (middle, groups)):
            if first == end:
                continue
            counts = [rows + (first + lane * groups < longer) for lane in range(count)]
            with self.builder.loop(first, end, copies=1) as group:
                numbers = [affine(group) + lane * groups for lane in range(count)]
                self._combine_lanes(point, affine(group), list(zip(numbers, counts, strict=True)))
        for column in self._columns():
            self._hand_on_widened(self._fold(self.folded, groups, column), column, sink)

    def _combine_lanes(self, point: Point, to: Affine, lanes: list[tuple[Affine, int]]) -> None:
        """Combines lanes, given by their numbers and how many rows they have."""
        builder = self.builder
        rows = [
            [builder.at(point, self.inner, number + self.apart * row) for row in range(count)]
            for number, count in lanes
        ]
        for column in self._columns():
            found = [[self._elements_at(row, column) for row in lane] for lane in rows]
            for number, (x, memory) in enumerate(zip(self.accumulators, self.folded, strict=True)):
                values = [self._combined_rows(x, [row[number] for row in lane]) for lane in found]
                builder.store(self._combined(x, values), memory, (to, column))

    def _reduce_in_order(self, point: Point, start: Affine, sink: Sink) -> None:
        """The rows of a block from `start` on in the order of memory, each added to its lane. Rows
        are short, so all lanes stay in L1; those of one lane would be short runs far apart, which
        prefetching does not see and which share sets of L1.
        """
        builder, lanes = self.builder, self.lane_count
        sure, most = self._rows_of_lanes()
        rows_at_once = self.rows_at_once
        done = min(rows_at_once, sure)
        with builder.loop(0, lanes, copies=1) as lane:
            self._add_rows(point, affine(lane), start + lane, done, is_first=True)
        chunks, rest = divmod(sure - done, rows_at_once)
        first = start + done * lanes
        for count, times in ((rows_at_once, chunks), (rest, 1)):
            if count and times:
                by = count * lanes
                with (
                    builder.loop(first, first + times * by, step=by, copies=1) as row,
                    builder.loop(0, lanes, copies=1) as lane,
                ):
                    self._add_rows(point, affine(lane), affine(row) + lane, count)
                first = first + times * by
        if most > sure:
            ends = (start + BLOCK, affine(self.length)) if self.is_long else (affine(self.length),)
            with (
                builder.loop(first, *ends, step=lanes, copies=1) as row,
                builder.loop(affine(row), affine(row) + lanes, *ends, copies=1) as each,
            ):
                self._add_rows(point, affine(each) - row, affine(each), 1)
        groups = lanes // LANES_PER_LOOP
        with builder.loop(0, groups, copies=1) as group:
            for column in self._columns():
                folded = self._fold(self.lanes, LANES_PER_LOOP, column, affine(group), groups)
                for value, memory in zip(folded, self.folded, strict=True):
                    builder.store(value, memory, (affine(group), column))
        for column in self._columns():
            self._hand_on_widened(self._fold(self.folded, groups, column), column, sink)

    def _hand_on_widened(self, found: list[Value], column: Affine, sink: Sink) -> None:
        pairs = zip(self.accumulators, found, strict=True)
        sink(column, [x.widened(self.builder, each) for x, each in pairs])

    def _reduce_lane(self, point: Point, start: Affine, number: Affine, lane: Affine) -> None:
        """The rows of a block that belong to a lane, several at a time, so that the lane is loaded
        and stored once for all of them. All but the last may be known to exist.
        """
        builder, apart = self.builder, self.apart
        sure, most = self._rows_of_lanes()
        begin = start + number
        done = min(self.rows_at_once, sure)
        half = self.rows_at_once // 2
        spare = 0 if self.columns_in_all % ALIASING_ELEMENTS == 0 else half // 2
        if sure <= self.rows_at_once + spare and most <= sure + 1:
            done = sure
        elif 1 < half <= done and sure < most - 1:
            # The last block is shorter, and the others come out even.
            sure = done = done // half * half
        self._add_rows(point, lane, begin, done, is_first=True)
        chunks, rest = divmod(sure - done, self.rows_at_once)
        first = begin + done * apart
        if chunks:
            by = apart * self.rows_at_once
            with builder.loop(first, first + chunks * by, step=by, copies=1) as row:
                self._add_rows(point, lane, affine(row), self.rows_at_once)
            first = first + chunks * by
        if rest:
            self._add_rows(point, lane, first, rest)
            first = first + rest * apart
        ends: tuple[Affine, ...] = (affine(self.length),)
        if self.is_long:
            ends = (start + BLOCK, affine(self.length))
        for rows_at_once in (self.rows_at_once, half):
            if 1 < rows_at_once <= most - sure:
                by = apart * rows_at_once
                whole = affine(builder.multiple(first, *(end + (apart - 1) for end in ends), by=by))
                with builder.loop(first, whole, step=by, copies=1) as row:
                    self._add_rows(point, lane, affine(row), rows_at_once)
                first = whole
        if most > sure:
            with builder.loop(first, *ends, step=apart, copies=1) as row:
                self._add_rows(point, lane, affine(row), 1)

    def _rows_of_lanes(self) -> tuple[int, int]:
        """The minimum and maximum number of rows per lane in a block."""
        if is_symbolic(self.length):
            return 0, BLOCK // self.apart
        in_last = self.length - (self.blocks_in_row - 1) * BLOCK
        longest = BLOCK if self.is_long else in_last
        return in_last // self.apart, -(-longest // self.apart)

    def _reduce_short(self, point: Point, sink: Sink) -> None:
        """A block in which each row is a lane, kept in registers."""
        rows = [self.builder.at(point, self.inner, affine(row)) for row in range(self.length)]
        for column in self._columns():
            lanes = [self._elements_at(row, column) for row in rows]
            found = [
                self._combined(x, list(each))
                for x, each in zip(self.accumulators, zip(*lanes, strict=True), strict=True)
            ]
            self._hand_on_widened(found, column, sink)

    def _combined(self, x: Accumulator, lanes: Sequence[Value]) -> Value:
        """Combines lanes, upper halves with lower halves; the upper half may be incomplete."""
        half = lane_count(len(lanes))
        while half > 1:
            half //= 2
            upper = lanes[half:]
            lanes = [
                x.combine(self.builder, a, upper[lane]) if lane < len(upper) else a
                for lane, a in enumerate(lanes[:half])
            ]
        return lanes[0]

    def _elements_at(self, row: Point, column: Affine) -> list[Value]:
        """The elements that are reduced at a point; outputs are stored along the way."""
        builder = self.builder
        here = (*row[: self.last], self.left + column)
        known: Known = {}
        builder.compute(self.maps, known, here)
        builder.store_outputs(self.outputs, known, here)
        return [
            x.added(builder, builder.reduced_input(x.step, known, here)) for x in self.accumulators
        ]

    def _add_rows(
        self, point: Point, lane: Affine, first: Affine, rows_at_once: int, is_first: bool = False
    ) -> None:
        """Combines some rows of a lane sequentially into its memory, which is uninitialised before
        the first. Totals start from the initial value, so lanes need not if they have rows.
        """
        builder = self.builder
        rows = [
            builder.at(point, self.inner, first + self.apart * number)
            for number in range(rows_at_once)
        ]
        for column in self._columns():
            found: list[list[Value]] = []
            if not is_first:
                found = [[builder.load(each, (lane, column)) for each in self.lanes]]
            found += [self._elements_at(row, column) for row in rows]
            found = found or [[x.start(x.dtype) for x in self.accumulators]]
            for x, memory, *values in zip(self.accumulators, self.lanes, *found, strict=True):
                builder.store(self._combined_rows(x, values), memory, (lane, column))

    def _combined_rows(self, x: Accumulator, values: list[Value]) -> Value:
        """Combines the rows of a lane one after the other, or if the order is free as a tree, which
        is not bound by the latency of combining two.
        """
        if self.apart > 1:
            return reduce(partial(x.combine, self.builder), values)
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            last = values[-1:] if len(values) % 2 else []
            values = [x.combine(self.builder, a, b) for a, b in pairs] + last
        return values[0]
