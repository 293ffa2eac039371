"""The nest of attention: for each block of queries, one loop over blocks of keys.

Queries are in vector lanes. Scores are a register tile of keys times queries: keys and values are
read in place, one element broadcast to all lanes, and the queries of a block are transposed once.
The maximum score and the sum of each query are in a lane each, so the softmax needs no reductions
across lanes. Sums of values, with features as rows and queries as columns, are rescaled when a
larger score comes up (online softmax), and divided at the end.

Keys are added in order, block by block: results depend neither on the number of threads nor on a
query's position in its block.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Carried, Value
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, outputs_of
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
from ingot.graph.roles import Attend

__all__ = ["lower_attention"]


def lower_attention(step: Step, strides_of: Strides) -> Lowered | None:
    """The kernels of attention; None if lengths are unknown or there is nothing to compute."""
    q, k, v, *extras = step.inputs
    lengths = Lengths.of(q, k, v)
    if lengths is None:
        return None
    op = step.op
    assert isinstance(op, Attend)
    blocks = blocks_for(lengths, q.dtype)
    scratch = Scratch()
    names = ("out", "tops", "totals")
    results = [
        Memory.of(name, each, strides_of[each])
        for name, each in zip(names, outputs_of(step, strides_of), strict=True)
    ]
    queries = Memory.of("q", q, strides_of[q])
    if queries.strides[-1] != queries.dtype.size:
        queries = in_sums_dtype(scratch, queries, blocks)
    keys, values = (
        in_sums_dtype(scratch, Memory.of(name, each, strides_of[each]), blocks)
        for name, each in (("k", k), ("v", v))
    )
    masking = Masking(op, extras, strides_of, lengths)
    builder = _Forward(lengths, blocks, masking, op.scale)
    builder.build(queries, keys, values, results)
    scratch.kernels.append(builder.kernel())
    return scratch.lowered()


class _Forward(KernelBuilder):
    def __init__(self, lengths: Lengths, blocks: Blocks, masking: Masking, scale: float) -> None:
        super().__init__(blocks)
        self.lengths = lengths
        self.masking = masking
        self.scale = scale

    def build(
        self, queries: Memory, keys: Memory, values: Memory, results: Sequence[Memory]
    ) -> None:
        """The nest of one kernel, for blocks of queries of all heads."""
        lengths, blocks = self.lengths, self.blocks
        self.q, self.k, self.v = map(self.view, (queries, keys, values))
        self.out, self.tops, self.totals = map(self.view, results)
        self.masking.open(self)
        side = blocks.queries
        self.transposed = self.local("queries", blocks.padded(lengths.depth), side)
        self.sums = self.local("sums", blocks.padded(lengths.width), side)
        self.scores = self.local("scores", blocks.keys, side)
        self.top = self.local("top", side)  # the maximum score
        self.before = self.local("before", side)  # the maximum score of the previous blocks
        self.total = self.local("total", side)  # the sum of exponentials
        self.fading = self.local("fading", side)
        count = -(-lengths.queries // side)
        heads = (lengths.batch, lengths.shared, lengths.sharing, count)
        work = side * lengths.keys * (lengths.depth + lengths.width)
        with self.parallel(heads, work) as (example, shared, number, block):
            self.shared_head = (affine(example), affine(shared))
            head = affine(shared) * lengths.sharing + number
            self.row = (affine(example), head)
            self.first = affine(block) * side
            self._start()
            ends = self.masking.key_ends(self.first, side)
            with self.loop(0, *ends, step=blocks.keys) as start:
                self._key_block(affine(start), ends)
            self._finish()

    def _start(self) -> None:
        """Transposes the queries of a block, and initialises their statistics."""
        lengths, blocks = self.lengths, self.blocks
        self.transpose_rows(lengths.depth, self._query, self.transposed)
        sink = self.masking.sink(self, self.row)
        for column in self.columns():
            top, total = self.numbers(lowest(blocks.dtype)), self.numbers(0.0)
            if sink is None:
                self.put(top, self.top, column)
                self.put(total, self.total, column)
                continue
            largest = self.words.select(self.words.greater(sink, top), sink, top)
            self.put(largest, self.top, column)
            self.put(power(self, self.words.subtract(sink, largest)), self.total, column)
        self.masking.start(self, self.first)
        with self.loop(0, lengths.width) as feature:
            for column in self.columns():
                self.put(self.numbers(0.0), self.sums, feature, column)

    def _query(self, lane: Index, first: Affine, limit: int | None) -> Value:
        """Features of a query, scaled; lanes past the last query repeat it."""
        row = self.least(0, self.first + lane, self.lengths.queries - 1)
        found = self.load_lanes(self.q, (*self.row, row, first), self.blocks.lanes, limit)
        return self.words.multiply(self.wide(found), self.numbers(self.scale))

    def _key_block(self, start: Affine, ends: Sequence[Affine]) -> None:
        """Adds the keys of a block."""
        stop = self.least(start + 1, start + self.blocks.keys, *ends)
        self.masking.load(self, self.row, self.first, start, stop)
        for column in self.columns():
            self.put(self.lanes_at(self.top, column), self.before, column)
        self._scores(start, stop)
        self._powers(stop - start)
        self._sums(start, stop - start)

    def _scores(self, start: Affine, stop: Affine) -> None:
        """Computes the scores of a block, and updates the maximum of each query."""
        rows, words = self.blocks.rows, self.words
        shape = TileShape(rows, self.blocks.vectors, self.blocks.lanes)
        with self.loop(start, stop, step=rows) as first:
            keys = [self.least(start, affine(first) + row, stop - 1) for row in range(rows)]
            tile = accumulate(
                self,
                self.blocks.dtype,
                shape,
                [(0, self.lengths.depth)],
                lambda row, at: self.everywhere(
                    self.at(self.k, *self.shared_head, keys[row], at[0])
                ),
                lambda vector, at: self.lanes_at(
                    self.transposed, at[0], vector * self.blocks.lanes
                ),
            )
            for vector, column in enumerate(self.columns()):
                top = self.lanes_at(self.top, column)
                for row, key in enumerate(keys):
                    score = self.masking.masked(
                        self, self.row, tile.sums[row][vector], key, key - start, column
                    )
                    self.put(score, self.scores, key - start, column)
                    # a NaN score makes its exponential NaN, whatever the maximum is
                    top = words.select(words.greater(score, top), score, top)
                self.put(top, self.top, column)

    def _powers(self, count: Affine) -> None:
        """Replaces the scores of a block by their exponentials, and sums them."""
        words = self.words
        tops = [self.lanes_at(self.top, column) for column in self.columns()]
        totals = [Carried(self.blocks.dtype, self.numbers(0.0)) for _ in tops]
        with self.loop(0, count, carried=totals, copies=1) as key:
            for column, top, total in zip(self.columns(), tops, totals, strict=True):
                score = self.lanes_at(self.scores, key, column)
                score_power = power(self, words.subtract(score, top))
                self.put(score_power, self.scores, key, column)
                total.update = words.add(total, score_power)
        for column, top, total in zip(self.columns(), tops, totals, strict=True):
            fading = power(self, words.subtract(self.lanes_at(self.before, column), top))
            self.put(fading, self.fading, column)
            before = self.lanes_at(self.total, column)
            self.put(words.fused_multiply_add(before, fading, total), self.total, column)

    def _sums(self, start: Affine, count: Affine) -> None:
        """Adds values times exponentials."""
        width, words = self.lengths.width, self.words
        rows = min(self.blocks.rows, width)
        shape = TileShape(rows, self.blocks.vectors, self.blocks.lanes)
        with self.loop(0, width, step=rows) as first:
            features = [self.least(0, affine(first) + row, width - 1) for row in range(rows)]
            fading = [self.lanes_at(self.fading, column) for column in self.columns()]
            tile = accumulate(
                self,
                self.blocks.dtype,
                shape,
                [(affine(0), count)],
                lambda row, at: self._value(start + at[0], features[row]),
                lambda vector, at: self.lanes_at(self.scores, at[0], vector * self.blocks.lanes),
                start=[
                    [
                        words.multiply(self.lanes_at(self.sums, feature, column), fade)
                        for column, fade in zip(self.columns(), fading, strict=True)
                    ]
                    for feature in features
                ],
            )
            for row, feature in enumerate(features):
                for vector, column in enumerate(self.columns()):
                    self.put(tile.sums[row][vector], self.sums, feature, column)

    def _value(self, key: Affine, feature: Affine) -> Value:
        return self.everywhere(self.at(self.v, *self.shared_head, key, feature))

    def _finish(self) -> None:
        """Divides the sums, and stores them as rows."""
        lengths, side = self.lengths, self.blocks.queries
        with self.loop(0, lengths.width) as feature:
            for column in self.columns():
                total = self.lanes_at(self.total, column)
                mean = self.words.divide(self.lanes_at(self.sums, feature, column), total)
                self.put(mean, self.sums, feature, column)
        count = self.least(self.first, self.first + side, lengths.queries) - self.first
        with self.loop(0, count) as lane:
            row = (*self.row, self.first + lane)
            self.put(self.at(self.top, lane), self.tops, *row)
            self.put(self.at(self.total, lane), self.totals, *row)
        self.store_rows(lengths.width, count, self.sums, self._store)

    def _store(self, means: Value, lane: Index, first: Affine, limit: int | None) -> None:
        """Stores features of a query's result."""
        found = self.words.cast(means, self.out.dtype)
        self.store(found, self.out, (*self.row, self.first + lane, first), limit)
