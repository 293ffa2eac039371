"""Tiled maps: maps of which some operand lies in memory in another order than they are walked.

Read one by one, the elements of such an operand come from a cache line each. So the map goes
through its domain in tiles, which it first copies, transposed, to memory of its own that stays in
the nearest cache: square blocks of elements are loaded as vectors in the operand's own order,
turned in registers, and stored in the order in which they are read.
"""

from __future__ import annotations

from ingot.compiler.code import Register
from ingot.compiler.loops import Kernel, Writer
from ingot.compiler.lower import CACHE_LINE, Operand

__all__ = ["crosses", "crossing_axis", "divided", "map_in_tiles", "tile_bounds"]

LONG_ENOUGH = 4  # elements of an axis that are worth a walk along it
ALONG = 64  # elements of a tile along the last axis
ACROSS_BYTES = 256  # bytes of a tile along the axis on which the operand's elements are adjacent
MOST_ACROSS = 128  # elements of the same
WIDEST = 8  # bytes of an element
VECTOR_BYTES = 64
MOST_TURNED = 16  # elements of the side of a block that is turned in registers


def crossing_axis(writer: Writer) -> int | None:
    """The axis, other than the last, along which some operand's elements are closest together
    while they are far apart along the last one; the longest such axis.
    """
    inner = len(writer.domain.lengths) - 1
    lengths = writer.domain.lengths
    found = [
        axis
        for operand in (*writer.reads, *writer.writes)
        for axis in range(inner)
        if crosses(operand, axis, inner) and lengths[axis] >= LONG_ENOUGH
    ]
    return max(found, key=lambda axis: lengths[axis], default=None)


def crosses(operand: Operand, axis: int, inner: int) -> bool:
    """Whether an operand's elements are close together along an axis, but not along the last."""
    return abs(operand.strides[inner]) >= CACHE_LINE > abs(operand.strides[axis]) > 0


def divided(writer: Writer, index: Register, count: int) -> tuple[Register, Register]:
    """A position split into a whole part and a rest."""
    if count == 1:
        return index, writer.i64(0)
    divisor = writer.i64(count)
    return writer.code.binary("udiv", index, divisor), writer.code.binary("urem", index, divisor)


def tile_bounds(
    writer: Writer, tile: Register, size: int, length: int
) -> tuple[Register, Register]:
    """Where a tile of an axis begins and ends."""
    if length <= size:
        return writer.i64(0), writer.i64(length)
    first = writer.code.binary("mul nsw", tile, writer.i64(size))
    past = writer.code.binary("add nsw", first, writer.i64(size))
    return first, writer.code.intrinsic("smin", past, writer.i64(length))


