"""The nests of attention's gradients, which recompute the scores block by block.

One kernel transposes queries and cotangents, so that queries are in vector lanes as in the forward
nest. The next one has a task for each head of keys (or a range of its keys, where heads are few):
for each block of keys it loops over the queries that attend to them, recomputes their softmax
weights from the statistics that the forward nest saved, computes the cotangents of the scores, and
accumulates the cotangents of keys and values, which stay on the stack, and those of queries,
transposed. The last kernels combine these. So each score is recomputed once, no two tasks
accumulate into the same sums, and the order of every sum depends on lengths alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, outputs_of
from ingot.compiler.lower.products.attention.masking import Masking
from ingot.compiler.lower.products.attention.operands import (
    Blocks,
    KernelBuilder,
    Lengths,
    Memory,
    Scratch,
    Strides,
    blocks_for,
    lowest,
)
from ingot.compiler.lower.products.attention.power import power
from ingot.compiler.lower.products.attention.wide import in_sums_dtype
from ingot.compiler.lower.products.register_tile import TileShape, accumulate
from ingot.graph.roles import AttendBackward
from ingot.tuning import ATTENTION_QUERY_BLOCK, MIN_ATTENTION_TASKS

__all__ = ["lower_attention_backward"]


class _Operands(NamedTuple):
    """The operands: rows of features, and statistics of queries."""

    cotangent: Memory
    out: Memory
    top: Memory
    total: Memory
    q: Memory
    k: Memory
    v: Memory


class _Between(NamedTuple):
    """The scratch memory between the kernels. Queries are in groups of as many as a tile has
    columns.
    """

    queries: Memory  # (B, heads, groups, D, columns), scaled
    cotangents: Memory  # (B, heads, groups, E, columns)
    of_queries: Memory  # (ranges of keys, B, heads, groups, D, columns)
    top: Memory  # (B, heads, groups, columns)
    inverse: Memory  # 1 / total
    average: Memory  # the mean cotangent of a query's scores


def lower_attention_backward(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of the cotangents of queries, keys, values and sinks; None if lengths are unknown
    or there is nothing to compute.
    """
    op = step.op
    assert isinstance(op, AttendBackward)
    named = zip(_Operands._fields, step.inputs, strict=False)
    given = _Operands(*(Memory.of(name, each, strides_of[each]) for name, each in named))
    lengths = Lengths.of(*step.inputs[4:7])
    if lengths is None:
        return None
    blocks = blocks_for(lengths, given.q.dtype)
    blocks = blocks._replace(keys=_key_block(lengths, blocks))
    scratch = Scratch()
    rows = ("cotangent", "out", "q", "k", "v")
    operands = given._replace(
        **{name: in_sums_dtype(scratch, getattr(given, name), blocks) for name in rows}
    )
    masking = Masking(op, step.inputs[7:], strides_of, lengths)
    results = [Memory.of("of", each, strides_of[each]) for each in outputs_of(step, strides_of)]
    between = _between(lengths, blocks, scratch)
    scratch.kernels += [
        _Transposing(lengths, blocks, masking, op.scale).build(operands, between),
        _Main(lengths, blocks, masking, op.scale).build(operands, between, *results[1:3]),
        _OfQueries(lengths, blocks, masking, op.scale).build(between, results[0]),
    ]
    if masking.sinks is not None:
        builder = _OfSinks(lengths, blocks, masking, op.scale)
        scratch.kernels.append(builder.build(between, results[3]))
    return scratch.lowered()


def _key_block(lengths: Lengths, blocks: Blocks) -> int:
    """Keys per block: the more features, the fewer, because their cotangents are on the stack."""
    longest = max(lengths.depth, lengths.width)
    fitting = (1 << 14) // longest // blocks.rows * blocks.rows
    return min(blocks.keys, max(blocks.rows, fitting))


