"""Tiled maps, for operands whose smallest stride is along another axis than the last.

Read in the order of the output, every element of such an operand would come from another cache
line. So the map processes its domain in tiles, and first copies each tile, transposed, to a stack
buffer that stays in L1: square blocks are loaded as vectors in the operand's order, transposed in
registers, and stored in the order in which they are read.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Extent, affine
from ingot.compiler.forms.nest.data import Buffer, CopyBlock
from ingot.compiler.forms.size import is_symbolic, smallest
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Memory, Point
from ingot.compiler.lower.map_builder import MapBuilder
from ingot.runtime.processor import cache_sizes
from ingot.tuning import (
    CACHE_LINE,
    MAX_REGISTER_TILE,
    MAX_TRANSPOSE_TILE_HEIGHT,
    MIN_TRANSPOSED_AXIS,
    TRANSPOSE_TILE_HEIGHT_BYTES,
    TRANSPOSE_TILE_WIDTH,
)
from ingot.tuning_vectors import CACHE_PER_FAR_OPERANDS, FAR_TRANSPOSE_TILE_WIDTH

__all__ = ["Range", "copy_tile", "crosses", "crossing_axis", "map_in_tiles"]

WIDEST = 8  # bytes of an element
VECTOR_BYTES = 64


def crossing_axis(builder: GroupBuilder) -> int | None:
    """The longest axis, other than the last, along which some operand's stride is small while its
    stride along the last is large.
    """
    lengths = builder.domain.lengths
    inner = len(lengths) - 1
    found = [
        axis
        for operand in (*builder.reads, *builder.writes)
        for axis in range(inner)
        if crosses(operand, axis, inner) and lengths[axis] >= MIN_TRANSPOSED_AXIS
    ]
    return max(found, key=lambda axis: lengths[axis], default=None)


def crosses(operand: Operand, axis: int, inner: int) -> bool:
    """Whether an operand's stride is small along an axis, but not along the last."""
    return abs(operand.strides[inner]) >= CACHE_LINE > abs(operand.strides[axis]) > 0


