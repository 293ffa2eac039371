"""Tiles of transposed rows: several rows of an operand whose elements are far apart in memory,
copied to the stack, where each is contiguous, before they are processed one by one.

A cache line of such an operand holds elements of several rows. So a tile has that many rows at
least, and each line is read once. The copy stays in L2: one in memory would be written and read
again, and moves twice the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.size import is_symbolic
from ingot.compiler.lower.domain import Operand
from ingot.compiler.lower.group import GroupBuilder, Memory, Point
from ingot.compiler.lower.tiles import Range, copy_tile, crosses
from ingot.tuning import CACHE_LINE, L1_BYTES, MAX_REGISTER_TILE
from ingot.tuning_vectors import (
    ALIASING_BYTES,
    MAX_ROW_TILE_BYTES,
    MAX_ROW_TILE_LINES,
    MIN_ALIASING_LINES,
    MIN_ROW_TILES,
    MIN_TILED_ROW,
)

__all__ = ["RowTiles", "row_tiles"]


class RowTiles:
    """Operands that are read through tiles of `height` rows along an axis."""

    def __init__(self, operands: list[Operand], axis: int, height: int) -> None:
        self.operands = operands
        self.axis = axis
        self.height = height

    @contextmanager
    def every_row(self, builder: GroupBuilder) -> Iterator[Point]:
        """The loops over the rows: a parallel one over tiles, and one over the rows of each."""
        domain, axis = builder.domain, self.axis
        (last,) = domain.reduced
        length, rows = domain.lengths[last], domain.lengths[axis]
        outer = [each for each in domain.kept if each != axis]
        memories = [
            builder.stack(
                f"rows{number}",
                operand.dtype,
                (self.height, _padded(length, operand.dtype.size)),
                operand.step,
            )
            for number, operand in enumerate(self.operands)
        ]
        shared = (*(domain.lengths[each] for each in outer), Range.count(self.height, rows))
        with builder.parallel(shared, self.height * length) as (*above, tile):
            covered = Range(affine(tile), self.height, rows)
            corner = [affine(0)] * len(domain.lengths)
            for each, index in zip(outer, above, strict=True):
                corner[each] = affine(index)
            corner[axis] = covered.first
            whole = Range(affine(0), length, length)
            for operand, memory in zip(self.operands, memories, strict=True):
                copy_tile(builder, operand, memory, axis, tuple(corner), covered, whole, ahead=1)
                builder.read_of[operand.step] = Memory(memory, (axis, last), tuple(corner))
            with builder.loop(0, *covered.ends, copies=1) as row:
                point = list(corner)
                point[axis] = covered.first + row
                yield tuple(point)


def row_tiles(builder: GroupBuilder) -> RowTiles | None:
    """The operands that rows are best read from through tiles, if there are any."""
    domain = builder.domain
    if is_symbolic(domain.size(range(len(domain.lengths)))) or len(domain.reduced) > 1:
        return None
    (last,) = domain.reduced
    if last != len(domain.lengths) - 1 or domain.lengths[last] < MIN_TILED_ROW or not domain.kept:
        return None
    gathered = {operand.step for operand in builder.gathers.values()}
    found = {
        axis: [
            operand
            for operand in builder.reads
            if all(operand.strides)
            and crosses(operand, axis, last)
            and operand.step.nbytes > L1_BYTES
            and operand.step not in gathered
        ]
        for axis in domain.kept
    }
    axis = max(found, key=lambda each: len(found[each]))
    height = _height(found[axis], domain.lengths[axis], domain.lengths[last])
    return RowTiles(found[axis], axis, height) if found[axis] and height else None


def _height(operands: Sequence[Operand], rows: int, length: int) -> int:
    """The rows of a tile: those of several cache lines, if there is room; 0 if there is none."""
    if not operands:
        return 0
    in_line = CACHE_LINE // min(operand.dtype.size for operand in operands)
    nbytes = in_line * sum(
        operand.dtype.size * _padded(length, operand.dtype.size) for operand in operands
    )
    lines = min(MAX_ROW_TILE_LINES, MAX_ROW_TILE_BYTES // nbytes)
    if lines < max(map(_least_lines, operands)):
        return 0
    while lines > 1 and rows < MIN_ROW_TILES * lines * in_line:
        lines -= 1
    return lines * in_line


def _least_lines(operand: Operand) -> int:
    """The cache lines along the axis on which an operand is contiguous that a tile needs to take
    less time than a copy in memory. Lines at a distance of ALIASING_BYTES replace each other in L1:
    blocks narrower than a line would read each twice.
    """
    if operand.strides[-1] % ALIASING_BYTES:
        return 1
    is_narrow = MAX_REGISTER_TILE * operand.dtype.size < CACHE_LINE
    return MAX_ROW_TILE_LINES + 1 if is_narrow else MIN_ALIASING_LINES


def _padded(length: int, size: int) -> int:
    """The elements from one row of a tile to the next, which are whole vectors, and not a distance
    at which rows share a set of L1.
    """
    nbytes = -(-length * size // CACHE_LINE) * CACHE_LINE
    return (nbytes + CACHE_LINE * (nbytes % ALIASING_BYTES == 0)) // size
