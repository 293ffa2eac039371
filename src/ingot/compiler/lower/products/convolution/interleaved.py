"""The windows of several groups with their channels interleaved: the first channels of all of them,
then the second ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from ingot.compiler.forms.affine import Affine, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Buffer, Value
from ingot.compiler.lower.products.convolution.blocks import Block, Point
from ingot.compiler.lower.products.convolution.plain import Plain
from ingot.compiler.lower.products.convolution.windows import Copy, Field
from ingot.compiler.lower.products.register_tile import lanes_of

__all__ = ["interleaved_box_of"]

MIN_BUNDLE = 4  # channels that are copied at a time, if there are so many


def interleaved_box_of(
    builder: NestBuilder,
    plain: Plain,
    source: Buffer,
    block: Block,
    group: Affine,
    together: int,
) -> Field:
    """The windows of a block and of so many groups `together`, of which `group` is the first. What
    is read of groups that do not exist is of no use.
    """
    pitch = plain.channels * together
    *outer, last = block.blocks.extents
    window = builder.stack("window", plain.dtype, (*outer, last * pitch))
    _InterleavedCopy(builder, plain, source, window, block, group, pitch).copy()
    return Field(window, (affine(0),) * len(plain.axes), plain.axes, pitch, affine(0))


class _InterleavedCopy(Copy):
    """Copies a box of several groups of the input, zero-padded."""

    def copy_pixels(
        self, at: Point, from_: Point, begin: Affine, head: Affine, ends: list[Affine]
    ) -> None:
        """Copies pixels head..ends along the last axis, some channels of all groups at a time."""
        builder, channels, groups = self.builder, self.plain.channels, self._groups()
        width = self._width()
        whole = channels - channels % width
        with builder.loop(head, *ends) as index:
            pixel, target = begin + index, affine(index) * self.pitch
            if channels == 1 and self.is_flat and self._is_adjacent():
                self._single_channels(from_, pixel, len(groups), (*at, target))
                return
            for first, end, step in ((0, whole, width), (whole, channels, 1)):
                if first < end:
                    with builder.loop(first, end, step=step) as channel:
                        to = (*at, target + affine(channel) * len(groups))
                        self._channels(from_, pixel, groups, affine(channel), step, to)

    def _single_channels(self, outer: Point, pixel: Affine, together: int, to: Point) -> None:
        """Copies the channels of a pixel, of which each group has one."""
        count = self.plain.groups
        index = self.from_index(outer, pixel, self.group, affine(0))
        limit = (pixel + 1) * count if count % together else None
        self.store(self.builder.load_lanes(self.source, index, together, limit), to)

    def _groups(self) -> list[Affine]:
        together, count = self.pitch // self.plain.channels, self.plain.groups
        groups = [self.group + number for number in range(together)]
        if count % together == 0:
            return groups
        return [affine(self.builder.multiple(0, each, count - 1, by=1)) for each in groups]

    def _is_adjacent(self) -> bool:
        """Whether the channels of a pixel are adjacent in memory."""
        return self.source.strides[-1] == self.source.dtype.size

    def _width(self) -> int:
        """Channels that are copied at a time: those of all groups fill a vector at least."""
        if not self._is_adjacent():
            return 1
        together = self.pitch // self.plain.channels
        return min(self.plain.channels, max(MIN_BUNDLE, lanes_of(self.plain.dtype) // together))

    def _channels(
        self,
        outer: Point,
        pixel: Affine,
        groups: Sequence[Affine],
        channel: Affine,
        width: int,
        to: Point,
    ) -> None:
        """Copies so many channels of a pixel."""
        builder = self.builder
        indices = [self.from_index(outer, pixel, group, channel) for group in groups]
        if width > 1:
            bundles = [builder.load_lanes(self.source, index, width) for index in indices]
            self.store(_interleaved(builder, bundles), to)
            return
        for number, index in enumerate(indices):
            self.store(builder.load(self.source, index), (*to[:-1], to[-1] + number))


def _interleaved(builder: NestBuilder, bundles: Sequence[Value]) -> Value:
    """The lanes of bundles, a power of two of them, in turn."""
    if len(bundles) == 1:
        return bundles[0]
    half = len(bundles) // 2
    pair = _interleaved(builder, bundles[:half]), _interleaved(builder, bundles[half:])
    lanes = pair[0].lanes
    picks = [
        side * lanes + first + number
        for first in range(0, lanes, half)
        for side in (0, 1)
        for number in range(half)
    ]
    return builder.picked_lanes(pair, tuple(picks))
