"""Unpacks the codes of quantised matrices in registers: words in, bundles of float32 out.

The unit of a row is the smallest number of words that contains whole codes: one word if a code has
1, 2, 4 or 8 bits, else as many words as a code has bits, with 32 codes. A chunk is a bundle of
adjacent units, one per lane. Bundle v of a chunk consists of code v of each unit: its lane l has
code l * codes_per_unit + v. Vectors to be multiplied with codes are permuted to the same order,
once for all rows. Units of four words are transposed within 128 bits, which takes 8 instructions
instead of 12, and lanes are in the order that this makes: of 16 units, lane 0 has unit 0, lane 1
unit 4, lane 4 unit 1.

Codes of affine matrices are masked in place rather than shifted down, so bundle v is its codes
times 2 ** `exponent(v)`. The vector is divided by the same power.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.compiler.forms.affine import Affine
from ingot.compiler.forms.nest.build import NestBuilder, repeated
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.graph.dtype import float32, int32, uint8, uint32

__all__ = ["QUARTER", "Codes", "Scheme", "Unpacker", "factor_of"]

WORD = 32  # bits
QUARTER = 4  # words of 128 bits, within which vectors of x86 are interleaved
_FP4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # magnitudes of 4-bit codes


class Scheme(NamedTuple):
    """A quantisation format."""

    mode: str
    group_size: int
    bits: int
    words: int = 0  # per unit; 0 for as few as possible
    # Whether all codes are shifted down, so that they are scaled by one multiply-add each: biases
    # need not be scaled by powers of two.
    is_shifted: bool = False

    @property
    def unit_words(self) -> int:
        """Words per unit."""
        return self.words or (1 if WORD % self.bits == 0 else self.bits)

    @property
    def unit_codes(self) -> int:
        """Codes per unit."""
        return self.unit_words * WORD // self.bits

    @property
    def group_units(self) -> int:
        """Units that share a scale."""
        return self.group_size // self.unit_codes

    def first_bit(self, vector: int) -> tuple[int, int]:
        """The word of a unit in which a code begins, and its first bit in that word."""
        return divmod(vector * self.bits, WORD)

    def exponent(self, vector: int) -> int:
        """The power of two by which the bundle of a code is scaled: the first bit of the code. It
        is 0 if the code has to be shifted down, because it is a float, includes the sign bit of its
        word, or straddles two words.
        """
        _, bit = self.first_bit(vector)
        is_masked = self.mode == "affine" and bit + self.bits < WORD and not self.is_shifted
        return bit if is_masked else 0


class Codes(NamedTuple):
    """The layout of the codes of a chunk: `vectors` bundles of `lanes` codes."""

    scheme: Scheme
    lanes: int
    # Whether lanes are in the order of a transposition within 128 bits (`unit_of`).
    is_transposed: bool = False

    @property
    def vectors(self) -> int:
        """Bundles per chunk."""
        return self.scheme.unit_codes

    def transposed(self) -> Codes:
        """The layout with the lanes of a transposition, if units are 128 bits of wider vectors.
        Measured, one thread, 4 bits, groups of 32 to 128, time relative to adjacent units in
        adjacent lanes, 256 rows of 2048 in L2: a row in three digits 0.89 to 0.90, two 0.91 to
        0.93, four 0.96 to 0.97; int8, two rows 0.86 to 0.91, four 0.92, eight 0.91. From memory:
        a row in three digits 0.89, four 0.96, eight of int8 0.88. One row of int8 takes 0.87 in L2
        but 1.06 to 1.09 from memory, where it is bound by reading: it is not used for that.
        """
        is_part = self.scheme.unit_words == QUARTER and self.lanes > QUARTER
        return self._replace(is_transposed=is_part)

    def unit_of(self, lane: int) -> int:
        """The unit of a lane."""
        if not self.is_transposed:
            return lane
        quad, number = divmod(lane, QUARTER)
        return number * (self.lanes // QUARTER) + quad


class Unpacker:
    """Emits the code that unpacks words."""

    def __init__(self, builder: NestBuilder, codes: Codes) -> None:
        self.builder = builder
        self.codes = codes
        self.scheme = codes.scheme
        self.lanes = codes.lanes

    def words(
        self, buffer: Buffer, row: Affine, first: Affine, limit: int | None, ahead: int
    ) -> list[Value]:
        """The words of a chunk that begins at unit `first` of a row: a bundle for each word of a
        unit. Words `ahead` bytes further on are prefetched.
        """
        count, at = self.scheme.unit_words, first * self.scheme.unit_words
        total = self.lanes * count
        if total == 1:
            return [self.builder.load(buffer, (row, at), ahead)]
        if self.codes.is_transposed:
            return self._transposed(buffer, row, at, ahead)
        below = None if limit is None else limit * count
        found = self.builder.load_lanes(buffer, (row, at), total, below, ahead)
        if count == 1:
            return [found]
        return [self.builder.some_lanes(found, word, self.lanes, count) for word in range(count)]

    def _transposed(self, buffer: Buffer, row: Affine, at: Affine, ahead: int) -> list[Value]:
        """The words of a chunk of units of four words, which stay in the 128 bits that they are
        loaded to.
        """
        a, b, c, d = (
            self.builder.load_lanes(buffer, (row, at + self.lanes * part), self.lanes, None, ahead)
            for part in range(QUARTER)
        )
        pairs = [
            (self._interleaved(a, b, first, 1), self._interleaved(c, d, first, 1))
            for first in (0, 2)
        ]
        return [self._interleaved(*pair, first, 2) for pair in pairs for first in (0, 2)]

    def _interleaved(self, x: Value, y: Value, first: int, run: int) -> Value:
        """Two words of every four, from `first` on, of each of two bundles: `run` of one, as many
        of the other.
        """
        picks = [
            quad + first + start + number + other
            for quad in range(0, self.lanes, QUARTER)
            for start in range(0, 2, run)
            for other in (0, self.lanes)
            for number in range(run)
        ]
        return self.builder.picked_lanes((x, y), tuple(picks))

    def code(self, words: list[Value], vector: int) -> Value:
        """Bundle `vector` of the codes of a chunk, as uint32 times a power of two. For floats,
        higher bits are not cleared.
        """
        k, bits = self.builder.words, self.scheme.bits
        word, bit = self.scheme.first_bit(vector)
        found = words[word]
        if bit and not self.scheme.exponent(vector):
            found = k.right_shift(found, self._constant(bit))
        if bit + bits > WORD:
            above = k.left_shift(words[word + 1], self._constant(WORD - bit))
            found = k.bitwise_or(found, above)
        if bit + bits == WORD or self.scheme.mode != "affine":
            return found
        mask = (1 << bits) - 1 << self.scheme.exponent(vector)
        return k.bitwise_and(found, self._constant(mask))

    def number(self, code: Value) -> Value:
        """The float32 numbers that codes represent, before scaling."""
        k = self.builder.words
        if self.scheme.mode == "affine":
            return k.cast(k.cast(code, int32), float32)
        if self.scheme.bits == 4:
            return k.lookup(code, (*_FP4, *(-size for size in _FP4)))
        return _decoded_fp8(self.builder, k.bitwise_and(code, self._constant(0xFF)))

    def _constant(self, value: int) -> Value:
        return repeated(uint32, value, self.lanes)


def factor_of(builder: NestBuilder, mode: str, scale: Value) -> Value:
    """The float32 that a scale in memory represents."""
    k, lanes = builder.words, scale.lanes
    if mode == "affine":
        return k.cast(scale, float32)
    assert scale.dtype is uint8
    code = k.cast(scale, uint32)
    if mode == "nvfp4":
        return _decoded_fp8(builder, code)
    # The code is the exponent field of a power of two; code 0 is the denormal 2 ** -127.
    bits = k.left_shift(code, repeated(uint32, 23, lanes))
    least = k.equal(code, repeated(uint32, 0, lanes))
    found: Value = k.from_bits(k.select(least, repeated(uint32, 0x00400000, lanes), bits))
    return found


def _decoded_fp8(builder: NestBuilder, code: Value) -> Value:
    """Decodes fp8: a sign, four exponent bits, three mantissa bits.

    Exponent and mantissa are moved to where float32 has them. The numbers of exponent 0, which are
    multiples of 2 ** -9, would be 2 ** -7 times 1 + m / 8 instead of twice m / 8. Denormal float32
    numbers are avoided, because processors may multiply them slowly.
    """
    k, lanes = builder.words, code.lanes
    low = k.bitwise_and(code, repeated(uint32, 0x7F, lanes))
    bits = k.add(
        k.left_shift(low, repeated(uint32, 20, lanes)), repeated(uint32, (127 - 7) << 23, lanes)
    )
    nan = k.equal(low, repeated(uint32, 0x7F, lanes))
    size = k.from_bits(k.select(nan, repeated(uint32, 0x7FC00000, lanes), bits))
    of_least = k.fused_multiply_add(
        size, repeated(float32, 2.0, lanes), repeated(float32, -(2.0**-6), lanes)
    )
    size = k.select(k.less(low, repeated(uint32, 8, lanes)), of_least, size)
    return _signed(builder, size, code, 7)


def _signed(builder: NestBuilder, size: Value, code: Value, sign: int) -> Value:
    """A float32 with the sign bit of a code, which is its bit `sign`."""
    k, lanes = builder.words, code.lanes
    top = k.left_shift(
        k.right_shift(code, repeated(uint32, sign, lanes)), repeated(uint32, 31, lanes)
    )
    found: Value = k.from_bits(k.bitwise_xor(k.bits(size), top))
    return found
