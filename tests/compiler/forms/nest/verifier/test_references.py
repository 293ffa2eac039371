"""What statements of a nest refer to: values, indices of loops and lengths that are not there are
rejected wherever they are used.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.compiler.forms.nest.verifier.test_structure import Example
from tests.support.broken_nests import BrokenNests

from ingot.compiler.forms.affine import Index, Symbol, affine
from ingot.compiler.forms.nest.data import (
    Apply,
    Carried,
    Checked,
    Chosen,
    Constant,
    Lanes,
    Load,
    Splat,
    Value,
)
from ingot.graph.dtype import float32, int64

ZERO = Constant(float32, 0)
NOT_COMPUTED = "uses a value that is not computed before it"
NOT_AROUND = "uses an index of a loop that is not around it"
NOT_GIVEN = "uses a number that the kernel is not given"

CASES = BrokenNests()
broken = CASES.reported_as


def missing(dtype: Any = float32) -> Value:
    """A value that no statement computes."""
    return Apply(dtype, "negative", (Constant(dtype, 1),))


def unknown_length() -> Any:
    return affine(Symbol("n"))


@broken(f"a parallel loop {NOT_GIVEN}")
def parallel_loop_of_an_unknown_length(b: Example) -> None:
    with b.parallel((unknown_length(),)):
        pass


@broken(f"the start of a carried value {NOT_COMPUTED}")
def start_that_is_missing(b: Example) -> None:
    carried = Carried(float32, missing())
    with b.parallel((4,)) as (i,), b.loop(0, 8, carried=[carried]) as j:
        carried.update = b.apply(
            Apply(float32, "add", (carried, b.load(b.x, (affine(i), affine(j)))))
        )


@broken(f"the update of a carried value {NOT_COMPUTED}")
def update_that_is_missing(b: Example) -> None:
    carried = Carried(float32, ZERO)
    with b.parallel((4,)), b.loop(0, 8, carried=[carried]):
        carried.update = Apply(float32, "negative", (carried,))


@broken(f"a condition {NOT_COMPUTED}")
def condition_about_nothing(b: Example) -> None:
    with b.parallel((4,)), b.when(missing(int64), 0, 4):
        pass


@broken(f"a condition {NOT_AROUND}")
def condition_with_a_strange_bound(b: Example) -> None:
    with b.parallel((4,)) as (i,), b.when(b.load(b.bits, (affine(i),)), 0, affine(Index())):
        pass


@broken(f"a mask {NOT_AROUND}")
def mask_with_a_strange_end(b: Example) -> None:
    with b.parallel((4,)) as (i,), b.mask(i, affine(Index())):
        pass


@broken(f"a choice {NOT_COMPUTED}")
def choice_of_nothing(b: Example) -> None:
    with b.parallel((4,)) as (i,), b.mask(i, 2) as mask:
        mask.results = [Chosen(float32, missing(), ZERO)]


@broken(f"a multiple {NOT_AROUND}")
def multiple_of_a_strange_index(b: Example) -> None:
    strange = affine(Index())
    with b.parallel((4,)):
        b.multiple(strange, strange, by=2)


@broken(f"a split {NOT_AROUND}")
def split_of_a_strange_index(b: Example) -> None:
    with b.parallel((4,)):
        b.split(Index(), (2, 2))


@broken(f"a split {NOT_GIVEN}")
def split_by_an_unknown_length(b: Example) -> None:
    with b.parallel((4,)):
        b.split(0, (2, unknown_length()))


@broken(f"the limit of a bundle of x {NOT_AROUND}")
def strange_limit(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.body.append(Load(float32, b.x, (affine(i), affine(0)), 4, affine(Index())))


@broken(f"a choice of lanes {NOT_COMPUTED}")
def lanes_of_nothing(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Lanes(float32, (missing(),), (0,)))


@broken(f"a splat {NOT_COMPUTED}")
def splat_of_nothing(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Splat(float32, missing(), 4))


@broken(f"a join of indices {NOT_COMPUTED}")
def join_of_nothing(b: Example) -> None:
    part = Checked(int64, missing(int64), affine(4))
    with b.parallel((4,)):
        b.joined([part, part], (4, 4))


@broken(f"what is fetched of x {NOT_AROUND}")
def prefetch_of_a_strange_index(b: Example) -> None:
    with b.parallel((4,)):
        b.prefetch(b.x, (affine(0), affine(Index())))


@broken(f"negative {NOT_COMPUTED}")
def operand_that_is_missing(b: Example) -> None:
    with b.parallel((4,)):
        b.body.append(Apply(float32, "negative", (missing(),)))


@broken(f"what is written to bits {NOT_AROUND}")
def number_of_a_strange_index(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        b.store(b.position(affine(Index()), int64), b.bits, (affine(i),))


@broken(f"the bound of an index {NOT_GIVEN}")
def check_against_an_unknown_length(b: Example) -> None:
    with b.parallel((4,)) as (i,):
        at = Checked(int64, b.load(b.bits, (affine(i),)), unknown_length())
        b.load(b.x, (at, affine(0)))


@pytest.mark.parametrize("name", CASES)
def test_broken_nests_are_rejected(name: str) -> None:
    CASES.check(name, Example())
