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

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Kernel, Lowered, outputs_of
from ingot.compiler.lower.products.attention.masking import Masking
from ingot.compiler.lower.products.attention.operands import (
    Blocks,
    Lengths,
    Memory,
    Scratch,
    Strides,
    blocks_for,
)
from ingot.compiler.lower.products.attention.power import power
from ingot.compiler.lower.products.attention.query_groups import (
    Between,
    GradientBuilder,
    OfQueries,
    OfSinks,
    Operands,
    Transposing,
)
from ingot.compiler.lower.products.attention.wide import in_sums_dtype
from ingot.compiler.lower.products.register_tile import TileShape, accumulate
from ingot.graph.roles import AttendBackward
from ingot.tuning import ATTENTION_QUERY_BLOCK

__all__ = ["lower_attention_backward"]


def lower_attention_backward(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of the cotangents of queries, keys, values and sinks; None if lengths are unknown
    or there is nothing to compute.
    """
    op = step.op
    assert isinstance(op, AttendBackward)
    named = zip(Operands._fields, step.inputs, strict=False)
    given = Operands(*(Memory.of(name, each, strides_of[each]) for name, each in named))
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
    between = Between.allocated(lengths, blocks, scratch)
    scratch.kernels += [
        Transposing(lengths, blocks, masking, op.scale).build(operands, between),
        _Main(lengths, blocks, masking, op.scale).build(operands, between, *results[1:3]),
        OfQueries(lengths, blocks, masking, op.scale).build(between, results[0]),
    ]
    if masking.sinks is not None:
        builder = OfSinks(lengths, blocks, masking, op.scale)
        scratch.kernels.append(builder.build(between, results[3]))
    return scratch.lowered()


def _key_block(lengths: Lengths, blocks: Blocks) -> int:
    """Keys per block: the more features, the fewer, because their cotangents are on the stack."""
    longest = max(lengths.depth, lengths.width)
    fitting = (1 << 14) // longest // blocks.rows * blocks.rows
    return min(blocks.keys, max(blocks.rows, fitting))


class _Main(GradientBuilder):
    """The cotangents of keys and values, and those of queries, transposed."""

    def build(self, operands: Operands, between: Between, of_k: Memory, of_v: Memory) -> Kernel:
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
            self.shared_head = (affine(example), affine(shared))
            self.part = affine(part)
            begin = self.part * count
            with self.loop(begin, begin + count, lengths.keys, step=blocks.keys) as start:
                stop = self.least(affine(start) + 1, affine(start) + blocks.keys, lengths.keys)
                self._key_block(affine(start), stop, results)
        return self.kernel()

    def _sums_of(self, name: str, width: int) -> Buffer:
        """Sums for the keys of a block, in whole bundles."""
        return self.local(name, self.blocks.keys, self.blocks.padded(width))

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
            self.head = (self.shared_head[0], self.shared_head[1] * lengths.sharing + number)
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
            self.put(found, result, *self.shared_head, start + key, feature)

    def _query_block(self, first: Affine, last: Affine, start: Affine, stop: Affine) -> None:
        side = self.blocks.queries
        with self.loop(0, last - first, self.side, step=side) as column:
            group = self.split_off(first + column, side)
            self._scores(first, affine(column), group, start, stop)
        keys, queries = stop - start, (first, last - first)
        self._add(self.of_v, self.shares, self.cotangent, queries, keys)
        self._add(self.of_k, self.of_scores, self.q, queries, keys)

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
            lambda row, at: self.everywhere(self.at(buffer, *self.shared_head, keys[row], at[0])),
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
                    self.at(self.k, *self.shared_head, start + key[0], features[row])
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
        queries: tuple[Affine, Affine],
        keys: Affine,
    ) -> None:
        """Adds rows of queries (or cotangents) times factors to the sums for the keys of a block;
        `queries` are the first one and their number.
        """
        begin, lanes, rows = 0, self.blocks.lanes, range(self.blocks.rows)
        for vectors, count in self._panels(self._columns_of(target) // lanes):
            end = begin + vectors * lanes * count
            with (
                self.loop(begin, end, step=vectors * lanes) as panel,
                self.loop(0, keys, step=self.blocks.rows) as at,
            ):
                key_rows = [self.least(0, affine(at) + row, keys - 1) for row in rows]
                columns = [affine(panel) + vector * lanes for vector in range(vectors)]
                self._add_tile(target, factors, rows_of, queries, key_rows, columns)
            begin = end

    def _panels(self, needed: int) -> list[tuple[int, int]]:
        """The tiles whose columns are `needed` bundles of features: their widths in bundles, and
        how many of each.
        """
        widest = 3 if self.blocks.rows == 8 else 2
        whole, rest = divmod(needed, widest)
        if widest == 3 and rest == 1 and whole:  # rather two of two than a narrow one
            whole, rest = whole - 1, 4
        found = [(widest, whole), (2, 2) if rest == 4 else (rest, 1)]
        return [(vectors, count) for vectors, count in found if vectors * count]

    def _add_tile(
        self,
        target: Buffer,
        factors: Buffer,
        rows_of: Buffer,
        queries: tuple[Affine, Affine],
        key_rows: Sequence[Affine],
        columns: Sequence[Affine],
    ) -> None:
        """Accumulates some keys and columns of a block."""
        lanes, width = self.blocks.lanes, rows_of.shape[3]
        first, count = queries
        assert isinstance(width, int)

        def row_of(vector: int, at: tuple[Index, ...]) -> Value:
            limit = None if width % lanes == 0 else width
            index = (*self.head, first + at[0], columns[vector])
            return self.load_lanes(rows_of, index, lanes, limit)

        sums = accumulate(
            self,
            self.blocks.dtype,
            TileShape(len(key_rows), len(columns), lanes),
            [(affine(0), count)],
            lambda row, query: self.everywhere(self.at(factors, key_rows[row], query[0])),
            row_of,
            start=[
                [self.lanes_at(target, key_row, each) for each in columns] for key_row in key_rows
            ],
        ).sums
        for row, key_row in enumerate(key_rows):
            for vector, column in enumerate(columns):
                self.put(sums[row][vector], target, key_row, column)
