"""Blocks of results: what one iteration of the parallel loop computes of a plain correlation.

A block spans the inner axes completely, covers a range of one axis, and a single element of the
axes outside it. So its results are one flat range of pixels, and their receptive field is one
box of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import NamedTuple

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.lower.products.convolution.plain import Axis

__all__ = ["Block", "Blocks", "Tiling", "choose_blocks"]

Point = tuple[Affine, ...]


class Blocks(NamedTuple):
    """How results are divided: the lengths of a block along each axis; `partial` is the axis that
    is split.
    """

    axes: tuple[Axis, ...]
    lengths: tuple[int, ...]
    partial: int

    @property
    def counts(self) -> tuple[int, ...]:
        """How many blocks there are along each axis."""
        pairs = zip(self.axes, self.lengths, strict=True)
        return tuple(-(-axis.length // length) for axis, length in pairs)

    @property
    def pixels(self) -> int:
        """Results of one block, for each channel."""
        return prod(self.lengths)

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of a block's receptive field in the input."""
        pairs = zip(self.axes, self.lengths, strict=True)
        return tuple(axis.extent(length) for axis, length in pairs)

    def common_axes(self, tiling: Tiling) -> int:
        """The number of axes, the first ones, along which the results of each tile are in order:
        those with a single result in a block, the split one, and all but the last one if the
        results are in one row.
        """
        last = len(self.lengths) - 1
        return last if self.shares_rows(tiling) else min(self.partial + 1, last)

    def shares_rows(self, tiling: Tiling) -> bool:
        """Whether the pixels of each tile are in one row along the last axis."""
        last = len(self.lengths) - 1
        in_rows = tiling.is_in_rows or self.lengths[last] % tiling.rows == 0
        return self.partial == last or in_rows


class Tiling(NamedTuple):
    """How the pixels of a block are divided into tiles of `rows` pixels: as one flat range, or
    within the rows along the last axis, whose pixels share a pointer. Pixels beyond the block are
    its last one; the last tile of a row overlaps the one before.
    """

    rows: int
    is_in_rows: bool


def choose_blocks(
    axes: tuple[Axis, ...],
    wanted: int,
    fits: Callable[[Blocks], bool],
) -> Blocks | None:
    """Blocks of at most `wanted` pixels whose receptive field fits, as equal as possible; None if
    that of one pixel does not fit.
    """
    lengths = [1] * len(axes)
    found = Blocks(axes, tuple(lengths), len(axes) - 1)
    if not fits(found):
        return None
    for number in reversed(range(len(axes))):
        whole = axes[number].length
        inner = prod(lengths)
        length = max(1, min(whole, wanted // inner))
        while length > 1 and not fits(_with_length(found, number, length)):
            length = max(1, length * 7 // 8)
        length = -(-whole // -(-whole // length))  # the same number of blocks, but of equal lengths
        found = _with_length(found, number, length)
        if length < whole:
            break
        lengths[number] = length
    return found


def _with_length(blocks: Blocks, number: int, length: int) -> Blocks:
    lengths = (*blocks.lengths[:number], length, *blocks.lengths[number + 1 :])
    return Blocks(blocks.axes, lengths, number)


class Block:
    """The block of one parallel iteration; `starts` is its first result."""

    def __init__(self, builder: NestBuilder, blocks: Blocks, indices: Sequence[Index]) -> None:
        self.builder = builder
        self.blocks = blocks
        self.starts: Point = tuple(
            affine(index) * length for index, length in zip(indices, blocks.lengths, strict=True)
        )
        axis, length = blocks.axes[blocks.partial], blocks.lengths[blocks.partial]
        self.is_whole = axis.length % length == 0
        self.inner = blocks.pixels // length
        here = affine(length)
        if not self.is_whole:
            rest = affine(axis.length) - self.starts[blocks.partial]
            here = affine(builder.multiple(1, affine(length), rest, by=1))
        self.here = here  # length along the split axis
        self.pixels = here * self.inner

    @contextmanager
    def tiles(self, tiling: Tiling) -> Iterator[list[Point]]:
        """Opens a loop over tiles of pixels, given as indices within the block."""
        blocks, builder, rows = self.blocks, self.builder, tiling.rows
        *outer, last = blocks.lengths[blocks.partial :]
        if outer and blocks.shares_rows(tiling):
            count = -(-last // rows)
            with builder.loop(0, self.here * (self.inner // last * count)) as tile:
                *above, at = self._index(affine(tile), (*outer, count))
                start = at * rows
                if last % rows:
                    start = affine(builder.multiple(0, start, last - rows, by=1))
                yield [(*above, start + number) for number in range(rows)]
            return
        with builder.loop(0, self.pixels, step=rows) as first:
            numbers = [affine(first) + number for number in range(rows)]
            if not self.is_whole or blocks.pixels % rows:
                end = self.pixels - 1
                numbers = [affine(builder.multiple(0, n, end, by=1)) for n in numbers]
            yield [self.pixel(number) for number in numbers]

    def pixel(self, number: Affine) -> Point:
        """The indices within the block of one of its pixels."""
        return self._index(number, self.blocks.lengths[self.blocks.partial :])

    def result(self, pixel: Point) -> Point:
        """The indices among all results of a pixel of the block."""
        return tuple(start + at for start, at in zip(self.starts, pixel, strict=True))

    @property
    def rows(self) -> Affine:
        """The number of rows of pixels along the last axis, if that is not split."""
        last = len(self.blocks.lengths) - 1
        if self.blocks.partial == last:
            return affine(1)
        return self.here * (self.inner // self.blocks.lengths[last])

    def row(self, number: Affine) -> Point:
        """The indices within the block of one of its rows, without the last one."""
        axes = len(self.blocks.lengths) - 1
        return self._index(number, self.blocks.lengths[self.blocks.partial : axes])[:axes]

    def _index(self, number: Affine, lengths: Sequence[int]) -> Point:
        """The indices of a number along the axes of some lengths, the first of which is split."""
        builder = self.builder
        outside = (affine(0),) * self.blocks.partial
        if len(lengths) <= 1:
            return (*outside, *[number][: len(lengths)])
        first, *rest = builder.split(number, lengths)
        at = affine(first)
        if not self.is_whole:  # always true, but the verifier cannot prove it
            at = affine(builder.multiple(0, at, self.here - 1, by=1))
        return (*outside, at, *map(affine, rest))
