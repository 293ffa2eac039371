"""Products of rows of bytes and quantised matrices: an instruction multiplies four per word.

Input: a `QuantizedProduct` whose codes do not straddle bytes and whose rows are to be quantised to
int8 in blocks of 32 (`graph/numerics/activations.py`), or to be multiplied in three digits of a
byte each. A lane has the codes of a block: as many words as a code has bits. Products of a block
are summed in int32, which are then multiplied by the scales of both the block and the group. The
first kernel quantises the rows and permutes them to the order of codes: each byte of a word has 8 /
bits codes, so shifting the word by a multiple of `bits` moves one code of each byte to its lower
end, and there is a word of four elements for each word of codes and each shift. Next to these are,
for each block, its scale, and the sum of its elements, for biases.

Three digits are the elements of a block as multiples of 2 ** -23 of the largest one: as exact as
float32 is there. Their products with codes are summed without rounding, so that results differ from
sums of float32 products by as little as these do from each other in another order.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.build import NestBuilder, repeated
from ingot.compiler.forms.nest.data import Buffer, Constant, Value
from ingot.compiler.lower.products.quantized.codes import QUARTER, WORD, Codes, Scheme
from ingot.compiler.lower.products.quantized.tile import Chunk, QuantizedTile, Sums
from ingot.graph.dtype import float32, int32, uint32
from ingot.graph.numerics.activations import ACTIVATION_BLOCK, SMALLEST_BLOCK
from ingot.graph.shape import contiguous, size_of
from ingot.runtime.processor import processor_features

__all__ = [
    "BLOCK_WORDS",
    "FLOAT_DIGITS",
    "Bytes",
    "BytesTile",
    "code_bytes",
    "in_blocks",
    "joined",
    "quantise_row",
]

FLOAT_DIGITS = 3
_BYTE = 8
BLOCK_WORDS = ACTIVATION_BLOCK // 4
# The largest element of a block, in steps, by its number of digits, which are from -128 to 127:
# with three, rounding may add a step.
_LARGEST = {1: 127.0, FLOAT_DIGITS: 127.0 * (1 + 256 + 256**2) - 128}
# What counts as the largest element of blocks of smaller ones: steps below are not float32 numbers.
_SMALLEST = {1: SMALLEST_BLOCK, FLOAT_DIGITS: 2.0**-100}


def in_blocks(scheme: Scheme) -> Scheme | None:
    """The scheme with the codes of a block as a unit; None if codes are no integers, or straddle
    bytes.
    """
    if scheme.mode != "affine" or _BYTE % scheme.bits != 0:
        return None
    return scheme._replace(words=ACTIVATION_BLOCK * scheme.bits // WORD)


def has_pairs(bits: int) -> bool:
    """Whether products of codes are summed in pairs of bytes: processors that have no instruction
    for four bytes have one for two, whose sums for a block are at most 32 / 2 * 128 times the
    largest code.
    """
    features = processor_features()
    is_in_range = ACTIVATION_BLOCK // 2 << _BYTE - 1 + bits <= 1 << 15
    return is_in_range and "ssse3" in features and "avx512_vnni" not in features


class Bytes:
    """The layout of rows of bytes in scratch memory: for each row the words of all chunks, from the
    lowest digits to the highest, then the scales and sums of each lane. If it is `by_blocks`, the
    words of a block are adjacent instead of those of a vector.
    """

    def __init__(self, codes: Codes, chunks: int, digits: int, by_blocks: bool = False) -> None:
        self.codes = codes
        self.digits = digits
        self.by_blocks = by_blocks
        self.shifts = _BYTE // codes.scheme.bits
        self.words_shape = (chunks, digits * BLOCK_WORDS, codes.lanes)
        self.factors_shape = (chunks, 2, codes.lanes)

    @property
    def nbytes(self) -> int:
        """The size of a row."""
        return (size_of(self.words_shape) + size_of(self.factors_shape)) * uint32.size

    def buffers(self, builder: NestBuilder, rows: Extent, argument: int) -> tuple[Buffer, Buffer]:
        """Declares words and factors as buffers: [row, chunk, vector, lane]."""
        return self._declared(builder, rows, argument, False)

    def blocks(self, builder: NestBuilder, rows: Extent, argument: int) -> tuple[Buffer, Buffer]:
        """Declares words and factors that are laid out by blocks: [row, block, vector]."""
        return self._declared(builder, rows, argument, True)

    def _declared(
        self, builder: NestBuilder, rows: Extent, argument: int, merged: bool
    ) -> tuple[Buffer, Buffer]:
        found, offset, size = [], 0, uint32.size
        kinds = (("bytes", uint32, self.words_shape), ("factors", float32, self.factors_shape))
        for name, dtype, shape in kinds:
            chunks, vectors, lanes = shape
            lengths: tuple[int, ...] = shape
            strides = contiguous(shape, size)
            if self.by_blocks:
                strides = (vectors * lanes * size, size, vectors * size)
            if merged:
                lengths, strides = (chunks * lanes, vectors), (vectors * size, size)
            row = (self.nbytes, *strides)
            found.append(builder.buffer(name, dtype, (rows, *lengths), row, argument, offset))
            offset += size_of(self.words_shape) * size
        words, factors = found
        return words, factors


def quantise_row(
    builder: NestBuilder,
    source: tuple[Buffer, tuple[Affine, ...]],
    units: int,
    rows: Bytes,
    targets: Sequence[Buffer],
    row_chunk: tuple[Affine, Affine],
) -> None:
    """Quantises a chunk of a row, whose elements are adjacent: `source` is the rows and the index
    of one, `row_chunk` its number and that of the chunk. The lanes of whole chunks are in the order
    of `Codes.unit_of`.
    """
    (x, above), lanes = source, rows.codes.lanes
    first, begin = row_chunk[1] * lanes, affine(0)

    def block(unit: Affine, lane: Affine) -> None:
        at = (*above, (first + unit) * ACTIVATION_BLOCK)
        _quantise_block(builder, (x, at), rows, targets, (*row_chunk, lane))

    if rows.codes.is_transposed and units >= lanes:
        more = affine(units // lanes) - row_chunk[1]  # 0 in a chunk that is not whole
        ends, quads = [affine(QUARTER)], lanes // QUARTER
        if units % lanes:
            ends.append(more * QUARTER)
        with builder.loop(0, *ends) as part, builder.loop(0, quads) as quad:
            block(affine(part) * quads + quad, affine(quad) * QUARTER + part)
        if units % lanes == 0:
            return
        begin = more * lanes
    with builder.loop(begin, lanes, affine(units) - first) as lane:
        block(affine(lane), affine(lane))


def _quantise_block(
    builder: NestBuilder,
    source: tuple[Buffer, tuple[Affine, ...]],
    rows: Bytes,
    targets: Sequence[Buffer],
    target: tuple[Affine, Affine, Affine],
) -> None:
    """Quantises a block of a row: `target` is its row, chunk and lane among `targets`."""
    (words, factors), (row, chunk, lane), k = targets, target, builder.words
    count = rows.codes.scheme.unit_words
    found = k.cast(builder.load_lanes(*source, ACTIVATION_BLOCK), float32)
    scale, whole = _scaled(builder, found, rows.digits)
    for position, digit in enumerate(_digits(builder, whole, rows.digits)):
        for shift in range(rows.shifts):
            word: Value | None = None  # one for each word of codes
            for byte in range(4):
                begin, stride = byte * rows.shifts + shift, ACTIVATION_BLOCK // count
                part = _byte(builder, builder.some_lanes(digit, begin, count, stride), byte)
                word = part if word is None else k.bitwise_or(word, part)
            assert word is not None
            for number in range(count):
                each = word if count == 1 else builder.some_lanes(word, number, 1)
                vector = affine(position * BLOCK_WORDS + number * rows.shifts + shift)
                builder.store(each, words, (row, chunk, vector, lane))
    if rows.digits == 1:  # of what was rounded
        total = k.multiply(k.cast(builder.fold_lanes(whole, k.add), float32), scale)
    else:
        total = builder.fold_lanes(found, k.add)
    for number, value in enumerate((scale, total)):
        builder.store(value, factors, (row, chunk, affine(number), lane))


def _scaled(builder: NestBuilder, values: Value, digits: int) -> tuple[Value, Value]:
    """The scale of a block, and its elements as int32 multiples of that scale."""
    k, zero, steps = builder.words, Constant(float32, 0.0), _LARGEST[digits]
    largest = builder.fold_lanes(k.absolute(values), k.maximum)
    largest = k.maximum(largest, Constant(float32, _SMALLEST[digits]))
    # infinities and NaN make the scale NaN
    finite = k.fused_multiply_add(largest, zero, largest)
    scale = k.multiply(finite, Constant(float32, 1 / steps))
    inverse = k.divide(Constant(float32, steps), largest)
    whole = k.round(k.multiply(values, builder.splat(inverse, values.lanes)))
    return scale, k.cast(whole, int32)


def _digits(builder: NestBuilder, whole: Value, count: int) -> list[Value]:
    """Integers whose lowest bytes are the signed digits of others, the lowest digit first."""
    k, found = builder.words, [whole]
    half, byte = (repeated(int32, number, whole.lanes) for number in (1 << _BYTE - 1, _BYTE))
    while len(found) < count:
        found.append(k.right_shift(k.add(found[-1], half), byte))
    return found


def _byte(builder: NestBuilder, x: Value, number: int) -> Value:
    """The lowest byte of an int32, shifted to byte `number` of a word."""
    k = builder.words
    low = k.bitwise_and(k.cast(x, uint32), repeated(uint32, 0xFF, x.lanes))
    return k.left_shift(low, repeated(uint32, _BYTE * number, x.lanes)) if number else low


class BytesTile(QuantizedTile):
    """Sums of products of bytes and codes."""

    min_lanes = 4

    def __init__(
        self,
        builder: NestBuilder,
        units: int,
        rows: Bytes,
        buffers: Sequence[Buffer],
        matrix: Sequence[Buffer],
        columns: list[Affine],
    ) -> None:
        self.bytes, factors = buffers
        self.shifts = rows.shifts
        self.digits = rows.digits
        super().__init__(builder, rows.codes, units, factors, matrix, columns)

    def factored(self, rows: list[Affine]) -> Sums:
        """The products of some rows with each column."""
        return self._sums(rows, self._bytes_chunk)

    def _bytes_chunk(self, chunk: Chunk, sums: Sums) -> Sums:
        """Adds the products of a chunk to sums."""
        k = self.builder.words
        sum_digits = self._sums_in_pairs if has_pairs(self.scheme.bits) else self._sums_of_bytes
        sums_of_digits = sum_digits(chunk)
        row_scales, row_sums = (self._bundles(self.ordered, chunk, part) for part in (0, 1))
        found: Sums = []
        for column, ((scale, bias), before) in enumerate(zip(chunk.scales, sums, strict=True)):
            column_sums: list[Value] = []
            for row in range(len(chunk.rows)):
                both = k.multiply(scale, row_scales[row])
                total = joined(self.builder, [totals[column][row] for totals in sums_of_digits])
                value = k.fused_multiply_add(total, both, before[row])
                column_sums.append(k.fused_multiply_add(bias, row_sums[row], value))
            found.append(column_sums)
        return found

    def _sums_of_bytes(self, chunk: Chunk) -> list[Sums]:
        """The sums of products of each digit and block, by instructions for four bytes."""
        k, zero = self.builder.words, repeated(int32, 0, chunk.unpacker.lanes)
        found: list[Sums] = [
            [[zero] * len(chunk.rows) for _ in self.columns] for _ in range(self.digits)
        ]
        packed = self.words(chunk.unpacker, chunk.number, chunk.limit)
        for vector in range(BLOCK_WORDS):
            word, shift = divmod(vector, self.shifts)
            codes = [code_bytes(self.builder, self.scheme, words[word], shift) for words in packed]
            for digit, totals in enumerate(found):
                factors = self._bundles(self.bytes, chunk, digit * BLOCK_WORDS + vector)
                for column, code in enumerate(codes):
                    for row, factor in enumerate(factors):
                        totals[column][row] = k.dot_bytes(totals[column][row], code, factor)
        return found

    def _sums_in_pairs(self, chunk: Chunk) -> list[Sums]:
        """The same by instructions for two bytes, whose sums stay within 16 bits for a block. One
        sum after the other, so that few registers hold all codes of a column.
        """
        k, zero = self.builder.words, repeated(int32, 0, chunk.unpacker.lanes)
        found: list[Sums] = [[] for _ in range(self.digits)]
        for words in self.words(chunk.unpacker, chunk.number, chunk.limit):
            codes = [
                code_bytes(
                    self.builder, self.scheme, words[vector // self.shifts], vector % self.shifts
                )
                for vector in range(BLOCK_WORDS)
            ]
            for digit, totals in enumerate(found):
                pairs: list[Value] = [repeated(uint32, 0, zero.lanes)] * len(chunk.rows)
                for vector, code in enumerate(codes):
                    factors = self._bundles(self.bytes, chunk, digit * BLOCK_WORDS + vector)
                    pairs = [
                        k.dot_pairs(pair, code, factor)
                        for pair, factor in zip(pairs, factors, strict=True)
                    ]
                totals.append([k.add_pairs(zero, pair) for pair in pairs])
        return found


def joined(builder: NestBuilder, digits: list[Value]) -> Value:
    """The sums of digits as one sum, in float32: those of the lower two fit an int32."""
    k, lanes = builder.words, digits[0].lanes
    if len(digits) == 1:
        return k.cast(digits[0], float32)
    low, middle, high = digits
    both = k.add(low, k.left_shift(middle, repeated(int32, _BYTE, lanes)))
    unit = repeated(float32, 2.0 ** (2 * _BYTE), lanes)
    found: Value = k.fused_multiply_add(k.cast(high, float32), unit, k.cast(both, float32))
    return found


def code_bytes(builder: NestBuilder, scheme: Scheme, word: Value, shift: int) -> Value:
    """One code in each byte of words."""
    k, bits = builder.words, scheme.bits
    if shift:
        word = k.right_shift(word, repeated(uint32, shift * bits, word.lanes))
    if bits == _BYTE:
        return word
    mask = ((1 << bits) - 1) * 0x01010101
    return k.bitwise_and(word, repeated(uint32, mask, word.lanes))