class Range:
    """The range of an axis that a tile covers: its start, and its length, the minimum of `ends`."""

    def __init__(self, tile: Affine, size: int, length: int) -> None:
        self.first = tile * size if length > size else affine(0)
        self.ends: tuple[Extent, ...] = (length,)
        if length > size:
            self.ends = (size, affine(length) - self.first)

    @staticmethod
    def count(size: int, length: int) -> int:
        """The number of tiles along an axis."""
        return -(-length // size) if length > size else 1

    def whole(self, builder: GroupBuilder, side: int) -> Extent:
        """The number of its elements that are in whole blocks."""
        if len(self.ends) == 1 and type(self.ends[0]) is int:
            return self.ends[0] - self.ends[0] % side
        return affine(builder.multiple(0, *self.ends, by=side))


def map_in_tiles(builder: MapBuilder, crossing: int) -> None:
    """Builds a map that reads the operands with small strides along `crossing` through tiles."""
    lengths = builder.lengths
    inner = len(lengths) - 1
    outer = [axis for axis in range(inner) if axis != crossing]
    copied = [
        operand
        for operand in builder.reads
        if not builder.paired and crosses(operand, crossing, inner)
    ]
    widest = max((operand.dtype.size for operand in copied), default=WIDEST)
    height = min(MAX_TRANSPOSE_TILE_HEIGHT, TRANSPOSE_TILE_HEIGHT_BYTES // widest)
    is_far = _is_far(builder, height * sum(operand.dtype.size for operand in copied))
    width = FAR_TRANSPOSE_TILE_WIDTH if is_far else TRANSPOSE_TILE_WIDTH
    across = Range.count(height, lengths[crossing])
    along = Range.count(width, lengths[inner])
    work = smallest((lengths[crossing], height)) * smallest((lengths[inner], width))
    tiles = [
        builder.stack(f"tile{number}", operand.dtype, (height, width), operand.step)
        for number, operand in enumerate(copied)
    ]
    outer_lengths = [lengths[axis] for axis in outer]
    with builder.parallel((*outer_lengths, across, along), work) as (*above, band, tile):
        rows = Range(affine(band), height, lengths[crossing])
        columns = Range(affine(tile), width, lengths[inner])
        corner = [affine(0)] * (inner + 1)
        for axis, index in zip(outer, above, strict=True):
            corner[axis] = affine(index)
        corner[crossing], corner[inner] = rows.first, columns.first
        for operand, memory in zip(copied, tiles, strict=True):
            copy_tile(builder, operand, memory, crossing, tuple(corner), rows, columns)
            builder.read_of[operand.step] = Memory(memory, (crossing, inner), tuple(corner))
        lanes = builder.lanes(inner, [operand.step for operand in copied])
        with builder.loop(0, *rows.ends) as row:
            corner[crossing] = rows.first + row
            if is_far:
                _prefetch_results(builder, tuple(corner), width)
            with builder.loop(0, *columns.ends, kind="vector", lanes=lanes) as column:
                builder.map_element((*corner[:inner], columns.first + column))


def _is_far(builder: GroupBuilder, column_bytes: int) -> bool:
    """Whether operands come from memory rather than from caches, and a wide tile, with columns of
    so many bytes, leaves room in L1.
    """
    if any(map(is_symbolic, builder.domain.lengths)):
        return False
    near, last = cache_sizes()
    size = builder.domain.size(range(len(builder.domain.lengths)))
    total = size * sum(x.dtype.size for x in (*builder.reads, *builder.writes))
    has_room = 3 * FAR_TRANSPOSE_TILE_WIDTH * column_bytes <= 2 * near
    return has_room and CACHE_PER_FAR_OPERANDS * total > last


def _prefetch_results(builder: GroupBuilder, point: Point, width: int) -> None:
    """Prefetches the lines of a row's results in the next tile, which `point` begins in this."""
    *outer, first = point
    for operand in builder.writes:
        memory = builder.write_of[operand.step]
        if operand.strides[-1] == operand.dtype.size:
            for at in range(width, 2 * width, CACHE_LINE // operand.dtype.size):
                index = memory.index((*outer, first + at))
                builder.prefetch(memory.buffer, [x for x in index if isinstance(x, Affine)])


def copy_tile(
    builder: GroupBuilder,
    operand: Operand,
    tile: Buffer,
    crossing: int,
    corner: Point,
    rows: Range,
    columns: Range,
    ahead: int = 0,
) -> None:
    """Copies a tile of an operand: whole blocks, then the remaining elements one by one. Unless
    `ahead` is 0, the block so many blocks further along the last axis is prefetched.
    """
    source = builder.read_of[operand.step]
    size = operand.dtype.size
    side = min(MAX_REGISTER_TILE, VECTOR_BYTES // size)
    inner = len(corner) - 1
    axes = (source.axes.index(crossing), source.axes.index(inner))

    def copy(
        row_range: tuple[Extent, ...], column_range: tuple[Extent, ...], side: int = 1
    ) -> None:
        with (
            builder.loop(*column_range, step=side, copies=1) as column,
            # no vectors: gathering and scattering their elements would be slower
            builder.loop(*row_range, step=side, lanes=int(side == 1), copies=1) as row,
        ):
            point = list(corner)
            point[crossing], point[inner] = rows.first + row, columns.first + column
            index = source.index(tuple(point))
            target = (affine(row), affine(column))
            for number in range(side if ahead and side > 1 else 0):
                point[inner] = columns.first + column + (ahead * side + number)
                later = [at for at in source.index(tuple(point)) if isinstance(at, Affine)]
                builder.prefetch(source.buffer, later)
            builder.body.append(CopyBlock(tile, target, source.buffer, index, axes, side))

    if abs(operand.strides[crossing]) != size:
        copy((0, *rows.ends), (0, *columns.ends))
        return
    whole_rows, whole_columns = rows.whole(builder, side), columns.whole(builder, side)
    copy((0, whole_rows), (0, whole_columns), side)
    copy((whole_rows, *rows.ends), (0, whole_columns))
    copy((0, *rows.ends), (whole_columns, *columns.ends))
