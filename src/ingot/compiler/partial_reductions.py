"""Reductions in parts: of few long rows, and along other axes than the last.

Groups of blocks (`graph/reduction_order.py`) are reduced by themselves, which spreads over threads;
their results go to scratch memory, and a second kernel combines them. The groups do not depend on
the number of threads, so neither do the results.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.code import Register
from ingot.compiler.emit import Element
from ingot.compiler.loops import Kernel, Lowered, Pointers, Writer, flat, unflat
from ingot.compiler.reductions import Accumulator, Rows, load_raw, raw_size, store_raw
from ingot.compiler.schedule import Group
from ingot.compiler.tape import Step
from ingot.graph.reduction_order import BLOCK, LANES, PART
from ingot.graph.shape import size_of

__all__ = ["columns", "split"]

# Elements side by side in a reduction along other axes: lanes of them should fit into L2, there
# should be some tiles for threads to share, and rows of a tile should be some cache lines long.
MAX_COLUMNS, MIN_COLUMNS = 512, 128
SOME_TILES = 16
# rows that a reduction along columns combines at once, divided by the steps it computes
ROWS_TOGETHER = 8
MAX_WRITTEN_OUT = 64  # steps of a column's code that has no loop over rows
MANY_TILES = 64  # tiles of columns that keep all threads busy, each being reduced by one of them
SMALL = 1 << 16  # elements that one thread reduces at once anyway


def split(writer: Writer, strides_of: dict[Step, tuple[int, ...]]) -> Lowered:
    """Reductions of few long rows, or of axes in any order: groups of blocks, then all of them."""
    domain, code = writer.domain, writer.code
    pointers, begin, end = writer.begin()
    maps = _elements(writer)

    def body(spot: Pointers, index: Register | None) -> list[Element]:
        known: dict[Step, Element] = {}
        writer.compute(maps, known, spot)
        writer.store_outputs(_outputs(writer, whole=True), known, spot)
        return [writer.reduced_input(step, known, spot) for step in writer.reductions]

    accumulators = [Accumulator(step) for step in writer.reductions]
    reduced = Rows(writer, accumulators, body)
    rows, parts = domain.size(domain.kept), reduced.parts
    with code.loop(begin, end) as loop:
        row, part = loop.index, writer.i64(0)
        if parts > 1:
            row = code.binary("udiv", loop.index, writer.i64(parts))
            part = code.binary("urem", loop.index, writer.i64(parts))
        here = writer.placed(pointers, row, domain.kept)
        if parts <= 1:
            _store_results(writer, accumulators, reduced.row(here), here)
        else:
            totals = reduced.part(here, part)
            _store_partials(writer, totals, writer.scratch, loop.index, rows * parts)
    grain = writer.grain(domain.size(domain.reduced) // max(1, parts))
    if parts <= 1:
        return Lowered([writer.finish(rows, grain)])
    kernel = writer.finish(rows * parts, grain, scratch=True)
    finish = _combine_partials(writer.group, strides_of, parts, rows, by_part=False)
    return Lowered([kernel, finish], 8 * rows * parts * len(accumulators))


def _outputs(writer: Writer, whole: bool) -> list[Step]:
    """The outputs with an element at each place of the domain, or those with one a row."""
    size = size_of(writer.group.domain)
    return [step for step in writer.group.outputs if (size_of(step.shape) == size) is whole]


def _is_reduction(step: Step) -> bool:
    return step.op is not None and step.op.role == "reduce"


def _elements(writer: Writer) -> list[Step]:
    """What is computed at each place of the domain."""
    reduced = [step.inputs[0] for step in writer.reductions]
    return writer.closure([*reduced, *_outputs(writer, whole=True)], lambda step: False)


def _store_results(
    writer: Writer,
    accumulators: Sequence[Accumulator],
    totals: Sequence[Element],
    here: Pointers,
) -> None:
    """Writes what a row was reduced to, and what follows from that."""
    known = {x.step: x.result(writer, total) for x, total in zip(accumulators, totals, strict=True)}
    outputs = _outputs(writer, whole=False)
    writer.compute(writer.closure(outputs, _is_reduction), known, here)
    writer.store_outputs(outputs, known, here)


def _partial_address(
    writer: Writer, number: int, scratch: Register, index: Register, count: int
) -> Register:
    """Where a partial result is kept: 8 bytes each, all of one reduction together."""
    base = writer.code.offset(scratch, writer.i64(8 * number * count))
    return writer.code.element("i64", base, index)


def _store_partials(
    writer: Writer, totals: Sequence[Element], scratch: Register, index: Register, count: int
) -> None:
    for number, total in enumerate(totals):
        address = _partial_address(writer, number, scratch, index, count)
        writer.code.notes.append(("store", total.register.name, address.name))
        store_raw(writer.code, total, address)


def _combine_partials(
    group: Group, strides_of: dict[Step, tuple[int, ...]], parts: int, rows: int, by_part: bool
) -> Kernel:
    """The second kernel of a split reduction. Partial results lie row by row, or (`by_part`) part
    by part.
    """
    writer = Writer(group, strides_of)
    code = writer.code
    pointers, begin, end = writer.begin()
    scratch = writer.scratch
    accumulators = [Accumulator(step) for step in writer.reductions]
    with code.loop(begin, end) as loop:
        totals = [x.start(writer.k, x.total) for x in accumulators]
        with code.loop(writer.i64(0), writer.i64(parts), flat(totals)) as inner:
            running = unflat(inner.carried, totals)
            if by_part:
                index = code.binary(
                    "add nsw", code.binary("mul nsw", inner.index, writer.i64(rows)), loop.index
                )
            else:
                index = code.binary(
                    "add nsw", code.binary("mul nsw", loop.index, writer.i64(parts)), inner.index
                )
            updated = []
            for number, (x, total) in enumerate(zip(accumulators, running, strict=True)):
                address = _partial_address(writer, number, scratch, index, rows * parts)
                partial = load_raw(code, x.total, address)
                code.notes.append(("load", partial.register.name, address.name))
                updated.append(x.combine(writer.k, total, partial))
            inner.updated = flat(updated)
        here = writer.placed(pointers, loop.index, writer.domain.kept)
        _store_results(writer, accumulators, unflat(inner.carried, totals), here)
    return writer.finish(rows, writer.grain(parts), scratch=True)


def columns(writer: Writer, strides_of: dict[Step, tuple[int, ...]]) -> Lowered:
    """Reductions along other axes than the last: tiles of the last axis, side by side. What one
    thread does at once anyway, or is enough tiles for many threads, needs no parts.
    """
    tiles = _Columns(writer)
    domain, code = writer.domain, writer.code
    pointers, begin, end = writer.begin()
    is_small = size_of(domain.lengths) <= SMALL
    if is_small or tiles.parts <= 1 or tiles.count >= MANY_TILES:
        with code.loop(begin, end) as loop:
            tiles.begin_tile(pointers, loop.index)
            tiles.reduce_all()
            with code.loop(writer.i64(0), tiles.width_here) as final:
                totals = tiles.totals_at(final.index)
                here = writer.moved(tiles.here, final.index, tiles.last)
                _store_results(writer, tiles.accumulators, totals, here)
        work = tiles.width * domain.size(domain.reduced)
        return Lowered([writer.finish(tiles.count, writer.grain(work))])
    rows, parts = domain.size(domain.kept), tiles.parts
    length = domain.lengths[tiles.last]
    with code.loop(begin, end) as loop:
        tile = code.binary("urem", loop.index, writer.i64(tiles.in_row))
        above = code.binary("udiv", loop.index, writer.i64(tiles.in_row))
        part = code.binary("urem", above, writer.i64(parts))
        row = code.binary("udiv", above, writer.i64(parts))
        at = code.binary("add nsw", code.binary("mul nsw", row, writer.i64(tiles.in_row)), tile)
        tiles.begin_tile(pointers, at)
        tiles.reduce_part(part)
        with code.loop(writer.i64(0), tiles.width_here) as final:
            column = code.binary("add nsw", tiles.left, final.index)
            position = code.binary(
                "add nsw", code.binary("mul nsw", tiles.row, writer.i64(length)), column
            )
            index = code.binary("add nsw", code.binary("mul nsw", part, writer.i64(rows)), position)
            totals = tiles.totals_at(final.index)
            _store_partials(writer, totals, writer.scratch, index, rows * parts)
    work = tiles.width * (domain.size(domain.reduced) // parts)
    kernel = writer.finish(tiles.count * parts, writer.grain(work), scratch=True)
    finish = _combine_partials(writer.group, strides_of, parts, rows, by_part=True)
    return Lowered([kernel, finish], 8 * rows * parts * len(tiles.accumulators))


class _Columns:
    """Tiles of columns: what is written for one, which `begin_tile` chooses.

    Each lane of the order is a row of memory as wide as the tile. So are the totals, and those of
    groups of blocks where there are several.
    """

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        domain = writer.domain
        self.last = len(domain.lengths) - 1
        self.kept = [axis for axis in domain.kept if axis != self.last]
        columns = domain.lengths[self.last]
        shared = -(-columns // SOME_TILES)
        self.width = min(columns, max(MIN_COLUMNS, min(MAX_COLUMNS, shared)))
        self.in_row = -(-domain.lengths[self.last] // self.width)  # tiles along the last axis
        self.count = domain.size(self.kept) * self.in_row
        self.accumulators = [Accumulator(step) for step in writer.reductions]
        self.inner = domain.inner
        self.outer = tuple(axis for axis in domain.reduced if axis not in domain.inner)
        self.length = domain.size(self.inner)
        self.blocks_in_row = -(-self.length // BLOCK)
        self.blocks = self.blocks_in_row * domain.size(self.outer)
        self.parts = -(-self.blocks // PART)
        self.lane_count = min(LANES, 1 << max(self.length - 1, 0).bit_length())
        self.maps, self.outputs = _elements(writer), _outputs(writer, whole=True)
        self.together = max(1, ROWS_TOGETHER // max(1, len(self.maps)))
        self.is_short = (
            0 < self.length <= LANES and self.length * (len(self.maps) + 1) <= MAX_WRITTEN_OUT
        )
        code = writer.code
        self.lanes = [
            code.reserve(self.lane_count * self.width * raw_size(x.dtype))
            for x in self.accumulators
        ]
        self.totals = [code.reserve(self.width * raw_size(x.total)) for x in self.accumulators]
        # the totals of one group of blocks, where there are several
        self.in_part = self.totals
        if self.parts > 1:
            self.in_part = [code.reserve(self.width * raw_size(x.total)) for x in self.accumulators]

    def begin_tile(self, pointers: Pointers, index: Register) -> None:
        """Which tile the code that follows is for."""
        w, code = self.writer, self.writer.code
        self.row, self.left, self.width_here = index, w.i64(0), w.i64(self.width)
        if self.in_row > 1:
            tile = code.binary("urem", index, w.i64(self.in_row))
            self.row = code.binary("udiv", index, w.i64(self.in_row))
            self.left = code.binary("mul nsw", tile, w.i64(self.width))
            remaining = code.binary("sub nsw", w.i64(w.domain.lengths[self.last]), self.left)
            self.width_here = code.intrinsic("smin", w.i64(self.width), remaining)
        here = w.placed(pointers, self.row, self.kept) if self.kept else pointers
        self.here = w.moved(here, self.left, self.last) if self.in_row > 1 else here

    # Memory as wide as a tile

    def _address(self, x: Accumulator, memory: Register, is_total: bool, at: Register) -> Register:
        size = raw_size(x.total if is_total else x.dtype)
        code = self.writer.code
        return code.offset(memory, code.binary("mul nsw", at, self.writer.i64(size)))

    def _lane_at(self, lane: Register, column: Register) -> Register:
        code = self.writer.code
        first = code.binary("mul nsw", lane, self.writer.i64(self.width))
        return code.binary("add nsw", first, column)

    def totals_at(self, column: Register) -> list[Element]:
        """The totals of a column."""
        return [
            load_raw(self.writer.code, x.total, self._address(x, memory, True, column))
            for x, memory in zip(self.accumulators, self.totals, strict=True)
        ]

    def _start(self, memories: list[Register]) -> None:
        w = self.writer
        with w.code.loop(w.i64(0), self.width_here) as loop:
            for x, memory in zip(self.accumulators, memories, strict=True):
                address = self._address(x, memory, True, loop.index)
                store_raw(w.code, x.start(w.k, x.total), address)

    # The order

    def reduce_all(self) -> None:
        """All rows of the tile into `totals`."""
        w, code = self.writer, self.writer.code
        self._start(self.totals)
        if self.parts <= 1:
            self._reduce_blocks(w.i64(0), w.i64(self.blocks))
            return
        with code.loop(w.i64(0), w.i64(self.parts)) as part:
            self._start(self.in_part)
            self._reduce_group(part.index)
            with code.loop(w.i64(0), self.width_here) as loop:
                for x, total, more in zip(
                    self.accumulators, self.totals, self.in_part, strict=True
                ):
                    address = self._address(x, total, True, loop.index)
                    added = load_raw(code, x.total, self._address(x, more, True, loop.index))
                    store_raw(
                        code, x.combine(w.k, load_raw(code, x.total, address), added), address
                    )

    def reduce_part(self, part: Register) -> None:
        """The rows of one group of blocks into `totals`."""
        self.in_part = self.totals
        self._start(self.totals)
        self._reduce_group(part)

    def _reduce_group(self, part: Register) -> None:
        w, code = self.writer, self.writer.code
        first = code.binary("mul nsw", part, w.i64(PART))
        past = code.binary("add nsw", first, w.i64(PART))
        self._reduce_blocks(first, code.intrinsic("smin", past, w.i64(self.blocks)))

    def _reduce_blocks(self, first: Register, past: Register) -> None:
        w, code = self.writer, self.writer.code
        with code.loop(first, past) as loop:
            here, number = self.here, loop.index
            if self.outer:
                row = number
                if self.blocks_in_row > 1:
                    row = code.binary("udiv", number, w.i64(self.blocks_in_row))
                    number = code.binary("urem", number, w.i64(self.blocks_in_row))
                else:
                    number = w.i64(0)
                here = w.placed(here, row, self.outer)
            start = code.binary("mul nsw", number, w.i64(BLOCK))
            left = code.binary("sub nsw", w.i64(self.length), start)
            self._reduce_block(here, start, code.intrinsic("smin", left, w.i64(BLOCK)))

    def _reduce_block(self, here: Pointers, start: Register, count: Register) -> None:
        """`count` rows from `start` on, lane by lane, and the lanes into the totals."""
        w, code = self.writer, self.writer.code
        if self.is_short:
            self._reduce_short(here)
            return
        with code.loop(w.i64(0), w.i64(self.lane_count)) as lane:
            with code.loop(w.i64(0), self.width_here) as loop:
                for x, memory in zip(self.accumulators, self.lanes, strict=True):
                    at = self._lane_at(lane.index, loop.index)
                    store_raw(code, x.start(w.k, x.dtype), self._address(x, memory, False, at))
            first = code.binary("add nsw", start, lane.index)
            reach = code.binary(
                "add nsw", code.binary("sub nsw", count, lane.index), w.i64(LANES - 1)
            )
            rows = code.binary("udiv", code.intrinsic("smax", reach, w.i64(0)), w.i64(LANES))
            whole = w.i64(0)
            if self.together > 1:
                rest = code.binary("urem", rows, w.i64(self.together))
                whole = code.binary("sub nsw", rows, rest)
                with code.loop(w.i64(0), whole, step=self.together) as group:
                    self._add_rows(here, lane.index, first, group.index, self.together)
            with code.loop(whole, rows) as single:
                self._add_rows(here, lane.index, first, single.index, 1)
        with code.loop(w.i64(0), self.width_here) as loop:
            for x, lanes, total in zip(self.accumulators, self.lanes, self.in_part, strict=True):
                address = self._address(x, total, True, loop.index)
                added = x.widened(w.k, self._combined_lanes(x, lanes, loop.index))
                store_raw(code, x.combine(w.k, load_raw(code, x.total, address), added), address)

    def _reduce_short(self, here: Pointers) -> None:
        """A block of which each row is a lane, in registers."""
        w, code = self.writer, self.writer.code
        rows = [w.placed(here, w.i64(row), self.inner) for row in range(self.length)]
        with code.loop(w.i64(0), self.width_here) as loop:
            lanes = [self._elements_at(w.moved(row, loop.index, self.last)) for row in rows]
            for x, total, column in zip(
                self.accumulators, self.in_part, zip(*lanes, strict=True), strict=True
            ):
                address = self._address(x, total, True, loop.index)
                added = x.widened(w.k, self._halved(x, list(column)))
                store_raw(code, x.combine(w.k, load_raw(code, x.total, address), added), address)

    def _combined_lanes(self, x: Accumulator, memory: Register, column: Register) -> Element:
        """The lanes of a column combined."""
        w, code = self.writer, self.writer.code
        lanes = []
        for lane in range(self.lane_count):
            at = code.binary("add nsw", column, w.i64(lane * self.width))
            lanes.append(load_raw(code, x.dtype, self._address(x, memory, False, at)))
        return self._halved(x, lanes)

    def _halved(self, x: Accumulator, lanes: list[Element]) -> Element:
        """Lanes combined, upper halves with lower ones; of the upper half some may be missing."""
        half = self.lane_count
        while half > 1:
            half //= 2
            upper = lanes[half:]
            lanes = [
                x.combine(self.writer.k, a, upper[lane]) if lane < len(upper) else a
                for lane, a in enumerate(lanes[:half])
            ]
        return lanes[0]

    def _elements_at(self, spot: Pointers) -> list[Element]:
        """What is reduced at a place; outputs are written on the way."""
        known: dict[Step, Element] = {}
        self.writer.compute(self.maps, known, spot)
        self.writer.store_outputs(self.outputs, known, spot)
        return [self.writer.reduced_input(x.step, known, spot) for x in self.accumulators]

    def _add_rows(
        self, here: Pointers, lane: Register, first: Register, group: Register, together: int
    ) -> None:
        """Combines some rows of a lane, one after the other, into its memory."""
        w, code = self.writer, self.writer.code
        rows = []
        for number in range(together):
            step = code.binary("add nsw", group, w.i64(number))
            row = code.binary("add nsw", first, code.binary("mul nsw", step, w.i64(LANES)))
            rows.append(w.placed(here, row, self.inner))
        with code.loop(w.i64(0), self.width_here) as loop:
            at = self._lane_at(lane, loop.index)
            addresses = [
                self._address(x, memory, False, at)
                for x, memory in zip(self.accumulators, self.lanes, strict=True)
            ]
            running = [
                load_raw(code, x.dtype, address)
                for x, address in zip(self.accumulators, addresses, strict=True)
            ]
            for at_row in rows:
                spot = w.moved(at_row, loop.index, self.last)
                running = [
                    x.combine(w.k, total, added)
                    for x, total, added in zip(
                        self.accumulators, running, self._elements_at(spot), strict=True
                    )
                ]
            for x, address in zip(running, addresses, strict=True):
                store_raw(code, x, address)
