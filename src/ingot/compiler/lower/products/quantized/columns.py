"""Products of some rows of bytes and a quantised matrix, with a lane for each column of the result.

Input: rows in digits (`bytes.py`) and a quantised matrix. A tile has a few vectors of columns. Its
words, scales and biases are transposed to the stack once for all rows, so that sums need not be
folded and lengths need not fill vectors; the words of rows are broadcast. Long columns are
transposed and multiplied in pieces, between which sums wait on the stack. The order of summation
depends neither on the number of rows nor on that of threads; only where a sum is not finite, the
tile's sums for that row are computed again from floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder, repeated
from ingot.compiler.forms.nest.data import Buffer, Carried, CopyBlock, Value
from ingot.compiler.lower.products.quantized.bytes import BLOCK_WORDS, Bytes, code_bytes, joined
from ingot.compiler.lower.products.quantized.codes import factor_of
from ingot.compiler.lower.products.quantized.tile import are_finite
from ingot.graph.dtype import float32, int32, uint32
from ingot.tuning import CACHE_LINE
from ingot.tuning_products import PIECE_BYTES, SUMS_BY_COLUMNS

__all__ = ["ByColumns", "Span", "vectors_by_columns"]


class Span(NamedTuple):
    """Blocks of `height` rows that are multiplied by a tile: those from `begin` on, at most as many
    as `blocks`, below `end`.
    """

    begin: Affine
    blocks: int
    end: Extent
    height: int


def vectors_by_columns(height: int, digits: int) -> int:
    """How many vectors of columns a tile has: as many as there are registers for their sums."""
    return max(1, min(2, SUMS_BY_COLUMNS // (height * digits)))


class ByColumns:
    """A tile of columns, and the sums of its products with blocks of rows."""

    def __init__(
        self,
        builder: NestBuilder,
        rows: Bytes,
        units: int,
        matrix: Sequence[Buffer],
        vectors: int,
    ) -> None:
        self.builder = builder
        self.rows = rows
        self.matrix = matrix
        self.units = units
        self.scheme = rows.codes.scheme
        self.lanes = rows.codes.lanes
        self.width = vectors * self.lanes
        self.groups = -(-units // self.scheme.group_units)
        unit_bytes = self.scheme.unit_words * self.width * uint32.size
        most = max(1, PIECE_BYTES // (unit_bytes * self.scheme.group_units))
        fewest = -(-self.groups // most)
        equal = (n for n in range(fewest, 2 * fewest) if self.groups % n == 0)
        self.pieces = next(equal, fewest)
        self.piece = -(-self.groups // self.pieces)  # groups of a piece
        counts = (self.piece * self.scheme.group_units * self.scheme.unit_words, self.piece)
        self.stacks = [
            builder.stack(f"tile.{part.name}", part.dtype, (counts[number > 0], self.width))
            for number, part in enumerate(matrix)
        ]

    def multiply(self, buffers: Sequence[Buffer], span: Span, first: Affine) -> Buffer:
        """The sums of the products of a span of rows with the columns from `first` on: a buffer on
        the stack.
        """
        builder, lanes = self.builder, self.lanes
        sums = builder.stack("sums", float32, (span.blocks * span.height, self.width))
        starts = range(0, self.width, lanes)
        with builder.loop(0, span.blocks * span.height) as row:
            for start in starts:
                zero = repeated(float32, 0.0, lanes)
                builder.store(zero, sums, (affine(row), affine(start)))
        with builder.loop(0, self.pieces) as piece:
            begin = affine(piece) * self.piece  # in groups
            counts = (self.scheme.group_units * self.scheme.unit_words, 1, 1)
            for stack, part, count in zip(self.stacks, self.matrix, counts, strict=False):
                self._transpose(stack, part, (begin * count, self.piece * count), first)
            with builder.loop(span.begin, span.begin + span.blocks, span.end) as block:
                top = affine(block) * span.height
                kept = (affine(block) - span.begin) * span.height
                before = [
                    [builder.load_lanes(sums, (kept + row, affine(at)), lanes) for at in starts]
                    for row in range(span.height)
                ]
                found = self._add(buffers, top, (first, begin), before)
                for number, values in enumerate(found):
                    for at, value in zip(starts, values, strict=True):
                        builder.store(value, sums, (kept + number, affine(at)))
        return sums

    def when_not_finite(
        self, sums: Buffer, span: Span, block: Index, recompute: Callable[[Affine, Affine], None]
    ) -> None:
        """Computes sums of a block of rows again, if some are not finite: those of a row, which is
        given by its number in the block and in `sums`.
        """
        builder = self.builder
        kept = (affine(block) - span.begin) * span.height
        with builder.loop(0, span.height) as number:
            at = kept + number
            values = [
                builder.load_lanes(sums, (at, affine(start)), self.lanes)
                for start in range(0, self.width, self.lanes)
            ]
            with builder.when(are_finite(builder, [values]), 0, 1):
                recompute(affine(number), at)

    def store(
        self, sums: Buffer, kept: Affine, target: tuple[Buffer, Sequence[Affine]], first: Affine
    ) -> None:
        """Stores sums from row `kept` on to rows of the result."""
        builder, (result, rows) = self.builder, target
        columns = affine(result.shape[1])
        for number, row in enumerate(rows):
            for start in range(0, self.width, self.lanes):
                at = (kept + number, affine(start))
                value: Value = builder.load_lanes(sums, at, self.lanes)
                value = builder.words.cast(value, result.dtype)
                builder.store(value, result, (row, first + start), columns)

    def _transpose(
        self, stack: Buffer, source: Buffer, begin_count: tuple[Affine, int], first: Affine
    ) -> None:
        """Copies words or factors of all columns to the stack."""
        builder, (begin, count) = self.builder, begin_count
        columns, total = source.shape
        there: tuple[Extent, ...] = (count,)
        sides = [side for side in (16, 8, 4) if side <= self.lanes]
        if self.groups % self.pieces:
            there, sides = (count, affine(total) - begin), sides[:1]
        whole = affine(builder.multiple(0, self.width, affine(columns) - first, by=self.lanes))
        start: Affine = affine(0)
        for side in (*sides, 1):
            if len(there) == 1:
                end = start + (count - start.constant) // side * side
            else:
                end = affine(builder.multiple(start, *there, by=side))
            with (
                builder.loop(0, whole, step=self.lanes) as column,
                builder.loop(start, end, step=side) as row,
            ):
                for more in range(0, self.lanes, side):
                    at = (first + column + more, begin + row)
                    into = (affine(row), affine(column) + more)
                    builder.body.append(CopyBlock(stack, into, source, at, (1, 0), side))
            start = end
        # A vector that is not whole: zeros, and the columns that there are.
        zero = repeated(source.dtype, 0, self.lanes)
        with (
            builder.loop(whole, self.width, step=self.lanes) as column,
            builder.loop(0, *there) as row,
        ):
            at = (affine(row), affine(column))
            builder.store(zero, stack, at, affine(self.width))
        ends = (self.width, affine(columns) - first)
        with builder.loop(whole, *ends) as column, builder.loop(0, *there) as row:
            at, into = (first + column, begin + row), (affine(row), affine(column))
            builder.body.append(CopyBlock(stack, into, source, at, (1, 0), 1))

    def _add(
        self,
        buffers: Sequence[Buffer],
        top: Affine,
        first_begin: tuple[Affine, Affine],
        before: Sequence[Sequence[Value]],
    ) -> list[list[Value]]:
        """Adds the products of a piece, given by its first column and group, to the sums of a block
        of rows: [row][vector].
        """
        (first, begin), builder, group = first_begin, self.builder, self.scheme.group_units
        carried = [[Carried(float32, value) for value in values] for values in before]
        flat = [each for values in carried for each in values]
        with builder.loop(0, self.piece, affine(self.groups) - begin, carried=flat) as number:
            found: list[list[Value]] = [list(values) for values in carried]
            self._fetch(first, affine(number) + begin)
            for part in range(group):
                unit = affine(number) * group + part
                found = self._add_block(buffers, top, (unit, begin * group + unit), found)
            for values, sums in zip(found, carried, strict=True):
                for value, each in zip(values, sums, strict=True):
                    each.update = value
        return [list(values) for values in carried]

    def _fetch(self, first: Affine, number: Affine) -> None:
        """Prefetches a part of the next tile. Its columns are taken for adjacent in memory."""
        for part in self.matrix:
            (_, length), size = part.shape, part.dtype.size
            assert isinstance(length, int)
            lines = -(-self.width * length * size // (self.groups * CACHE_LINE))
            for line in range(lines):
                at = (number * lines + line) * (CACHE_LINE // size)
                self.builder.prefetch(part, (first + self.width, at))

    def _add_block(
        self,
        buffers: Sequence[Buffer],
        top: Affine,
        units: tuple[Affine, Affine],
        before: Sequence[Sequence[Value]],
    ) -> list[list[Value]]:
        """Adds the products of a block, whose number is given in the piece and in all."""
        builder, k, lanes = self.builder, self.builder.words, self.lanes
        words, factors = buffers
        here, unit = units
        rows, digits = range(len(before)), range(self.rows.digits)
        starts = range(0, self.width, lanes)
        zero = repeated(int32, 0, lanes)
        totals: list[list[list[Value]]] = [[[zero] * len(starts) for _ in digits] for _ in rows]
        for vector in range(BLOCK_WORDS):
            word, shift = divmod(vector, self.rows.shifts)
            codes = [self._code(here, word, shift, start) for start in starts]
            for digit in digits:
                for row in rows:
                    at = (top + row, unit, affine(digit * BLOCK_WORDS + vector))
                    factor = builder.splat(builder.load(words, at), lanes)
                    sums = totals[row][digit]
                    totals[row][digit] = [
                        k.dot_bytes(total, code, factor)
                        for total, code in zip(sums, codes, strict=True)
                    ]
        scales = [self._factors(here, start) for start in starts]
        found: list[list[Value]] = []
        for row in rows:
            scale, total = (
                builder.splat(builder.load(factors, (top + row, unit, affine(part))), lanes)
                for part in (0, 1)
            )
            values: list[Value] = []
            for number, (of_codes, bias) in enumerate(scales):
                value = joined(builder, [totals[row][digit][number] for digit in digits])
                both = k.multiply(of_codes, scale)
                value = k.fused_multiply_add(value, both, before[row][number])
                values.append(k.fused_multiply_add(bias, total, value))
            found.append(values)
        return found

    def _code(self, unit: Affine, word: int, shift: int, start: int) -> Value:
        """One code in each byte of a word of a unit."""
        at = (unit * self.scheme.unit_words + word, affine(start))
        found = self.builder.load_lanes(self.stacks[0], at, self.lanes)
        return code_bytes(self.builder, self.scheme, found, shift)

    def _factors(self, unit: Affine, start: int) -> list[Value]:
        """The scale and the bias of a unit."""
        group = self.scheme.group_units
        terms = {variable: count // group for variable, count in unit.terms.items()}
        at = (Affine(terms, unit.constant // group), affine(start))
        return [
            factor_of(
                self.builder, self.scheme.mode, self.builder.load_lanes(stack, at, self.lanes)
            )
            for stack in self.stacks[1:]
        ]
