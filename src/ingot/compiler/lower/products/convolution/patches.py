"""Patches: the windows of a block, each of them contiguous, for gradients of filters.

Taps along the last axis and channels may fill vectors badly (9 lanes of 16, for 3 taps and 3
channels). All taps and channels of a window in one range leave fewer lanes unused.
"""

from __future__ import annotations

from ingot.compiler.forms.affine import Affine, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.lower.products.convolution.blocks import Block
from ingot.compiler.lower.products.convolution.plain import Plain
from ingot.compiler.lower.products.convolution.windows import Field, TapLoops
from ingot.compiler.lower.products.register_tile import lanes_of
from ingot.tuning import MAX_WINDOW_BYTES
from ingot.tuning_products import MIN_PATCH_PRODUCTS

__all__ = ["fits_patches", "gather_patches", "is_patched"]

MIN_PATCHES = 16  # of a block; with fewer, sums are loaded and stored too often


def is_patched(plain: Plain) -> bool:
    """Whether patches fill so many fewer vectors than rows of windows that copying them pays."""
    lanes, last = lanes_of(plain.dtype), plain.axes[-1]
    run = plain.channels * (last.taps if last.step == 1 else 1)
    vectors = -(-run // lanes) * (plain.depth // run)
    saved = vectors - -(-plain.depth // lanes)
    is_saved = saved * plain.outputs >= MIN_PATCH_PRODUCTS * vectors
    return is_saved and fits_patches(plain, MIN_PATCHES)


def fits_patches(plain: Plain, pixels: int) -> bool:
    """Whether the patches of so many pixels fit on the stack."""
    return pixels * plain.depth * plain.dtype.size <= MAX_WINDOW_BYTES


def gather_patches(
    builder: NestBuilder, plain: Plain, field: Field, block: Block, columns: int
) -> Field:
    """The patches of a block, copied from its windows, of whole tiles of so many columns."""
    axes, channels, lanes = plain.axes, plain.channels, lanes_of(plain.dtype)
    pitch = -(-plain.depth // columns) * columns
    *outer, last = block.blocks.lengths
    copy = builder.stack("patches", plain.dtype, (*outer, last * pitch))
    is_run = axes[-1].step == 1
    outer_axes = axes[:-1] if is_run else axes
    loops = TapLoops(outer_axes)
    run = channels * (axes[-1].taps if is_run else 1)

    def taps_from(pixel: tuple[Affine, ...], taps: tuple[Index, ...]) -> None:
        if len(taps) < len(loops.ranges):
            with builder.loop(*loops.ranges[len(taps)]) as tap:
                taps_from(pixel, (*taps, tap))
            return
        along, row = loops.taps(taps), affine(0)
        for each, axis in zip(along, outer_axes, strict=True):
            row = row * axis.taps + each
        along = [*along, affine(0)][: len(axes)]
        for first in range(0, run, lanes):
            width = min(lanes, run - first)
            source = field.at(pixel, along, affine(first))
            target = (*pixel[:-1], pixel[-1] * pitch + row * run + first)
            if width == 1:
                builder.store(builder.load(field.buffer, source), copy, target)
            else:
                builder.store(builder.load_lanes(field.buffer, source, width), copy, target)

    def pixels_from(pixel: tuple[Affine, ...]) -> None:
        number = len(pixel)
        if number == len(axes):
            taps_from(pixel, ())
            return
        length = block.blocks.lengths[number]
        with builder.loop(0, block.here if number == block.blocks.partial else length) as index:
            pixels_from((*pixel, affine(index)))

    pixels_from(())
    side_by_side = tuple(axis._replace(stride=1) for axis in axes)
    return Field(copy, (affine(0),) * len(axes), side_by_side, pitch, affine(0))
