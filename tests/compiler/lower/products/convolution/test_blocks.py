"""Blocks of results: they cover all of them, and their windows fit."""

from __future__ import annotations

from math import prod

import pytest

from ingot.compiler.lower.products.convolution.blocks import Blocks, choose_blocks
from ingot.compiler.lower.products.convolution.plain import Axis


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
