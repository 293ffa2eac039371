"""Packed codes in registers: the words of a quantised matrix as bundles of float32.

A row of codes is read in chunks. Where a word holds whole codes (1, 2, 4 and 8 bits), a chunk is a
bundle of adjacent words, and shifting all of them takes one code out of each: bundle v of a chunk
has in lane l the code l * codes_of_a_word + v. Whoever multiplies these by a vector brings that
into the same order, once for all rows. Codes of 3, 5 and 6 bits may lie across two words: 32 of
them are a chunk, whose words are moved by another distance in each lane, and lie in their order.
"""

from __future__ import annotations

from typing import NamedTuple

from ingot.compiler.forms.affine import Affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Constant, Load, Repeated, Value
from ingot.graph.dtype import float32, int32, uint8, uint32

__all__ = ["Codes", "Scheme", "Unpacker", "factor_of"]

WORD = 32  # bits
_FP4_UNITS = 0xC8643210  # the sizes of codes of 4 bits in halves, each in as many bits


class Scheme(NamedTuple):
    """How numbers are quantised."""

    mode: str
    group_size: int
    bits: int

    @property
    def group_words(self) -> int:
        """Words that hold the codes of a group."""
        return self.group_size * self.bits // WORD

    @property
    def is_whole(self) -> bool:
        """Whether a word holds whole codes."""
        return WORD % self.bits == 0


class Codes(NamedTuple):
    """The order in which the codes of a chunk come: `vectors` bundles of `lanes` codes."""

    scheme: Scheme
    lanes: int

    @property
    def vectors(self) -> int:
        """Bundles of a chunk."""
        return WORD // (self.scheme.bits if self.scheme.is_whole else self.lanes)

    @property
    def words(self) -> int:
        """Words of a chunk."""
        return self.lanes if self.scheme.is_whole else self.scheme.bits

    @property
    def strides(self) -> tuple[int, int]:
        """By how many codes two bundles, and two lanes, are apart."""
        return (1, self.vectors) if self.scheme.is_whole else (self.lanes, 1)


class Unpacker:
    """Takes codes out of words, in the body that is open."""

    def __init__(self, builder: NestBuilder, codes: Codes) -> None:
        self.builder = builder
        self.codes = codes
        self.shifts: Buffer | None = None
        self.rows: dict[tuple[int, int, bool], int] = {}  # (vector, word, up) -> row of shifts
        if not codes.scheme.is_whole:
            self._fill_shifts()

    def _fill_shifts(self) -> None:
        """Writes how far the bits of each word are moved in each lane, to the stack."""
        bits, lanes = self.codes.scheme.bits, self.codes.lanes
        table: list[list[int]] = []
        for vector in range(self.codes.vectors):
            starts = [(vector * lanes + lane) * bits for lane in range(lanes)]
            for word in range(bits):
                distances = [start - word * WORD for start in starts]
                down = [d if 0 <= d < WORD else WORD for d in distances]
                up = [-d if -bits < d < 0 else WORD for d in distances]
                for is_up, row in ((False, down), (True, up)):
                    if any(distance < WORD for distance in row):
                        self.rows[vector, word, is_up] = len(table)
                        table.append(row)
        self.shifts = self.builder.stack("shifts", uint32, (len(table), lanes))
        for number, row in enumerate(table):
            for lane, distance in enumerate(row):
                index = (Affine({}, number), Affine({}, lane))
                self.builder.store(Constant(uint32, distance), self.shifts, index)

    def words(self, buffer: Buffer, row: Affine, first: Affine, limit: int | None) -> list[Load]:
        """The words of a chunk, from word `first` of a row on."""
        lanes = self.codes.lanes
        if self.codes.scheme.is_whole:
            if lanes == 1:
                return [self.builder.load(buffer, (row, first))]
            return [self.builder.load_lanes(buffer, (row, first), lanes, limit)]
        return [self.builder.load(buffer, (row, first + n)) for n in range(self.codes.words)]

    def code(self, words: list[Load], vector: int) -> Value:
        """Bundle `vector` of the codes in the words of a chunk, as uint32."""
        bits = self.codes.scheme.bits
        k = self.builder.words
        found: Value | None = None
        if self.codes.scheme.is_whole:
            found = words[0]
            if vector:
                found = k.right_shift(found, self._constant(vector * bits))
            if (vector + 1) * bits == WORD:
                return found  # nothing is above it
        else:
            for (of, word, is_up), number in self.rows.items():
                if of == vector:
                    part = self._moved(words[word], number, is_up)
                    found = part if found is None else k.bitwise_or(found, part)
        assert found is not None
        return k.bitwise_and(found, self._constant((1 << bits) - 1))

    def _moved(self, word: Load, number: int, is_up: bool) -> Value:
        k, lanes = self.builder.words, self.codes.lanes
        assert self.shifts is not None
        by = self.builder.load_lanes(self.shifts, (Affine({}, number), Affine({}, 0)), lanes)
        shift = k.left_shift if is_up else k.right_shift
        found: Value = shift(self.builder.splat(word, lanes), by)
        return found

    def _constant(self, value: int) -> Value:
        return _repeated(value, self.codes.lanes)

    def number(self, code: Value) -> Value:
        """The numbers that codes stand for before they are scaled, in float32."""
        k = self.builder.words
        if self.codes.scheme.mode == "affine":
            return k.cast(k.cast(code, int32), float32)
        if self.codes.scheme.bits == 4:
            return _decoded_fp4(self.builder, code)
        return _decoded_fp8(self.builder, code)