def _between(lengths: Lengths, blocks: Blocks, scratch: Scratch) -> _Between:
    dtype, side = blocks.dtype, blocks.queries
    groups = (lengths.batch, lengths.heads, -(-lengths.queries // side))
    wanted = -(-MIN_ATTENTION_TASKS // (lengths.batch * lengths.shared))
    ranges = min(wanted, -(-lengths.keys // blocks.keys))
    return _Between(
        scratch.allocate("queries", dtype, (*groups, lengths.depth, side)),
        scratch.allocate("cotangents", dtype, (*groups, lengths.width, side)),
        scratch.allocate("of_queries", dtype, (ranges, *groups, lengths.depth, side)),
        scratch.allocate("top", dtype, (*groups, side)),
        scratch.allocate("inverse", dtype, (*groups, side)),
        scratch.allocate("average", dtype, (*groups, side)),
    )


class _Builder(KernelBuilder):
    def __init__(self, lengths: Lengths, blocks: Blocks, masking: Masking, scale: float) -> None:
        super().__init__(blocks)
        self.lengths = lengths
        self.masking = masking
        self.scale = scale

    def across(self, value: Value) -> Value:
        """The sum of the lanes of a bundle."""
        return self.fold_lanes(value, self.words.add)


class _Transposing(_Builder):
    """Transposes queries and cotangents, and completes the statistics of queries."""

    def build(self, operands: _Operands, between: _Between) -> Kernel:
        lengths, side = self.lengths, self.blocks.queries
        q, cotangent, out = map(self.view, (operands.q, operands.cotangent, operands.out))
        top, total = self.view(operands.top), self.view(operands.total)
        queries, cotangents, of_queries, *statistics = map(self.view, between)
        groups = between.top.shape[:3]
        work = side * (lengths.depth + 2 * lengths.width)
        with self.parallel((*groups,), work) as (example, head, group):
            place = (affine(example), affine(head))
            at = (*place, affine(group))
            with self.loop(0, side) as lane:
                row = self.least(0, affine(group) * side + lane, lengths.queries - 1)
                here = (*place, row)
                factor = self.number(self.scale)
                with self.loop(0, lengths.depth, kind="vector") as feature:
                    element = self.words.multiply(self.at(q, *here, feature), factor)
                    self.put(element, queries, *at, feature, lane)
                found = (self.at(top, *here), self.at(total, *here))
                seen = self._seen(found[0])
                with self.loop(0, lengths.width, kind="vector") as feature:
                    element = self.at(cotangent, *here, feature)
                    self.put(self._where(seen, element), cotangents, *at, feature, lane)
                inverse = self.words.divide(self.number(1.0), found[1])
                average = self._where(seen, self._average(cotangent, out, here))
                for value, buffer in zip((found[0], inverse, average), statistics, strict=True):
                    self.put(value, buffer, *at, lane)
            with (
                self.loop(0, between.of_queries.shape[0]) as part,
                self.loop(0, lengths.depth) as feature,
            ):
                for column in self.columns():
                    self.put(self.numbers(0.0), of_queries, part, *at, feature, column)
        return self.kernel()

    def _seen(self, top: Value) -> Value | None:
        """Whether a query attends to a key: if not, its score is constant."""
        if not self.masking.hides:
            return None
        return self.words.not_equal(top, self.number(lowest(self.blocks.dtype)))

    def _where(self, seen: Value | None, value: Value) -> Value:
        return value if seen is None else self.words.select(seen, value, self.number(0.0))

    def _average(self, cotangent: Buffer, out: Buffer, here: Sequence[Affine]) -> Value:
        """The sum of a row of cotangents times results."""
        lanes, width = self.blocks.lanes, self.lengths.width
        total = Carried(self.blocks.dtype, self.numbers(0.0))
        with self.loop(0, width, step=lanes, carried=[total]) as feature:
            index = (*here, affine(feature))
            limit = None if width % lanes == 0 else width
            a, b = (self.load_lanes(each, index, lanes, limit) for each in (cotangent, out))
            total.update = self.words.fused_multiply_add(a, b, total)
        return self.across(total)


class _Main(_Builder):
    """The cotangents of keys and values, and those of queries, transposed."""

    def build(self, operands: _Operands, between: _Between, of_k: Memory, of_v: Memory) -> Kernel:
        lengths, blocks = self.lengths, self.blocks
        self.q, self.cotangent = self.view(operands.q), self.view(operands.cotangent)
        self.k, self.v = self.view(operands.k), self.view(operands.v)
        self.queries, self.cotangents, self.of_queries, *statistics = map(self.view, between)
        self.top, self.inverse, self.average = statistics
        results = self.view(of_k), self.view(of_v)
        self.masking.open(self)
        self.side = min(
            max(1, ATTENTION_QUERY_BLOCK // blocks.queries) * blocks.queries,
            between.top.shape[2] * blocks.queries,
        )
        self.shares = self.local("shares", blocks.keys, self.side)
        self.of_scores = self.local("of_scores", blocks.keys, self.side)
        self.of_k = self._sums_of("of_k", lengths.depth)
        self.of_v = self._sums_of("of_v", lengths.width)
        parts = between.of_queries.shape[0]
        count = -(-lengths.keys // (parts * blocks.keys)) * blocks.keys  # keys of a range
        tasks = (lengths.batch, lengths.shared, parts)
        work = lengths.queries * count * (lengths.depth + lengths.width)
        with self.parallel(tasks, work) as (example, shared, part):
            self.place = (affine(example), affine(shared))
            self.part = affine(part)
            begin = self.part * count
            with self.loop(begin, begin + count, lengths.keys, step=blocks.keys) as start:
                stop = self.least(affine(start) + 1, affine(start) + blocks.keys, lengths.keys)
                self._key_block(affine(start), stop, results)
        return self.kernel()

    def _sums_of(self, name: str, width: int) -> Buffer:
        """Sums for the keys of a block, in whole panels of columns."""
        panel = self._panel(width) * self.blocks.lanes
        return self.local(name, self.blocks.keys, -(-width // panel) * panel)

    def _key_block(self, start: Affine, stop: Affine, results: Sequence[Buffer]) -> None:
        lengths, side = self.lengths, self.side
        for buffer in (self.of_k, self.of_v):
            with self.loop(0, stop - start) as key:
                for column in range(0, self._columns_of(buffer), self.blocks.lanes):
                    self.put(self.numbers(0.0), buffer, key, column)
        padded = -(-lengths.queries // side) * side
        ends = [affine(padded)]
        if self.masking.causal and lengths.ahead >= 0:
            ends.append(affine(padded + lengths.ahead) - start)
        with (
            self.loop(0, lengths.sharing) as number,
            self.loop(
                0, *ends, step=side
            ) as behind,  # from the last queries on, which attend to most keys
        ):
            self.head = (self.place[0], self.place[1] * lengths.sharing + number)
            first = affine(padded - side) - behind
            last = self.least(first, first + side, lengths.queries)
            self._query_block(first, last, start, stop)
        for buffer, result, factor in zip(
            (self.of_k, self.of_v), results, (self.scale, 1.0), strict=True
        ):
            self._store(buffer, result, factor, start, stop)

    def _columns_of(self, buffer: Buffer) -> int:
        columns = buffer.shape[1]
        assert isinstance(columns, int)
        return columns

    def _store(
        self, buffer: Buffer, result: Buffer, factor: float, start: Affine, stop: Affine
    ) -> None:
        width = result.shape[3]
        with self.loop(0, stop - start) as key, self.loop(0, width, kind="vector") as feature:
            element = self.words.multiply(self.at(buffer, key, feature), self.number(factor))
            found = self.words.cast(element, result.dtype)
            self.put(found, result, *self.place, start + key, feature)

    def _query_block(self, first: Affine, last: Affine, start: Affine, stop: Affine) -> None:
        side = self.blocks.queries
        with self.loop(0, last - first, self.side, step=side) as column:
            group = self.split_off(first + column, side)
            self._scores(first, affine(column), group, start, stop)
        keys, count = stop - start, last - first
        self._add(self.of_v, self.shares, self.cotangent, first, count, keys)
        self._add(self.of_k, self.of_scores, self.q, first, count, keys)

    def split_off(self, position: Affine, side: int) -> Affine:
        """The group that starts at a query."""
        groups = self.queries.shape[2]
        assert isinstance(groups, int)
        group, _ = self.split(position, (groups, side))
        return affine(group)

    def _tile(
        self, buffer: Buffer, of: Buffer, group: Affine, keys: Sequence[Affine], depth: int
    ) -> list[list[Carried]]:
        """Products of keys (or values) and queries (or cotangents) of a group."""
        lanes = self.blocks.lanes
        return accumulate(
            self,
            self.blocks.dtype,
            TileShape(len(keys), self.blocks.vectors, lanes),
            [(0, depth)],
            lambda row, at: self.everywhere(self.at(buffer, *self.place, keys[row], at[0])),
            lambda vector, at: self.lanes_at(of, *self.head, group, at[0], vector * lanes),
        ).sums

    def _scores(
        self, first: Affine, column: Affine, group: Affine, start: Affine, stop: Affine
    ) -> None:
        """Softmax weights and cotangents of scores of a block of keys and a group of queries."""
        lengths, rows = self.lengths, self.blocks.rows
        self.masking.start(self, first + column)
        self.masking.load(self, self.head, first + column, start, stop)
        with self.loop(start, stop, step=rows) as at:
            keys = [self.least(start, affine(at) + row, stop - 1) for row in range(rows)]
            sums = self._tile(self.k, self.queries, group, keys, lengths.depth)
            for vector, inside in enumerate(self.columns()):
                for row, key in enumerate(keys):
                    score = self.masking.masked(
                        self, self.head, sums[row][vector], key, key - start, inside
                    )
                    self.put(score, self.shares, key - start, column + inside)
        self._shares(column, group, stop - start)
        with self.loop(start, stop, step=rows) as at:
            keys = [self.least(start, affine(at) + row, stop - 1) for row in range(rows)]
            sums = self._tile(self.v, self.cotangents, group, keys, lengths.width)
            for vector, inside in enumerate(self.columns()):
                average = self.lanes_at(self.average, *self.head, group, inside)
                for row, key in enumerate(keys):
                    share = self.lanes_at(self.shares, key - start, column + inside)
                    difference = self.words.subtract(sums[row][vector], average)
                    found = self.words.multiply(share, difference)
                    self.put(found, self.of_scores, key - start, column + inside)
        self._of_queries(column, group, start, stop - start)

    def _shares(self, column: Affine, group: Affine, count: Affine) -> None:
        """Turns scores into softmax weights."""
        words = self.words
        at = (*self.head, group)
        tops = [self.lanes_at(self.top, *at, inside) for inside in self.columns()]
        inverses = [self.lanes_at(self.inverse, *at, inside) for inside in self.columns()]
        with self.loop(0, count, copies=1) as key:
            for inside, top, inverse in zip(self.columns(), tops, inverses, strict=True):
                score = self.lanes_at(self.shares, key, column + inside)
                share = words.multiply(power(self, words.subtract(score, top)), inverse)
                self.put(share, self.shares, key, column + inside)

    def _of_queries(self, column: Affine, group: Affine, start: Affine, count: Affine) -> None:
        """Adds a block of keys to the cotangents of a group of queries."""
        depth, lanes = self.lengths.depth, self.blocks.lanes
        rows = min(self.blocks.rows, depth)
        at = (self.part, *self.head, group)
        with self.loop(0, depth, step=rows) as first:
            features = [self.least(0, affine(first) + row, depth - 1) for row in range(rows)]
            sums = accumulate(
                self,
                self.blocks.dtype,
                TileShape(rows, self.blocks.vectors, lanes),
                [(affine(0), count)],
                lambda row, key: self.everywhere(
                    self.at(self.k, *self.place, start + key[0], features[row])
                ),
                lambda vector, key: self.lanes_at(self.of_scores, key[0], column + vector * lanes),
                start=[
                    [self.lanes_at(self.of_queries, *at, f, inside) for inside in self.columns()]
                    for f in features
                ],
            ).sums
            for row, feature in enumerate(features):
                for vector, inside in enumerate(self.columns()):
                    self.put(sums[row][vector], self.of_queries, *at, feature, inside)

    def _add(
        self,
        target: Buffer,
        factors: Buffer,
        rows_of: Buffer,
        first: Affine,
        count: Affine,
        keys: Affine,
    ) -> None:
        """Adds rows of queries (or cotangents) times factors to the sums for the keys of a
        block.
        """
        vectors = self._panel(rows_of.shape[3])
        step = vectors * self.blocks.lanes
        with (
            self.loop(0, self._columns_of(target), step=step) as panel,
            self.loop(0, keys, step=self.blocks.rows) as at,
        ):
            rows = range(self.blocks.rows)
            places = [self.least(0, affine(at) + row, keys - 1) for row in rows]
            columns = [affine(panel) + vector * self.blocks.lanes for vector in range(vectors)]
            self._add_tile(target, factors, rows_of, (first, count), places, columns)

    def _panel(self, width: Extent) -> int:
        """The bundles of a tile whose columns are features."""
        assert isinstance(width, int)
        needed = -(-width // self.blocks.lanes)
        return 3 if -needed % 3 < -needed % 2 and self.blocks.rows == 8 else min(2, needed)

    def _add_tile(
        self,
        target: Buffer,
        factors: Buffer,
        rows_of: Buffer,
        queries: tuple[Affine, Affine],
        places: Sequence[Affine],
        columns: Sequence[Affine],
    ) -> None:
        """Accumulates some keys and columns of a block; `queries` are the first one and their
        number.
        """
        lanes, width = self.blocks.lanes, rows_of.shape[3]
        first, count = queries
        assert isinstance(width, int)

        def row_of(vector: int, at: tuple[Index, ...]) -> Value:
            limit = None if width % (len(columns) * lanes) == 0 else width
            index = (*self.head, first + at[0], columns[vector])
            return self.load_lanes(rows_of, index, lanes, limit)

        sums = accumulate(
            self,
            self.blocks.dtype,
            TileShape(len(places), len(columns), lanes),
            [(affine(0), count)],
            lambda row, query: self.everywhere(self.at(factors, places[row], query[0])),
            row_of,
            start=[[self.lanes_at(target, place, each) for each in columns] for place in places],
        ).sums
        for row, place in enumerate(places):
            for vector, column in enumerate(columns):
                self.put(sums[row][vector], target, place, column)


class _OfQueries(_Builder):
    """Cotangents of queries by rows, from those of all ranges of keys."""

    def build(self, between: _Between, result: Memory) -> Kernel:
        lengths, side = self.lengths, self.blocks.queries
        source, target = self.view(between.of_queries), self.view(result)
        parts, *groups = between.of_queries.shape[:4]
        with self.parallel(groups, side * lengths.depth) as (example, head, group):
            at = (affine(example), affine(head), affine(group))
            first = at[2] * side
            stop = self.least(first, first + side, lengths.queries)
            with (
                self.loop(0, stop - first) as lane,
                self.loop(0, lengths.depth, kind="vector") as feature,
            ):
                total = self.at(source, 0, *at, feature, lane)
                for part in range(1, parts):
                    other = self.at(source, part, *at, feature, lane)
                    total = self.words.add(total, other)
                found = self.words.multiply(total, self.number(self.scale))
                element = self.words.cast(found, result.dtype)
                self.put(element, target, *at[:2], first + lane, feature)
        return self.kernel()


class _OfSinks(_Builder):
    """Cotangents of sinks."""

    def build(self, between: _Between, result: Memory) -> Kernel:
        lengths, side, words = self.lengths, self.blocks.queries, self.words
        top, inverse, average = map(self.view, between[3:])
        target = self.view(result)
        self.masking.open(self)
        examples = 1 if result.shape[0] != 1 else lengths.batch
        dtype = self.blocks.dtype
        with self.parallel(result.shape, lengths.queries * examples) as (example, head):
            sink = self.masking.sink_at(self, (affine(example), affine(head)))
            outer = Carried(dtype, self.number(0.0))
            with self.loop(0, examples, carried=[outer]) as number:
                inner = Carried(dtype, outer)
                with self.loop(0, lengths.queries, carried=[inner]) as query:
                    group, lane = self.split(affine(query), (top.shape[2], side))
                    at = (affine(example) + number, affine(head), affine(group), affine(lane))
                    of_sink = words.exp(words.subtract(sink, self.at(top, *at)))
                    share = words.multiply(of_sink, self.at(inverse, *at))
                    part = words.multiply(share, self.at(average, *at))
                    inner.update = words.subtract(inner, part)
                outer.update = inner
            self.put(words.cast(outer, result.dtype), target, example, head)
        return self.kernel()
