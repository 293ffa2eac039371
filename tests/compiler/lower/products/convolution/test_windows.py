"""Loops over the taps of windows, and which of them read inside the input."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compiler.forms.affine import Affine, Extent, Index, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.lower.products.convolution.plain import Axis
from ingot.compiler.lower.products.convolution.windows import (
    TapLoops,
    results_inside,
    taps_inside,
)
from ingot.graph.dtype import int64

# no padding, padding, dilation, stride, windows that are entirely outside, input that ends early
AXES = [
    Axis(7, 3, 0, 1, 1, 9),
    Axis(7, 5, -2, 1, 1, 7),
    Axis(9, 4, -5, 1, 2, 6),
    Axis(5, 3, -1, 3, 1, 13),
    Axis(6, 4, -4, 2, 3, 11),
    Axis(20, 3, -9, 1, 1, 4),
    Axis(4, 1, -1, 1, 1, 2),
    Axis(5, 4, 1, 2, 1, 8),
]


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


def inside(axis: Axis) -> np.ndarray:
    """Whether a tap of the window of a result reads inside the input: (results, taps)."""
    result, tap = np.ogrid[: axis.length, : axis.taps]
    read = axis.first + result * axis.stride + tap * axis.step
    return (read >= 0) & (read < axis.available)


def marked(b: NestBuilder, axis: Axis) -> np.ndarray:
    """What a nest of stores to (results, taps) marks."""
    verify(b.nest)
    found = np.zeros((axis.length, axis.taps), np.int64)
    interpret(b.nest, [found])
    return found != 0


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_taps_of_one_result(axis: Axis) -> None:
    b = NestBuilder()
    found = b.row_major("found", int64, (axis.length, axis.taps), 0, 0)
    with b.parallel((axis.length,)) as (result,):
        at = affine(result)
        with b.loop(*taps_inside(b, axis, at, at)) as tap:
            b.store(Constant(int64, 1), found, (at, affine(tap)))
    np.testing.assert_array_equal(marked(b, axis), inside(axis))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_taps_of_several_results(axis: Axis) -> None:
    """From the first tap that the last result needs to the last one that the first needs."""
    b = NestBuilder()
    found = b.row_major("found", int64, (axis.length, axis.taps), 0, 0)
    with b.parallel((axis.length - 2,)) as (result,):
        first = affine(result)
        with b.loop(*taps_inside(b, axis, first, first + 2)) as tap:
            b.store(Constant(int64, 1), found, (first, affine(tap)))
    needed = inside(axis)
    several = marked(b, axis)
    for number in range(axis.length - 2):
        anywhere = needed[number : number + 3].any(0)
        assert (several[number] | ~anywhere).all()
        if needed[number : number + 3].any(1).all():  # no window is entirely outside
            np.testing.assert_array_equal(several[number], anywhere)


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_results_of_one_tap(axis: Axis) -> None:
    """In blocks of three results, the last of which has fewer."""
    b = NestBuilder()
    found = b.row_major("found", int64, (axis.length, axis.taps), 0, 0)
    with b.parallel((-(-axis.length // 3), axis.taps)) as (block, tap):
        start = affine(block) * 3
        rest = affine(axis.length) - start
        here = affine(b.multiple(1, affine(3), rest, by=1))
        ranges: tuple[Affine | Extent, ...] = results_inside(b, axis, start, affine(tap), here)
        with b.loop(*ranges) as number:
            at = affine(b.multiple(0, affine(number), here - 1, by=1))
            b.store(Constant(int64, 1), found, (start + at, affine(tap)))
    np.testing.assert_array_equal(marked(b, axis), inside(axis))


@pytest.mark.parametrize("axis", AXES, ids=str)
def test_share_of_taps(axis: Axis) -> None:
    assert axis.share_inside == pytest.approx(inside(axis).mean())