def factor_of(builder: NestBuilder, mode: str, scale: Value) -> Value:
    """The float32 that a scale as memory has it stands for."""
    k, lanes = builder.words, scale.lanes
    if mode == "affine":
        return k.cast(scale, float32)
    assert scale.dtype is uint8
    code = k.cast(scale, uint32)
    if mode == "nvfp4":
        return _decoded_fp8(builder, code)
    # A power of two has its exponent in these bits; the least has none and one of the fraction.
    bits = k.left_shift(code, _repeated(23, lanes))
    least = k.equal(code, _repeated(0, lanes))
    found: Value = k.from_bits(k.select(least, _repeated(0x00400000, lanes), bits))
    return found


def _repeated(value: float, lanes: int, dtype: object = uint32) -> Value:
    number = Constant(dtype, value)  # type: ignore[arg-type]
    return number if lanes == 1 else Repeated(number.dtype, number, lanes)


def _decoded_fp4(builder: NestBuilder, code: Value) -> Value:
    """Codes of a sign, two bits of exponent and one of fraction."""
    k, lanes = builder.words, code.lanes
    place = k.left_shift(k.bitwise_and(code, _repeated(7, lanes)), _repeated(2, lanes))
    units = k.right_shift(_repeated(_FP4_UNITS, lanes), place)
    units = k.bitwise_and(units, _repeated(15, lanes))
    size = k.multiply(k.cast(k.cast(units, int32), float32), _repeated(0.5, lanes, float32))
    return _signed(builder, size, code, 3)


def _decoded_fp8(builder: NestBuilder, code: Value) -> Value:
    """Codes of a sign, four bits of exponent and three of fraction."""
    k, lanes = builder.words, code.lanes
    fraction = k.bitwise_and(code, _repeated(7, lanes))
    exponent = k.bitwise_and(k.right_shift(code, _repeated(3, lanes)), _repeated(15, lanes))
    normal = k.left_shift(k.bitwise_or(fraction, _repeated(8, lanes)), exponent)
    units = k.select(
        k.equal(exponent, _repeated(0, lanes)),
        k.left_shift(fraction, _repeated(1, lanes)),
        normal,
    )
    size = k.multiply(k.cast(k.cast(units, int32), float32), _repeated(1 / 1024, lanes, float32))
    nan = k.equal(k.bitwise_and(code, _repeated(0x7F, lanes)), _repeated(0x7F, lanes))
    size = k.select(nan, _repeated(float("nan"), lanes, float32), size)
    return _signed(builder, size, code, 7)


def _signed(builder: NestBuilder, size: Value, code: Value, sign: int) -> Value:
    """A float32 with the sign that a bit of a code is."""
    k, lanes = builder.words, code.lanes
    top = k.left_shift(k.right_shift(code, _repeated(sign, lanes)), _repeated(31, lanes))
    found: Value = k.from_bits(k.bitwise_xor(k.bits(size), top))
    return found
