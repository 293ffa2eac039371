"""Nests whose parts do not fit together: axes and strides, lanes and bundles, blocks, splits,
masks. Each is built right but for one thing, which the verifier names.
"""

from __future__ import annotations

import pytest
from tests.support.broken_nests import BrokenNests

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import (
    Apply,
    Bundle,
    Checked,
    Chosen,
    Constant,
    CopyBlock,
    Joined,
    Lanes,
    Load,
    Loop,
    Repeated,
    Splat,
    Store,
)
from ingot.compiler.forms.nest.verify import verify
from ingot.graph.dtype import float32, float64, int32, int64

ZERO = Constant(float32, 0)


class Example(NestBuilder):
    """Four rows of eight numbers, the same as columns, and a bundle of four lanes on the stack."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.buffer("x", float32, (4, 8), (32, 4), 0)
        self.columns = self.buffer("columns", float32, (4, 8), (4, 16), 1)
        self.y = self.buffer("y", float32, (4, 8), (32, 4), 2)
        self.bits = self.buffer("bits", int64, (4,), (8,), 3)
        self.lanes = self.stack("lanes", float32, (4,))
        self.tile = self.stack("tile", float32, (4, 4))


CASES = BrokenNests()
broken = CASES.reported_as


def sound(b: Example) -> None:
    """Everything that the others break."""
    with b.parallel((4,)) as (i,):
        row = affine(i)
        first = Load(float32, b.x, (row, affine(0)), 4)
        b.body.append(first)
        splat = Splat(float32, b.load(b.x, (row, affine(7))), 4)
        b.body.append(splat)
        total = b.apply(Apply(float32, "add", (first, splat)))
        b.body.append(Store(b.y, (row, affine(0)), total))
        with b.loop(0, 4, kind="lanes") as lane:
            with b.mask(lane, 2) as mask:
                value = b.load(b.x, (row, affine(lane)))
                mask.results = [Chosen(float32, value, ZERO)]
            b.store(mask.results[0], b.lanes, (affine(lane),))
        half = b.some_lanes(b.bundle(b.lanes), 2, 2)
        b.apply(Apply(float32, "negative", (half,)))
        b.body.append(
            CopyBlock(b.tile, (affine(0), affine(0)), b.columns, (affine(0), affine(4)), (0, 1), 4)
        )
        above, inside = b.split(row, (2, 2))
        b.load(b.x, (affine(above), affine(inside)))
        part = b.checked(b.load(b.bits, (row,)), 4)
        b.joined([part, part], (4, 4))
        with b.apart(b.x, b.y):
            b.load(b.x, (row, affine(1)))


def test_what_is_sound_passes() -> None:
    b = Example()
    sound(b)
    verify(b.nest)


@broken("x has 2 axes and 1 strides")
def axis_without_a_stride(b: Example) -> None:
    b.x.strides = (32,)
    with b.parallel((4,)):
        pass


@broken("each index has a length")
def index_without_a_length(b: Example) -> None:
    with b.parallel((4, 8)):
        pass
    b.nest.parallel[0].lengths = (4,)


@broken("several parallel loops have one index each")
def two_parallel_loops_of_two_axes(b: Example) -> None:
    for _ in range(2):
        with b.parallel((4, 8)):
            pass


@broken("a loop has an end")
def endless_loop(b: Example) -> None:
    with b.parallel((4,)), b.loop(0, 3):
        pass
    (loop,) = b.nest.parallel[0].body
    assert isinstance(loop, Loop)
    loop.ends = ()


@broken("a mask is about an index of a loop around it")
def mask_of_a_finished_loop(b: Example) -> None:
    with b.parallel((4,)):
        with b.loop(0, 4) as lane:
            pass
        with b.mask(lane, 2):
            pass


@broken("both values of a choice have its dtype")
def choice_of_two_dtypes(b: Example) -> None:
    with b.parallel((4,)) as (i,), b.mask(i, 2) as mask:
        value = b.load(b.x, (affine(i), affine(0)))
        mask.results = [Chosen(float32, value, Constant(float64, 0))]


@broken("not proven to be that of an element")
def split_of_too_large_a_number(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.split(affine(i) + 1, (2, 2))


@broken("indices that are joined are inside of their axes")
def joined_along_another_axis(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        part = b.checked(b.load(b.bits, (affine(i),)), 4)
        b.body.append(Joined(int64, (part,), (3,)))


@broken("an index that was checked is an int64")
def checked_float(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        value = b.load(b.x, (affine(i), affine(0)))
        b.load(b.bits, (Checked(int64, value, 4),))


@broken("what may be the same is an argument")
def stack_that_may_be_an_argument(b: Example) -> None:
    with b.parallel((4,)), b.apart(b.x, b.tile):
        pass


@broken("strange is no buffer of the nest")
def bundle_of_a_strange_buffer(b: Example) -> None:
    strange = NestBuilder().stack("strange", float32, (4,))
    with b.parallel((4,)):
        b.body.append(Bundle(float32, strange))


@broken("what is read of lanes has its dtype")
def bundle_with_another_dtype(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Bundle(float64, b.lanes))


@broken("x is a bundle, and not on the stack")
def bundle_of_an_argument(b: Example) -> None:
    with b.parallel((4,)):
        bundle = Bundle(float32, b.lanes)
        bundle.buffer = b.x
        b.body.append(bundle)


@broken("bundles of 4 lanes have no lanes 3..5")
def lanes_past_the_end(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Lanes(float32, (b.bundle(b.lanes),), (3, 4)))


@broken("bundles of 8 lanes have no lanes 0..9")
def lanes_past_the_end_of_two(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Lanes(float32, (b.bundle(b.lanes), b.bundle(b.lanes)), (0, 8)))


@broken("lanes are chosen from one or two bundles of one width, not from \\[4, 2\\] lanes")
def lanes_of_two_widths(b: Example) -> None:
    with b.parallel((4,)):
        bundle = b.bundle(b.lanes)
        b.body.append(Lanes(float32, (bundle, b.some_lanes(bundle, 0, 2)), (0, 4)))


@broken("each element of a splat is in as many lanes")
def splat_of_a_bundle(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Splat(float32, b.bundle(b.lanes), 6))


@broken("the operands of add have equally many lanes")
def lanes_that_do_not_match(b: Example) -> None:
    with b.parallel((4,)):
        b.apply(Apply(float32, "add", (b.bundle(b.lanes), Repeated(float32, ZERO, 8))))


@broken("the lanes of a bundle of columns are not adjacent")
def bundle_along_a_stride(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.body.append(Load(float32, b.columns, (affine(i), affine(0)), 4))


@broken("x is not proven to be inside")
def last_lane_outside(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.body.append(Load(float32, b.x, (affine(i), affine(5)), 4))


@broken("x is not proven to be inside")
def limit_behind_the_end(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.body.append(Load(float32, b.x, (affine(i), affine(6)), 4, affine(9)))


@broken("a transposed block keeps its dtype")
def block_of_another_dtype(b: Example) -> None:
    other = b.stack("other", int32, (4, 4))
    zero = affine(0)
    with b.parallel((1,)):
        b.body.append(CopyBlock(other, (zero, zero), b.columns, (zero, zero), (0, 1), 4))


@broken("a transposed block is written to rows and columns")
def block_to_a_row(b: Example) -> None:
    zero = affine(0)
    with b.parallel((1,)):
        b.body.append(CopyBlock(b.lanes, (zero,), b.columns, (zero, zero), (0, 1), 4))


@broken("tile is not proven to be inside")
def block_that_is_too_large(b: Example) -> None:
    zero = affine(0)
    with b.parallel((1,)):
        b.body.append(CopyBlock(b.tile, (zero + 1, zero), b.columns, (zero, zero), (0, 1), 4))


@pytest.mark.parametrize("name", CASES)
def test_broken_nests_are_rejected(name: str) -> None:
    CASES.check(name, Example())
