"""Blocks of results: they cover all of them, and their windows fit."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Split
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.lower.products.convolution.blocks import Block, Blocks, Tiling, choose_blocks
from ingot.compiler.lower.products.convolution.plain import Axis
from ingot.graph.dtype import int64


def axis(length: int, taps: int = 3, stride: int = 1) -> Axis:
    return Axis(length, taps, 0, stride, 1, (length - 1) * stride + taps)


@pytest.mark.parametrize("lengths", [(1, 7, 9), (2, 56, 56), (4, 1, 1), (1, 13, 200)])
@pytest.mark.parametrize("wanted", [1, 5, 64, 10_000])
def test_blocks_cover_the_results(lengths: tuple[int, ...], wanted: int) -> None:
    axes = (axis(lengths[0], 1), *map(axis, lengths[1:]))
    found = choose_blocks(axes, wanted, lambda blocks: True)
    assert found is not None
    assert found.pixels <= wanted
    for each, length, count in zip(axes, found.lengths, found.counts, strict=True):
        assert (count - 1) * length < each.length <= count * length
    # only one axis is cut: inner ones are whole, and outer ones are taken one by one
    assert found.lengths[found.partial + 1 :] == lengths[found.partial + 1 :]
    assert found.lengths[: found.partial] == (1,) * found.partial


def test_windows_of_blocks_fit() -> None:
    axes = (axis(1, 1), axis(50, stride=2), axis(60))
    limit = 600

    def fits(blocks: Blocks) -> bool:
        return prod(blocks.extents) <= limit

    found = choose_blocks(axes, 10_000, fits)
    assert found is not None
    assert fits(found)
    assert found.extents == tuple(
        (n - 1) * each.stride + each.taps for n, each in zip(found.lengths, axes, strict=True)
    )
    assert choose_blocks(axes, 10_000, lambda blocks: False) is None


@pytest.mark.parametrize(
    ("lengths", "wanted", "tiling", "splits", "common"),
    [
        ((2, 6, 8), 24, Tiling(4, False), 1, 2),  # two tiles in a row of pixels: one split for both
        ((2, 5, 8), 16, Tiling(8, False), 1, 2),  # the last block is shorter
        ((3, 4, 6), 1000, Tiling(3, False), 1, 2),
        ((3, 4, 6), 1000, Tiling(5, False), 5, 1),  # tiles that span images
        ((2, 6, 8), 24, Tiling(5, False), 5, 2),  # tiles that span rows
        ((2, 6, 8), 24, Tiling(5, True), 1, 2),  # tiles that overlap
        ((3, 5, 7), 14, Tiling(6, True), 1, 2),
        ((1, 1, 20), 7, Tiling(3, False), 0, 2),  # blocks of one row
    ],
)
def test_tiles_cover_the_pixels(
    lengths: tuple[int, ...], wanted: int, tiling: Tiling, splits: int, common: int
) -> None:
    axes = (axis(lengths[0], 1), *map(axis, lengths[1:]))
    blocks = choose_blocks(axes, wanted, lambda blocks: True)
    assert blocks is not None
    assert blocks.common_axes(tiling) == common
    b = NestBuilder()
    strides = (8 * lengths[1] * lengths[2], 8 * lengths[2], 8)
    results = b.buffer("results", int64, lengths, strides, 0)
    with b.parallel(blocks.counts) as points:
        block = Block(b, blocks, points)
        with block.tiles(tiling) as pixels:
            assert len(pixels) == tiling.rows
            for pixel in pixels:
                number = affine(pixel[0]) * 0
                for at, length in zip(block.result(pixel), lengths, strict=True):
                    number = number * length + at
                b.store(b.position(number, int64), results, block.result(pixel))
    verify(b.nest)
    found = np.full(lengths, -1)
    interpret(b.nest, [found])
    np.testing.assert_array_equal(found, np.arange(prod(lengths)).reshape(lengths))
    (region,) = b.nest.parallel
    assert sum(isinstance(each, Split) for each in statements(region.body)) == splits
