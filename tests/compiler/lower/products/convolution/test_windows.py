"""Loops over the taps of windows."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.affine import Index, affine
from ingot.compiler.lower.products.convolution.plain import Axis
from ingot.compiler.lower.products.convolution.windows import TapLoops


def axes(*taps: int) -> list[Axis]:
    return [Axis(5, count, 0, 1, 1, 5 + count - 1) for count in taps]


@pytest.mark.parametrize(("taps", "ranges"), [((1, 3, 2), [3, 2]), ((1, 1, 4), [4]), ((1, 1), [])])
def test_axes_of_one_tap_have_no_loop(taps: tuple[int, ...], ranges: list[int]) -> None:
    loops = TapLoops(axes(*taps))
    assert loops.ranges == [(0, count) for count in ranges]
    indices = [Index() for _ in range(len(ranges) + 1)]  # and one of channels
    found = [each.key() for each in loops.taps(indices)]
    remaining = iter(indices)
    expected = [affine(next(remaining)) if count > 1 else affine(0) for count in taps]
    assert found == [each.key() for each in expected]


def test_there_may_always_be_a_loop() -> None:
    loops = TapLoops(axes(1, 1), always=True)
    assert loops.ranges == [(0, 1)]
    index = Index()
    assert [each.key() for each in loops.taps([index])] == [affine(0).key(), affine(index).key()]