def map_in_tiles(writer: Writer, crossing: int) -> Kernel:
    """A map whose operands that lie along the axis `crossing` are read by way of tiles."""
    domain, code = writer.domain, writer.code
    pointers, begin, end = writer.begin()
    inner = len(domain.lengths) - 1
    outer = [axis for axis in range(inner) if axis != crossing]
    turned = [
        operand
        for operand in writer.reads
        if writer.is_at_one_place and crosses(operand, crossing, inner)
    ]
    widest = max((operand.dtype.size for operand in turned), default=WIDEST)
    height = min(MOST_ACROSS, ACROSS_BYTES // widest)
    across, along = -(-domain.lengths[crossing] // height), -(-domain.lengths[inner] // ALONG)
    tiles = [_tile_of(writer, operand, crossing, height) for operand in turned]
    with code.loop(begin, end) as parts:
        above, tile = divided(writer, parts.index, along)
        row, band = divided(writer, above, across)
        low, high = tile_bounds(writer, band, height, domain.lengths[crossing])
        left, right = tile_bounds(writer, tile, ALONG, domain.lengths[inner])
        here = writer.moved(writer.placed(pointers, row, outer), low, crossing)
        here = writer.moved(here, left, inner)
        rows, columns = (_distance(writer, *bounds) for bounds in ((low, high), (left, right)))
        for operand, (memory, copy) in zip(turned, tiles, strict=True):
            _Turning(writer, operand, copy, crossing).copy(here.pop(operand), memory, rows, columns)
            here[copy] = memory
            writer.read_of[operand.step] = copy
        with code.loop(writer.i64(0), rows) as each:
            at_row = writer.moved(here, each.index, crossing)
            with code.loop(writer.i64(0), columns) as loop:
                writer.map_element(writer.moved(at_row, loop.index, inner))
    work = min(domain.lengths[crossing], height) * min(domain.lengths[inner], ALONG)
    return writer.finish(domain.size(outer) * across * along, writer.grain(work))


def _distance(writer: Writer, begin: Register, end: Register) -> Register:
    if begin.name.isdigit() and end.name.isdigit():
        return writer.i64(int(end.name) - int(begin.name))
    return writer.code.binary("sub nsw", end, begin)


def _tile_of(
    writer: Writer, operand: Operand, crossing: int, height: int
) -> tuple[Register, Operand]:
    """Memory for a tile of an operand, and the operand as it lies in there."""
    size, inner = operand.dtype.size, len(operand.strides) - 1
    name = writer.code.fresh("tile")
    writer.code.do(f"{name} = alloca [{height * ALONG * size} x i8], align {VECTOR_BYTES}")
    strides = tuple(
        size if axis == inner else ALONG * size if axis == crossing else 0
        for axis in range(inner + 1)
    )
    return Register(name, "ptr"), Operand(operand.step, operand.argument, operand.dtype, strides)


class _Turning:
    """Copies tiles of an operand into memory in which rows lie one after the other."""

    def __init__(self, writer: Writer, operand: Operand, copy: Operand, crossing: int) -> None:
        self.writer = writer
        self.code = writer.code
        self.size = operand.dtype.size
        self.type = f"i{8 * self.size}"
        self.down, self.right = operand.strides[crossing], operand.strides[-1]
        self.row = copy.strides[crossing]
        self.side = min(MOST_TURNED, VECTOR_BYTES // self.size)

    def copy(self, source: Register, target: Register, rows: Register, columns: Register) -> None:
        """Copies so many rows and columns: in blocks, and what remains one by one."""
        code, zero = self.code, self.writer.i64(0)
        is_parallel, code.parallel = code.parallel, False  # all tiles are copied to the same memory
        if abs(self.down) == self.size:
            whole_rows, whole_columns = self._whole(rows), self._whole(columns)
            with (
                code.loop(zero, whole_columns, step=self.side) as column,
                code.loop(zero, whole_rows, step=self.side) as row,
            ):
                self._block(source, target, row.index, column.index)
            self._one_by_one(source, target, (whole_rows, rows), (zero, whole_columns))
            self._one_by_one(source, target, (zero, rows), (whole_columns, columns))
        else:
            self._one_by_one(source, target, (zero, rows), (zero, columns))
        code.parallel = is_parallel

    def _whole(self, count: Register) -> Register:
        """How many of so many elements are in whole blocks."""
        return self.code.binary("and", count, self.writer.i64(-self.side))

    def _one_by_one(
        self,
        source: Register,
        target: Register,
        rows: tuple[Register, Register],
        columns: tuple[Register, Register],
    ) -> None:
        code = self.code
        with code.loop(*columns) as column, code.loop(*rows) as row:
            code.lanes = 1  # no vectors: gathering and scattering their elements takes longer
            address = self._address(source, row.index, self.down, column.index, self.right)
            value = code.load(self.type, address, ", align 1")
            place = self._address(target, row.index, self.row, column.index, self.size)
            code.store(value, place)
            self._note(value, address, place)

    def _address(
        self, base: Register, row: Register, down: int, column: Register, right: int
    ) -> Register:
        code, i64 = self.code, self.writer.i64
        at_column = code.offset(base, code.binary("mul nsw", column, i64(right)))
        return code.offset(at_column, code.binary("mul nsw", row, i64(down)))

    def _block(self, source: Register, target: Register, row: Register, column: Register) -> None:
        """Turns the block that begins at a row and column. A vector holds one column of it."""
        code, i64, side = self.code, self.writer.i64, self.side
        type = f"<{side} x {self.type}>"
        # the vector begins where the addresses are lowest
        first = row if self.down > 0 else code.binary("add nsw", row, i64(side - 1))
        vectors = []
        for number in range(side):
            place = code.binary("add nsw", column, i64(number))
            address = self._address(source, first, self.down, place, self.right)
            vectors.append(code.load(type, address, ", align 1"))
            if number == 0:
                noted = address
        for number, vector in enumerate(self._turned(vectors)):
            distance = number if self.down > 0 else side - 1 - number
            at_row = code.binary("add nsw", row, i64(distance))
            place = self._address(target, at_row, self.row, column, self.size)
            code.store(vector, place, f", align {side * self.size}")
            if number == 0:
                self._note(vectors[0], noted, place)

    def _turned(self, vectors: list[Register]) -> list[Register]:
        """The rows of a square whose columns are given: halves of halves change places."""
        distance = self.side // 2
        while distance:
            for number in range(self.side):
                if not number & distance:
                    pair = vectors[number], vectors[number + distance]
                    vectors[number] = self._shuffled(pair, distance, 0)
                    vectors[number + distance] = self._shuffled(pair, distance, distance)
            distance //= 2
        return vectors

    def _shuffled(self, pair: tuple[Register, Register], distance: int, shift: int) -> Register:
        """Runs of `distance` elements of two vectors by turns, from the element `shift` on."""
        places = [
            self.side + lane - distance + shift if lane & distance else lane + shift
            for lane in range(self.side)
        ]
        first, second = pair
        mask = ", ".join(f"i32 {place}" for place in places)
        return self.code.assign(
            first.type, f"shufflevector {first}, {second}, <{self.side} x i32> <{mask}>"
        )

    def _note(self, value: Register, address: Register, place: Register) -> None:
        self.code.notes.append(("load", value.name, address.name))
        self.code.notes.append(("store", value.name, place.name))
