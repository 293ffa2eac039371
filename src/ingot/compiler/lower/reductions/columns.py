"""Columns: reductions along other axes than the last, in tiles of the last axis.

Each lane of the order (`graph/numerics/reduction_order.py`) is a row of memory as wide as the tile.
So are the totals, and those of groups of blocks where there are several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.forms.size import Number, is_symbolic
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import GroupBuilder, Known, Spot
from ingot.compiler.lower.reductions.accumulators import Accumulator, is_zero_anyway, lane_count
from ingot.graph.numerics.reduction_order import BLOCK, LANES, PART
from ingot.tuning import (
    LANES_TOGETHER,
    MAX_TILE_COLUMNS,
    MAX_UNROLLED_COLUMN_STEPS,
    MIN_COLUMN_TILES,
    MIN_TILE_COLUMNS,
    ROWS_TOGETHER,
)

__all__ = ["Columns"]


def _width(columns: Number) -> int:
    """How many columns a tile has. Of a number that is not known, a class decides."""
    if is_symbolic(columns):
        return (
            MIN_TILE_COLUMNS if columns <= MIN_COLUMN_TILES * MIN_TILE_COLUMNS else MAX_TILE_COLUMNS
        )
    shared = -(-columns // MIN_COLUMN_TILES)
    return min(columns, max(MIN_TILE_COLUMNS, min(MAX_TILE_COLUMNS, shared)))


class Columns:
    """Tiles of columns: what is built for one, which `begin_tile` chooses."""

    def __init__(self, builder: GroupBuilder, maps: list[Step], outputs: list[Step]) -> None:
        self.builder = builder
        domain = builder.domain
        self.last = len(domain.lengths) - 1
        self.kept = [axis for axis in domain.kept if axis != self.last]
        self.columns_in_all = domain.lengths[self.last]
        self.width = _width(self.columns_in_all)
        self.several = self.columns_in_all > self.width
        # tiles along the last axis
        self.in_row = -(-self.columns_in_all // self.width) if self.several else 1
        self.count = domain.size(self.kept) * self.in_row
        self.accumulators = [Accumulator(step) for step in builder.reductions]
        self.inner = domain.inner
        self.outer = tuple(axis for axis in domain.reduced if axis not in domain.inner)
        self.length = domain.size(self.inner)
        self.is_long = self.length > BLOCK
        self.blocks_in_row = -(-self.length // BLOCK) if self.is_long else 1
        self.blocks = self.blocks_in_row * domain.size(self.outer)
        self.is_one_block = type(self.blocks) is int and self.blocks == 1
        self.in_parts = self.blocks > PART
        self.parts = -(-self.blocks // PART) if self.in_parts else 1
        self.lane_count = lane_count(self.length)
        # whether lanes begin with rows, not with zeros that those are added to
        self.fills_lanes = not self.is_long and type(self.length) is int and self.length >= LANES
        self.maps, self.outputs = maps, outputs
        self.together = max(1, ROWS_TOGETHER // max(1, len(self.maps)))
        self.is_short = (
            type(self.length) is int
            and 0 < self.length <= LANES
            and self.length * (len(self.maps) + 1) <= MAX_UNROLLED_COLUMN_STEPS
        )
        if not self.is_short:
            self.lanes = [
                builder.stack(f"lanes{number}", x.dtype, (self.lane_count, self.width))
                for number, x in enumerate(self.accumulators)
            ]
        self.totals = self._memory("totals")
        self.in_part = self.totals  # of one group of blocks, where there are several

    def _memory(self, name: str) -> list[Buffer]:
        return [
            self.builder.stack(f"{name}{number}", x.total, (self.width,))
            for number, x in enumerate(self.accumulators)
        ]

    def begin_tile(self, kept: Sequence[Index], tile: Index) -> None:
        """Which tile the loops that follow are for."""
        spot = [affine(0)] * (self.last + 1)
        for axis, index in zip(self.kept, kept, strict=True):
            spot[axis] = affine(index)
        self.left = affine(0)
        self.ends: tuple[Extent, ...] = (self.columns_in_all,)
        if self.several:
            self.left = affine(tile) * self.width
            self.ends = (self.width, affine(self.columns_in_all) - self.left)
        self.spot = tuple(spot)

    @contextmanager
    def _loop(self) -> Iterator[Affine]:
        """A loop along the tile."""
        lanes = self.builder.lanes(self.last)
        with self.builder.loop(0, *self.ends, kind="vector", lanes=lanes) as column:
            yield affine(column)

    def columns(self) -> Iterator[tuple[Spot, list[Value]]]:
        """A loop over the columns of the tile, each with its totals."""
        with self._loop() as column:
            totals: list[Value] = [self.builder.load(each, (column,)) for each in self.totals]
            yield (*self.spot[: self.last], self.left + column), totals

    def _start(self, memories: list[Buffer]) -> None:
        with self._loop() as column:
            for x, memory in zip(self.accumulators, memories, strict=True):
                self.builder.store(x.start(x.total), memory, (column,))

    # The order

    def reduce_all(self) -> None:
        """All rows of the tile into `totals`."""
        builder = self.builder
        if not self.is_one_block:
            self._start(self.totals)
        if not self.in_parts:
            self._reduce_blocks(affine(0), affine(self.blocks))
            return
        self.in_part = self._memory("part")
        with builder.loop(0, self.parts, copies=1) as part:
            self._start(self.in_part)
            self._reduce_group(affine(part))
            with self._loop() as column:
                for x, total, more in zip(
                    self.accumulators, self.totals, self.in_part, strict=True
                ):
                    old, added = builder.load(total, (column,)), builder.load(more, (column,))
                    builder.store(x.combine(builder, old, added), total, (column,))

    def reduce_part(self, part: Affine) -> None:
        """The rows of one group of blocks into `totals`."""
        self._start(self.totals)
        self._reduce_group(part)

    def _reduce_group(self, part: Affine) -> None:
        first = part * PART
        self._reduce_blocks(first, first + PART, affine(self.blocks))

    def _reduce_blocks(self, first: Affine, *ends: Affine) -> None:
        builder = self.builder
        with builder.loop(first, *ends, copies=1) as block:
            spot, number = self.spot, affine(block)
            if self.outer and not self.is_long:
                spot, number = builder.at(spot, self.outer, number), affine(0)
            elif self.outer:
                lengths = [builder.domain.lengths[axis] for axis in self.outer]
                *above, inside = builder.split(number, [*lengths, self.blocks_in_row])
                moved, number = list(spot), affine(inside)
                for axis, index in zip(self.outer, above, strict=True):
                    moved[axis] = affine(index)
                spot = tuple(moved)
            if self.is_short:
                self._reduce_short(spot)
            else:
                self._reduce_block(spot, number * BLOCK)

    def _reduce_block(self, spot: Spot, start: Affine) -> None:
        """The rows of a block from `start` on, lane by lane, and the lanes into the totals."""
        builder = self.builder
        ends: tuple[Affine, ...] = (affine(self.length),)
        if self.is_long:
            ends = (start + BLOCK,)
            if not is_zero_anyway(self.length % BLOCK):
                ends = (start + BLOCK, affine(self.length))
        with builder.loop(0, self.lane_count, copies=1) as lane:
            begin = start + lane
            self._begin_lane(spot, affine(lane), begin)
            if self.fills_lanes:
                begin = begin + LANES
            by = LANES * self.together
            rows = self.length - LANES if self.fills_lanes else self.length
            if self.together > 1:
                whole = affine(builder.multiple(begin, *(end + (LANES - 1) for end in ends), by=by))
                with builder.loop(begin, whole, step=by, copies=1) as row:
                    self._add_rows(spot, affine(lane), affine(row), self.together)
                begin = whole
            if self.together == 1 or not is_zero_anyway(rows % by):
                with builder.loop(begin, *ends, step=LANES, copies=1) as row:
                    self._add_rows(spot, affine(lane), affine(row), 1)
        left = self.lane_count
        while left > LANES_TOGETHER:
            left = max(1, left // LANES_TOGETHER)
            self._fold_lanes(left)
        with self._loop() as column:
            for x, memory, total in zip(self.accumulators, self.lanes, self.in_part, strict=True):
                lanes: list[Value] = [
                    builder.load(memory, (affine(lane), column)) for lane in range(left)
                ]
                self._add_to_total(x, lanes, total, column)

    def _begin_lane(self, spot: Spot, lane: Affine, row: Affine) -> None:
        """The first row of a lane, or what to start from if there may be none."""
        builder = self.builder
        with self._loop() as column:
            if self.fills_lanes:  # totals start from zero, so lanes need not
                found = self._elements_at(builder.at(spot, self.inner, row), column)
            else:
                found = [x.start(x.dtype) for x in self.accumulators]
            for value, memory in zip(found, self.lanes, strict=True):
                builder.store(value, memory, (lane, column))

    def _fold_lanes(self, left: int) -> None:
        """Combines lanes that are `left` apart until that many are left: what halving does to them,
        as a loop over few of them at a time.
        """
        builder = self.builder
        with builder.loop(0, left, copies=1) as lane, self._loop() as column:
            for x, memory in zip(self.accumulators, self.lanes, strict=True):
                lanes: list[Value] = [
                    builder.load(memory, (affine(lane) + number * left, column))
                    for number in range(LANES_TOGETHER)
                ]
                builder.store(self._combined(x, lanes), memory, (affine(lane), column))

    def _reduce_short(self, spot: Spot) -> None:
        """A block of which each row is a lane, in registers."""
        rows = [self.builder.at(spot, self.inner, affine(row)) for row in range(self.length)]
        with self._loop() as column:
            lanes = [self._elements_at(row, column) for row in rows]
            for x, total, found in zip(
                self.accumulators, self.in_part, zip(*lanes, strict=True), strict=True
            ):
                self._add_to_total(x, list(found), total, column)

    def _combined(self, x: Accumulator, lanes: list[Value]) -> Value:
        """Combines lanes, upper halves with lower ones. Of the upper half some may be missing."""
        half = lane_count(len(lanes))
        while half > 1:
            half //= 2
            upper = lanes[half:]
            lanes = [
                x.combine(self.builder, a, upper[lane]) if lane < len(upper) else a
                for lane, a in enumerate(lanes[:half])
            ]
        return lanes[0]

    def _add_to_total(
        self, x: Accumulator, lanes: list[Value], total: Buffer, column: Affine
    ) -> None:
        builder = self.builder
        before: Value = x.start(x.total)
        if not self.is_one_block:
            before = builder.load(total, (column,))
        found = x.combine(builder, before, x.widened(builder, self._combined(x, lanes)))
        builder.store(found, total, (column,))

    def _elements_at(self, row: Spot, column: Affine) -> list[Value]:
        """What is reduced at a spot; outputs are written on the way."""
        builder = self.builder
        here = (*row[: self.last], self.left + column)
        known: Known = {}
        builder.compute(self.maps, known, here)
        builder.store_outputs(self.outputs, known, here)
        return [
            x.added(builder, builder.reduced_input(x.step, known, here)) for x in self.accumulators
        ]

    def _add_rows(self, spot: Spot, lane: Affine, first: Affine, together: int) -> None:
        """Combines some rows of a lane, one after the other, into its memory."""
        builder = self.builder
        rows = [builder.at(spot, self.inner, first + LANES * number) for number in range(together)]
        with self._loop() as column:
            running: list[Value] = [builder.load(each, (lane, column)) for each in self.lanes]
            for row in rows:
                added = self._elements_at(row, column)
                running = [
                    x.combine(builder, total, each)
                    for x, total, each in zip(self.accumulators, running, added, strict=True)
                ]
            for value, memory in zip(running, self.lanes, strict=True):
                builder.store(value, memory, (lane, column))
