"""A tile of a product with a quantised matrix: sums of a few rows times a few rows of the matrix.

There are two methods, both for rows in the order of codes. **Direct**: codes are scaled, the bias
is added, and the result is multiplied by every row. **Factored**: the codes of a block are
multiplied by the rows, and the sums are scaled; the bias is multiplied by the sum of the row's
elements, which is precomputed. That takes fewer instructions per code if there are few rows, but
gives different results if a row has infinities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder, repeated
from ingot.compiler.forms.nest.data import Buffer, Carried, Constant, Value
from ingot.compiler.lower.products.quantized.codes import Codes, Unpacker, factor_of
from ingot.graph.dtype import float32, int64
from ingot.tuning import PREFETCH_BYTES

__all__ = ["Chunk", "QuantizedTile", "Sums", "are_finite"]

Sums = list[list[Value]]  # [column of the result][row]


class Chunk(NamedTuple):
    """The units of one bundle of lanes, in all columns of a tile, and the rows to multiply by."""

    unpacker: Unpacker
    number: Affine
    rows: list[Affine]
    scales: Sums
    limit: int | None = None  # the number of units, if lanes beyond the last one must be 0


class QuantizedTile:
    """Sums for some columns of the result, that is, some rows of the matrix."""

    min_lanes = 1  # of a bundle that has an instruction for products

    def __init__(
        self,
        builder: NestBuilder,
        codes: Codes,
        units: int,
        ordered: Buffer,
        matrix: Sequence[Buffer],
        columns: list[Affine],
    ) -> None:
        self.builder = builder
        self.codes = codes
        self.scheme = codes.scheme
        self.units = units
        self.ordered = ordered
        self.packed, *self.parts = matrix
        self.columns = columns

    def direct(self, rows: list[Affine]) -> Sums:
        """The products of rows with each column, from dequantised codes."""
        return self._sums(rows, self._direct_chunk)

    def factored(self, rows: list[Affine]) -> Sums:
        """The products of rows with each column, from sums of products of codes."""
        return self._sums(rows, self._factored_chunk)

    def _sums(self, rows: list[Affine], add: Callable[[Chunk, Sums], Sums]) -> Sums:
        lanes = self.codes.lanes
        block = max(self.scheme.group_units, lanes)  # units per iteration
        blocks, rest = divmod(self.units, block)
        totals: Sums = [[] for _ in self.columns]
        unpacker = Unpacker(self.builder, self.codes)
        if blocks:
            carried = [[Carried(float32, _zero(lanes)) for _ in rows] for _ in self.columns]
            flat = [each for sums in carried for each in sums]
            with self.builder.loop(0, blocks, carried=flat, copies=1) as number:
                scales = self.scales(self.codes, affine(number) * block, None)
                found: Sums = [list(each) for each in carried]
                for part in range(block // lanes):
                    at = affine(number) * (block // lanes) + part
                    found = add(Chunk(unpacker, at, rows, scales), found)
                for sums, updates in zip(carried, found, strict=True):
                    for each, update in zip(sums, updates, strict=True):
                        each.update = update
            totals = [list(sums) for sums in carried]
        if rest:
            zeros, chunk = self._rest(blocks * block, rest, rows)
            last = add(chunk, zeros)
            totals = [
                [self._added(a, b) for a, b in zip(one, other, strict=True)] if one else other
                for one, other in zip(totals, last, strict=True)
            ]
        every = [each for sums in totals for each in sums]
        folded = self.builder.fold_each(every, self.builder.words.add)
        return [folded[at : at + len(rows)] for at in range(0, len(folded), len(rows))]

    def _rest(self, first: int, rest: int, rows: list[Affine]) -> tuple[Sums, Chunk]:
        """The units after the last whole block, in a bundle of fewer lanes, and as many zeros."""
        lanes = max(self.min_lanes, 1 << (rest - 1).bit_length())
        unpacker = Unpacker(self.builder, self.codes._replace(lanes=lanes, is_transposed=False))
        zeros: Sums = [[_zero(lanes)] * len(rows) for _ in self.columns]
        number = affine(first // self.codes.lanes)
        limit = None if lanes == rest else self.units
        scales = self.scales(unpacker.codes, affine(first), limit)
        return zeros, Chunk(unpacker, number, rows, scales, limit)

    # Chunks

    def _direct_chunk(self, chunk: Chunk, sums: Sums) -> Sums:
        """Adds the products of the codes of a chunk to sums."""
        k, unpacker = self.builder.words, chunk.unpacker
        words = self.words(unpacker, chunk.number, chunk.limit)
        found = [list(each) for each in sums]
        for vector in range(self.codes.vectors):
            factors = self._bundles(self.ordered, chunk, vector)
            for column, (word, (scale, *bias)) in enumerate(zip(words, chunk.scales, strict=True)):
                value = unpacker.number(unpacker.code(word, vector))
                if bias:
                    unit = 2.0 ** self.scheme.exponent(vector)
                    moved = k.multiply(bias[0], repeated(float32, unit, unpacker.lanes))
                    value = k.fused_multiply_add(value, scale, moved)
                else:
                    value = k.multiply(value, scale)
                for row, factor in enumerate(factors):
                    found[column][row] = k.fused_multiply_add(value, factor, found[column][row])
        return found

    def _factored_chunk(self, chunk: Chunk, sums: Sums) -> Sums:
        """Adds the products of the codes of a chunk to sums, scaled."""
        k, unpacker, scales = self.builder.words, chunk.unpacker, chunk.scales
        words = self.words(unpacker, chunk.number, chunk.limit)
        found = [[_zero(unpacker.lanes)] * len(chunk.rows) for _ in words]
        for vector in range(self.codes.vectors):
            factors = self._bundles(self.ordered, chunk, vector)
            for column, word in enumerate(words):
                value = unpacker.number(unpacker.code(word, vector))
                for row, factor in enumerate(factors):
                    before = found[column][row]
                    found[column][row] = (
                        k.fused_multiply_add(value, factor, before)
                        if vector
                        else k.multiply(value, factor)
                    )
        found = [
            [k.fused_multiply_add(scale, a, b) for a, b in zip(of_codes, before, strict=True)]
            for (scale, *_), of_codes, before in zip(scales, found, sums, strict=True)
        ]
        if len(self.parts) == 1:
            return found
        of_rows = self._bundles(self.ordered, chunk, self.codes.vectors)
        return [
            [k.fused_multiply_add(bias, a, b) for a, b in zip(of_rows, before, strict=True)]
            for (_, bias), before in zip(scales, found, strict=True)
        ]

    # Operands of chunks

    def words(self, unpacker: Unpacker, number: Affine, limit: int | None) -> list[list[Value]]:
        first = number * self.codes.lanes
        ahead = self._ahead(self.packed)
        return [unpacker.words(self.packed, column, first, limit, ahead) for column in self.columns]

    def _ahead(self, buffer: Buffer) -> int:
        """The distance in bytes to the corresponding data of a later tile, for prefetching."""
        (stride, _), columns = buffer.strides, len(self.columns)
        assert isinstance(stride, int)
        tile = abs(stride) * columns
        return stride * columns * -(-PREFETCH_BYTES // tile) if tile else 0

    def _bundles(self, buffer: Buffer, chunk: Chunk, vector: int) -> list[Value]:
        """A bundle of each permuted row. Lanes at or beyond the limit, in units, are 0."""
        number, limit = chunk.number, chunk.limit
        below = None if limit is None else affine(limit) - number * self.codes.lanes
        lanes, found = chunk.unpacker.lanes, []
        for row in chunk.rows:
            index = (row, number, affine(vector), affine(0))
            if lanes == 1:  # of rows that may be as they were given
                value: Value = self.builder.load(buffer, index)
                found.append(self.builder.words.cast(value, float32))
            else:
                found.append(self.builder.load_lanes(buffer, index, lanes, below))
        return [*found]

    def scales(self, codes: Codes, first: Affine, limit: int | None) -> Sums:
        """The scales, and the biases, of the groups from a unit on, for each column and lane."""
        builder, group, lanes = self.builder, self.scheme.group_units, codes.lanes
        count = max(1, lanes // group)
        # `first` is a multiple of the units of a group
        at = Affine({v: c // group for v, c in first.terms.items()}, first.constant // group)
        below = None if limit is None else limit // group
        found = []
        for column in self.columns:
            values: list[Value] = []
            for part in self.parts:
                ahead = self._ahead(part)
                if count == 1:
                    value: Value = builder.load(part, (column, at), ahead)
                else:
                    value = builder.load_lanes(part, (column, at), count, below, ahead)
                value = factor_of(builder, self.scheme.mode, value)
                if codes.is_transposed:
                    picks = tuple(codes.unit_of(lane) // group for lane in range(lanes))
                    value = builder.picked_lanes((value,), picks)
                elif lanes != count:
                    value = builder.splat(value, lanes)
                values.append(value)
            found.append(values)
        return found

    def _added(self, sums: Value, rest: Value) -> Value:
        """Sums plus those of the last units, in the fewer of both numbers of lanes."""
        lanes = min(sums.lanes, rest.lanes)
        add = self.builder.words.add
        return add(*(self.builder.fold_lanes(each, add, lanes) for each in (sums, rest)))


def are_finite(builder: NestBuilder, sums: Sequence[Sequence[Value]]) -> Value:
    """1 if all sums are finite, else 0. If a row has infinities, or a sum overflows, sums that are
    scaled or joined are not equal to the sums of products.
    """
    k, zero = builder.words, Constant(float32, 0.0)
    found: Value = zero
    for column in sums:
        for value in column:
            found = k.fused_multiply_add(value, zero, found)
    found = builder.fold_lanes(found, k.add)
    is_finite: Value = k.cast(k.equal(found, zero), int64)
    return is_finite


def _zero(lanes: int) -> Value:
    return repeated(float32, 0.0, lanes)
