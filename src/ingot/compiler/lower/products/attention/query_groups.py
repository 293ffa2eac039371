"""Groups of queries, as many as a register tile has columns, in vector lanes: the kernels of
attention's gradients before and after the main one.

Before it, queries and cotangents are transposed, and the statistics of queries completed; after it,
the transposed cotangents of queries are summed and become rows, and sinks get theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.data import Buffer, Carried, Value
from ingot.compiler.lower.kernel import Kernel
from ingot.compiler.lower.products.attention.masking import Masking
from ingot.compiler.lower.products.attention.operands import (
    Blocks,
    KernelBuilder,
    Lengths,
    Memory,
    Scratch,
    lowest,
)
from ingot.tuning import MIN_ATTENTION_TASKS

__all__ = ["Between", "GradientBuilder", "OfQueries", "OfSinks", "Operands", "Transposing"]


class Operands(NamedTuple):
    """The operands: rows of features, and statistics of queries."""

    cotangent: Memory
    out: Memory
    top: Memory
    total: Memory
    q: Memory
    k: Memory
    v: Memory


class Between(NamedTuple):
    """The scratch memory between the kernels. Queries are in groups of as many as a tile has
    columns.
    """

    queries: Memory  # (B, heads, groups, D, columns), scaled
    cotangents: Memory  # (B, heads, groups, E, columns)
    of_queries: Memory  # (ranges of keys, B, heads, groups, D, columns)
    top: Memory  # (B, heads, groups, columns)
    inverse: Memory  # 1 / total
    average: Memory  # the mean cotangent of a query's scores

    @staticmethod
    def allocated(lengths: Lengths, blocks: Blocks, scratch: Scratch) -> Between:
        """The memory for operands of these lengths."""
        dtype, side = blocks.dtype, blocks.queries
        groups = (lengths.batch, lengths.heads, -(-lengths.queries // side))
        wanted = -(-MIN_ATTENTION_TASKS // (lengths.batch * lengths.shared))
        ranges = min(wanted, -(-lengths.keys // blocks.keys))
        return Between(
            scratch.allocate("queries", dtype, (*groups, blocks.padded(lengths.depth), side)),
            scratch.allocate("cotangents", dtype, (*groups, blocks.padded(lengths.width), side)),
            scratch.allocate("of_queries", dtype, (ranges, *groups, lengths.depth, side)),
            scratch.allocate("top", dtype, (*groups, side)),
            scratch.allocate("inverse", dtype, (*groups, side)),
            scratch.allocate("average", dtype, (*groups, side)),
        )


class GradientBuilder(KernelBuilder):
    def __init__(self, lengths: Lengths, blocks: Blocks, masking: Masking, scale: float) -> None:
        super().__init__(blocks)
        self.lengths = lengths
        self.masking = masking
        self.scale = scale

    def across(self, value: Value) -> Value:
        """The sum of the lanes of a bundle."""
        return self.fold_lanes(value, self.words.add)


class Transposing(GradientBuilder):
    """Transposes queries and cotangents, and completes the statistics of queries."""

    def build(self, operands: Operands, between: Between) -> Kernel:
        lengths, side = self.lengths, self.blocks.queries
        q, cotangent, out = map(self.view, (operands.q, operands.cotangent, operands.out))
        top, total = self.view(operands.top), self.view(operands.total)
        queries, cotangents, of_queries, *statistics = map(self.view, between)
        groups = between.top.shape[:3]
        work = side * (lengths.depth + 2 * lengths.width)
        with self.parallel((*groups,), work) as (example, head, group):
            head_index = (affine(example), affine(head))
            at = (*head_index, affine(group))
            with self.loop(0, side) as lane:
                here = (*head_index, self._row(at, lane))
                found = (self.at(top, *here), self.at(total, *here))
                inverse = self.words.divide(self.number(1.0), found[1])
                average = self._if_seen(self._average(cotangent, out, here), top, here)
                for value, buffer in zip((found[0], inverse, average), statistics, strict=True):
                    self.put(value, buffer, *at, lane)
            scaled = partial(self._query, q, at)
            self.transpose_rows(lengths.depth, scaled, queries, *at)
            seen = partial(self._cotangent, cotangent, top, at)
            self.transpose_rows(lengths.width, seen, cotangents, *at)
            with (
                self.loop(0, between.of_queries.shape[0]) as part,
                self.loop(0, lengths.depth) as feature,
            ):
                for column in self.columns():
                    self.put(self.numbers(0.0), of_queries, part, *at, feature, column)
        return self.kernel()

    def _row(self, at: Sequence[Affine], lane: Index) -> Affine:
        """The query in a lane of a group; lanes past the last query repeat it."""
        return self.least(0, at[2] * self.blocks.queries + lane, self.lengths.queries - 1)

    def _query(
        self, q: Buffer, at: Sequence[Affine], lane: Index, first: Affine, limit: int | None
    ) -> Value:
        """Features of a query, scaled."""
        index = (*at[:2], self._row(at, lane), first)
        found = self.load_lanes(q, index, self.blocks.lanes, limit)
        return self.words.multiply(found, self.numbers(self.scale))

    def _cotangent(
        self,
        cotangent: Buffer,
        top: Buffer,
        at: Sequence[Affine],
        lane: Index,
        first: Affine,
        limit: int | None,
    ) -> Value:
        """Cotangents of a query's results, which count only if it attends to a key."""
        here = (*at[:2], self._row(at, lane))
        found = self.load_lanes(cotangent, (*here, first), self.blocks.lanes, limit)
        return self._if_seen(found, top, here)

    def _if_seen(self, value: Value, top: Buffer, here: Sequence[Affine]) -> Value:
        """A value of a query, or 0 if it attends to no key: its scores are constant then."""
        if not self.masking.hides:
            return value
        seen = self.words.not_equal(self.at(top, *here), self.number(lowest(self.blocks.dtype)))
        if value.lanes == 1:
            return self.words.select(seen, value, self.number(0.0))
        return self.words.select(self.everywhere(seen), value, self.numbers(0.0))

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


class OfQueries(GradientBuilder):
    """Cotangents of queries by rows, from those of all ranges of keys."""

    def build(self, between: Between, result: Memory) -> Kernel:
        lengths, side = self.lengths, self.blocks.queries
        source, target = self.view(between.of_queries), self.view(result)
        parts, *groups = between.of_queries.shape[:4]
        sums = self.local("sums", self.blocks.padded(lengths.depth), side)
        factor = self.numbers(self.scale)
        with self.parallel(groups, side * lengths.depth) as (example, head, group):
            at = (affine(example), affine(head), affine(group))
            with self.loop(0, lengths.depth) as feature:
                for column in self.columns():
                    total: Value = self.lanes_at(source, 0, *at, feature, column)
                    for part in range(1, parts):
                        other = self.lanes_at(source, part, *at, feature, column)
                        total = self.words.add(total, other)
                    self.put(self.words.multiply(total, factor), sums, feature, column)
            first = at[2] * side
            count = self.least(first, first + side, lengths.queries) - first

            def store(features: Value, lane: Index, begin: Affine, limit: int | None) -> None:
                found = self.words.cast(features, result.dtype)
                self.store(found, target, (*at[:2], first + lane, begin), limit)

            self.store_rows(lengths.depth, count, sums, store)
        return self.kernel()


class OfSinks(GradientBuilder):
    """Cotangents of sinks."""

    def build(self, between: Between, result: Memory) -> Kernel:
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
