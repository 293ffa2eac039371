"""Scans: kernels that combine the elements of rows in order, with the maps before and after them.

The order is that of native code (`_native/rows/scan.h`): chunks of SCAN_CHUNK elements are combined
one element after the other, starting from the combination of all chunks before them. Several rows
are scanned in step, each in a lane, because each element waits for the one before it. The maps
before a scan leave their results of a tile in a buffer on the stack, which is transposed, scanned
and transposed back, and the maps after it read both. If other axes lie inside the scanned one,
columns are scanned side by side as vectors, without buffers. A few long rows stay with native code,
which splits them among threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ingot._native import Dtype
from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import repeated
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, CopyBlock, Indices, Value
from ingot.compiler.forms.schedule import Group
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.group import VECTOR_BYTES, GroupBuilder, Known, Point
from ingot.compiler.lower.kernel import Kernel, Lowered
from ingot.graph.dtype import bfloat16, bool_, float16, float32, is_inexact, uint8
from ingot.graph.roles import Scan
from ingot.tuning_rows import (
    MIN_SCANNED_COLUMNS,
    SCAN_CHUNK,
    SCAN_TILE,
    SCANNED_TOGETHER,
)

__all__ = ["lower_scans"]

COLUMNS = 256  # scanned side by side
# The dtypes of elements in buffers, where these are not their own.
_IN_BUFFERS = {float16: float32, bfloat16: float32, bool_: uint8}

Strides = dict[Step, tuple[int, ...]]
# For one of the segments that are scanned in step: its row, and its first position in the row.
Start = Callable[[Affine], tuple[Point, Affine]]
# The result of a segment so far and, if it is wanted too, that of its chunk so far.
Run = Sequence[Value]


def lower_scans(group: Group, strides_of: Strides) -> Lowered:
    """The kernel of a group of scans and maps."""
    builder = _Scans(group, strides_of)
    inner = builder.domain.lengths[builder.axis + 1 :]
    by_columns = inner and inner[-1] >= MIN_SCANNED_COLUMNS
    return Lowered([builder.by_columns() if by_columns else builder.by_rows()])


class _Accumulator:
    """A scan: the dtypes of its buffers and of what it combines."""

    def __init__(self, step: Step) -> None:
        self.step = step
        assert isinstance(step.op, Scan)
        self.op = step.op
        dtype = self.op.accumulates_in(step.dtype)
        assert dtype is not None
        self.dtype: Dtype = dtype
        self.element: Dtype = _IN_BUFFERS.get(step.dtype, step.dtype)
        number = self.op.start(step.dtype.numpy)
        if step.dtype is bool_:
            number = int(number.real)
        # -0 is the identity of sums: -0 + x is x for every x, -0 included. But where it is a result
        # itself, it must be 0.
        if number == 0 and is_inexact(step.dtype) and self.op.inclusive:
            number = -0.0
        self.start = Constant(self.dtype, number)

    def starts(self, segments: int) -> Value:
        """What scans of so many segments start from."""
        return repeated(self.dtype, self.start.value, segments)


class _Scans(GroupBuilder):
    def __init__(self, group: Group, strides_of: Strides) -> None:
        assert group.scanned is not None
        super().__init__(group, strides_of, apart=(group.scanned.axis,))
        self.nest.independent = False
        self.reverse = group.scanned.reverse
        self.axis = self.domain.axes.index((group.scanned.axis,))
        self.length = self.domain.lengths[self.axis]
        self.chunks = -(-self.length // SCAN_CHUNK)
        self.around = [axis for axis in range(len(self.domain.lengths)) if axis != self.axis]
        self.row_count = self.domain.size(self.around)
        self.scans = [_Accumulator(step) for step in group.steps if isinstance(step.op, Scan)]
        scans = {x.step for x in self.scans}
        after = set(scans)
        for step in group.steps:
            if not after.isdisjoint(step.inputs):
                after.add(step)
        outputs = group.outputs
        self.early = [step for step in outputs if step not in after]
        self.late = [step for step in outputs if step in after]
        sources = [x.step.inputs[0] for x in self.scans]
        self.before = self.closure([*sources, *self.early], lambda step: False)
        self.after = self.closure(self.late, lambda step: step in scans)
        self.lanes_along = self._lanes_of_rows()

    def _lanes_of_rows(self) -> int:
        """As `lanes`, for a loop along the scanned axis in the direction of the scan."""
        sign = -1 if self.reverse else 1
        in_memory = (*self.reads, *self.gathers.values(), *self.writes)
        if all(x.strides[self.axis] * sign >= 0 for x in in_memory):
            return 0
        return VECTOR_BYTES // max(x.dtype.size for x in (*self.reads, *self.writes))

    # Points

    def _row(self, number: Affine) -> Point:
        """The first point of a row, by its number."""
        return self.at((affine(0),) * len(self.domain.lengths), self.around, number)

    def _point(self, row: Point, number: Affine) -> Point:
        """The point of a row at a position, counted in the direction of the scan."""
        point = list(row)
        point[self.axis] = affine(self.length - 1) - number if self.reverse else number
        return tuple(point)

    # One step of a scan

    def _next(
        self, x: _Accumulator, run: Sequence[Value], element: Value
    ) -> tuple[list[Value], Value]:
        """Combines an element into a run. Returns that, and the result at its position."""
        operand = self.words.cast(element, x.dtype)
        updated = [x.op.emit_step(self.words, each, operand) for each in run]
        return updated, self.words.cast(updated[0] if x.op.inclusive else run[0], x.element)

    def _result(self, x: _Accumulator, found: Value) -> Value:
        """A result as a value of the program."""
        return self.rounded(self.words.cast(found, x.step.dtype))

    # Rows

    def by_rows(self) -> Kernel:
        """One kernel, in which each thread scans whole rows."""
        together, rest = divmod(self.row_count, SCANNED_TOGETHER)
        self._stack_tiles(SCANNED_TOGETHER if together else 1)
        self.nest.strategy = f"scans rows of {self.length:,} elements with the maps around them"
        for count, segments, first in (
            (together, SCANNED_TOGETHER, 0),
            (rest, 1, together * SCANNED_TOGETHER),
        ):
            if count:
                with self.parallel((count,), segments * self.length) as (part,):
                    self._rows(affine(part) * segments + first, segments)
        return self.finish()

    def _rows(self, first: Affine, segments: int) -> None:
        """Scans rows in step, chunk by chunk if they are long."""
        starts = [x.starts(segments) for x in self.scans]
        if self.length <= SCAN_CHUNK:
            runs: list[Run] = [[start] for start in starts]
            self._scan(lambda s: (self._row(first + s), affine(0)), (self.length,), runs)
            return
        carries = [Carried(start.dtype, start) for start in starts]
        with self.loop(0, self.chunks, carried=carries, copies=1) as chunk:
            begin = affine(chunk) * SCAN_CHUNK
            runs = [[carry, start] for carry, start in zip(carries, starts, strict=True)]
            ends = (SCAN_CHUNK, affine(self.length) - begin)
            found = self._scan(lambda s: (self._row(first + s), begin), ends, runs)
            for x, carry, run in zip(self.scans, carries, found, strict=True):
                carry.update = x.op.emit_step(self.words, carry, run[1])

    def _stack_tiles(self, segments: int) -> None:
        """Declares buffers for what is scanned and for results of scans, of which each segment is a
        row, and for the same transposed.
        """
        self.sources: dict[Step, Buffer] = {}
        self.results: list[Buffer] = []
        self.transposed: dict[Buffer, Buffer] = {}
        for number, x in enumerate(self.scans):
            source = x.step.inputs[0]
            found = self.stack(f"scanned{number}", x.element, (segments, SCAN_TILE))
            self.results.append(found)
            made = [found]
            if source not in self.sources:
                self.sources[source] = self.stack(f"source{number}", x.element, found.shape)  # type: ignore[arg-type]
                made.append(self.sources[source])
            if segments > 1:
                for each in made:
                    transposed = self.stack(f"{each.name}t", x.element, (SCAN_TILE, segments))
                    self.transposed[each] = transposed

    def _scan(
        self, start: Start, ends: Sequence[Affine | int], runs: list[Run]
    ) -> list[list[Carried]]:
        """Scans segments in step, each in a lane, up to the least of `ends` positions after their
        beginning, tile by tile. Returns the runs at their ends.
        """
        segments = runs[0][0].lanes
        outer = [[Carried(each.dtype, each) for each in run] for run in runs]
        every = [each for run in outer for each in run]
        with self.loop(0, *ends, step=SCAN_TILE, carried=every, copies=1) as tile:
            bounds = (affine(tile) + SCAN_TILE, *ends)
            here: tuple[Affine | int, ...] = (SCAN_TILE, *(affine(end) - tile for end in ends))
            self._map_before(start, segments, tile, bounds)
            if segments > 1:
                for buffer in self.sources.values():
                    self._transpose(buffer, self.transposed[buffer], here)
            inner = [[Carried(each.dtype, each) for each in run] for run in outer]
            within = [each for run in inner for each in run]
            with self.loop(0, *here, carried=within, copies=4) as at:
                for x, run, target in zip(self.scans, inner, self.results, strict=True):
                    source, index = self._tile(self.sources[x.step.inputs[0]], at, segments)
                    element = self.load_lanes(source, index, segments)
                    updated, found = self._next(x, run, element)
                    self.store(found, *self._tile(target, at, segments))
                    for each, value in zip(run, updated, strict=True):
                        each.update = value
            for each, final in zip(every, within, strict=True):
                each.update = final
            if segments > 1:
                for buffer in self.results:
                    self._transpose(self.transposed[buffer], buffer, here, back=True)
            self._map_after(start, segments, tile, bounds)
        return outer

    def _tile(self, buffer: Buffer, at: Index, segments: int) -> tuple[Buffer, Indices]:
        """Where the elements of all segments at a position are."""
        if segments == 1:
            return buffer, (affine(0), affine(at))
        return self.transposed[buffer], (affine(at), affine(0))

    def _transpose(
        self, source: Buffer, target: Buffer, ends: Sequence[Affine | int], back: bool = False
    ) -> None:
        """Transposes a tile of segments, in square blocks, to one of positions, or back. The last
        block may have some elements more than the tile.
        """
        side, zero = SCANNED_TOGETHER, affine(0)
        with self.loop(0, *ends, step=side, copies=1) as at:
            to, of = ((zero, affine(at)), (affine(at), zero))[:: 1 if back else -1]
            self.body.append(CopyBlock(target, to, source, of, (1, 0), side))

    def _map_before(
        self, start: Start, segments: int, tile: Index, bounds: Sequence[Affine | int]
    ) -> None:
        """Leaves what is scanned in buffers, and stores outputs that depend on no scan."""
        with self.loop(0, segments) as s:
            row, begin = start(affine(s))
            with self.loop(affine(tile), *bounds, kind="vector", lanes=self.lanes_along) as at:
                point, known = self._point(row, begin + at), dict[Step, Value]()
                self.compute(self.before, known, point)
                self.store_outputs(self.early, known, point)
                index = (affine(s), affine(at) - tile)
                for source, buffer in self.sources.items():
                    element = self.words.cast(self.value(source, known, point), buffer.dtype)
                    self.store(element, buffer, index)

    def _map_after(
        self, start: Start, segments: int, tile: Index, bounds: Sequence[Affine | int]
    ) -> None:
        """Computes and stores what depends on scans."""
        with self.loop(0, segments) as s:
            row, begin = start(affine(s))
            with self.loop(affine(tile), *bounds, kind="vector", lanes=self.lanes_along) as at:
                point = self._point(row, begin + at)
                index = (affine(s), affine(at) - tile)
                known: Known = {}
                for x, buffer in zip(self.scans, self.results, strict=True):
                    known[x.step] = self._result(x, self.load(buffer, index))
                    known[x.step].origin = x.step
                used = {source for step in self.after for source in step.inputs}
                for source, buffer in self.sources.items():
                    if source in used and source in self.members:
                        value = self.words.cast(self.load(buffer, index), source.dtype)
                        known[source] = self.rounded(value)
                self.compute(self.after, known, point)
                self.store_outputs(self.late, known, point)

    # Columns

    def by_columns(self) -> Kernel:
        """One kernel, which scans adjacent columns side by side, without buffers for elements."""
        *outer, last = self.around
        width = self.domain.lengths[last]
        tiles = -(-width // COLUMNS)
        shape = (min(width, COLUMNS),)
        is_long = self.length > SCAN_CHUNK
        self.nest.strategy = f"scans columns of {self.length:,} elements with the maps around them"
        # the results so far, in long columns also of the chunk and of those before it
        names = ("result", "chunk", "carry") if is_long else ("result",)
        memory = [
            [self.stack(f"{name}{number}", x.dtype, shape) for name in names]
            for number, x in enumerate(self.scans)
        ]
        lengths = [self.domain.lengths[axis] for axis in outer]
        work = self.length * min(width, COLUMNS)
        with self.parallel((*lengths, tiles), work) as (*indices, tile):
            row = [affine(0)] * len(self.domain.lengths)
            for axis, index in zip(outer, indices, strict=True):
                row[axis] = affine(index)
            first = affine(tile) * COLUMNS
            ends = (COLUMNS, affine(width) - first)
            with self.loop(0, *ends, kind="vector") as column:
                for x, buffers in zip(self.scans, memory, strict=True):
                    for buffer in buffers:
                        self.store(x.start, buffer, (affine(column),))

            def scan(begin: Affine, *limits: Affine | int) -> None:
                with self.loop(begin, *limits) as at, self.loop(0, *ends, kind="vector") as column:
                    row[last] = first + column
                    self._column(self._point(tuple(row), affine(at)), affine(column), memory)

            if not is_long:
                scan(affine(0), self.length)
            else:
                with self.loop(0, self.chunks) as chunk:
                    begin = affine(chunk) * SCAN_CHUNK
                    scan(begin, begin + SCAN_CHUNK, self.length)
                    with self.loop(0, *ends, kind="vector") as column:
                        self._end_chunk((affine(column),), memory)
        return self.finish()

    def _column(self, point: Point, column: Affine, memory: Sequence[Sequence[Buffer]]) -> None:
        """Everything at one element of a column."""
        known: Known = {}
        self.compute(self.before, known, point)
        self.store_outputs(self.early, known, point)
        for x, buffers in zip(self.scans, memory, strict=True):
            element = self.words.cast(self.value(x.step.inputs[0], known, point), x.element)
            run = [self.load(each, (column,)) for each in buffers[:2]]
            updated, found = self._next(x, run, element)
            for value, buffer in zip(updated, buffers, strict=False):
                self.store(value, buffer, (column,))
            known[x.step] = self._result(x, found)
            known[x.step].origin = x.step
        self.compute(self.after, known, point)
        self.store_outputs(self.late, known, point)

    def _end_chunk(self, index: tuple[Affine], memory: Sequence[Sequence[Buffer]]) -> None:
        """Combines the result of a chunk with that of the chunks before it."""
        for x, (result, own, carry) in zip(self.scans, memory, strict=True):
            total = x.op.emit_step(self.words, self.load(carry, index), self.load(own, index))
            for buffer, value in ((carry, total), (result, total), (own, x.start)):
                self.store(value, buffer, index)
