"""The verifier of loop nests rejects what is broken, of each kind, and says what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.forms.nest.random_nests import Case, maps, rows
from tests.support.broken_nests import Broken, BrokenNests

from ingot.compiler.forms.affine import Affine, Index, Symbol, affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import (
    Apply,
    Buffer,
    Carried,
    Constant,
    CopyBlock,
    Load,
    Loop,
    Nest,
    Store,
)
from ingot.compiler.forms.nest.traversal import statements
from ingot.compiler.forms.nest.verify import NestError, verify
from ingot.graph.dtype import bool_, float32, float64, int32, int64

SIZE = 10


class Example(NestBuilder):
    """A builder with three rows of ten numbers and somewhere to put results."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.buffer("x", float32, (3, SIZE), (SIZE * 4, 4), 0)
        self.y = self.buffer("y", float32, (3, SIZE), (SIZE * 4, 4), 1)
        self.sums = self.buffer("sums", float32, (3,), (4,), 2)
        self.zero = Constant(float32, 0)


CASES = BrokenNests()
broken = CASES.reported_as


def test_what_is_sound_passes() -> None:
    b = Example()
    with b.parallel((3,)) as (i,):
        total = Carried(float32, b.zero)
        with b.loop(0, SIZE, kind="vector", carried=[total]) as j:
            value = b.load(b.x, (affine(i), affine(j)))
            total.update = b.words.largest(total, value)
        b.store(total, b.sums, (affine(i),))
    verify(b.nest)


def blocks_of_a_split(b: Example, by: int) -> None:
    """Blocks of two elements, which are told apart by the row and the block that a number is."""
    with b.parallel((3,)) as (i,), b.loop(affine(i) * 5, affine(i) * 5 + 5) as number:
        row, block = b.split(number, (3, 5))
        with b.loop(0, 2) as j:
            b.store(b.zero, b.y, (affine(row), affine(block) * by + j))


def masked_lanes(b: Example, below: int) -> None:
    """Lanes behind the first ones are another iteration's."""
    with b.parallel((3,)) as (i,), b.loop(0, 4) as lane, b.mask(lane, below):
        b.store(b.zero, b.y, (affine(0), affine(i) * 3 + lane))


@pytest.mark.parametrize("build", [lambda b: blocks_of_a_split(b, 2), lambda b: masked_lanes(b, 3)])
def test_iterations_that_never_meet_pass(build: Broken) -> None:
    b = Example()
    build(b)
    verify(b.nest)


@broken("two iterations of the parallel loop")
def overlapping_blocks_of_a_split(b: Example) -> None:
    with b.parallel((6,)) as (i,):
        row, block = b.split(i, (2, 3))
        with b.loop(0, 2) as j:
            b.store(b.zero, b.y, (affine(row), affine(block) + j))


@broken("two iterations of the parallel loop")
def lanes_of_another_iteration(b: Example) -> None:
    masked_lanes(b, 4)


@broken("uses a value that is not computed before")
def later_value(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        value = Load(float32, b.x, (affine(i), affine(0)))
        b.store(value, b.sums, (affine(i),))


@broken("uses a value that is not computed before")
def value_of_an_inner_loop(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        with b.loop(0, SIZE) as j:
            value = b.load(b.x, (affine(i), affine(j)))
        b.store(value, b.sums, (affine(i),))


@broken("uses a value that is not computed before")
def value_of_a_condition(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        number = b.words.cast(b.load(b.x, (affine(i), affine(0))), int64)
        with b.when(number, 0, 3):
            value = b.load(b.x, (affine(i), affine(1)))
        b.store(value, b.sums, (affine(i),))


@broken("index of a loop that is not around it")
def index_outside_of_its_loop(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        with b.loop(0, SIZE) as j:
            pass
        b.store(b.load(b.x, (affine(i), affine(j))), b.sums, (affine(i),))


@broken("index of a loop that is not around it")
def bound_of_a_foreign_index(b: Example) -> None:
    with b.parallel((3,)) as (i,), b.loop(0, affine(Index())) as j:
        b.store(b.zero, b.y, (affine(i), affine(j)))


@broken("an index belongs to one loop")
def index_of_two_loops(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.body.append(Loop(i, affine(0), (affine(3),)))


@broken("not given")
def unknown_symbol(b: Example) -> None:
    b.sums.shape = (Symbol("n"),)
    with b.parallel((3,)):
        pass


@broken("the operands of add have equal dtypes")
def operands_of_two_dtypes(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.words.add(b.load(b.x, (affine(i), affine(0))), Constant(float64, 1))


@broken("less gives bool")
def wrong_result(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        value = b.load(b.x, (affine(i), affine(0)))
        b.apply(Apply(float32, "less", (value, value)))


@broken("takes 2 operands, not 1")
def too_few_operands(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.words.add(b.load(b.x, (affine(i), affine(0))))


@broken("no word frobnicate")
def unknown_word(b: Example) -> None:
    with b.parallel((3,)):
        b.apply(Apply(float32, "frobnicate", (b.zero,)))


@broken("select chooses by a bool")
def choice_by_a_number(b: Example) -> None:
    with b.parallel((3,)):
        b.words.select(b.zero, b.zero, b.zero)


@broken("sums holds float32, and float64 is written")
def store_of_another_dtype(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.store(Constant(float64, 1), b.sums, (affine(i),))


@broken("what is read of x has its dtype")
def load_of_another_dtype(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.body.append(Load(float64, b.x, (affine(i), affine(0))))


@broken("never updated")
def carried_and_forgotten(b: Example) -> None:
    with b.parallel((3,)), b.loop(0, SIZE, carried=[Carried(float32, b.zero)]):
        pass


@broken("not combined with what it was")
def carried_and_replaced(b: Example) -> None:
    total = Carried(float32, b.zero)
    with b.parallel((3,)) as (i,), b.loop(0, SIZE, carried=[total]) as j:
        total.update = b.load(b.x, (affine(i), affine(j)))


@broken("keeps its dtype")
def carried_in_another_dtype(b: Example) -> None:
    total = Carried(float32, b.zero)
    with b.parallel((3,)), b.loop(0, SIZE, carried=[total]):
        total.update = b.words.cast(total, float64)


@broken("starts with its dtype")
def carried_from_another_dtype(b: Example) -> None:
    total = Carried(float32, Constant(int32, 0))
    with b.parallel((3,)), b.loop(0, SIZE, carried=[total]):
        total.update = b.words.negative(total)


@broken("combined in any order")
def ordered_sum_in_vectors(b: Example) -> None:
    total = Carried(float32, b.zero)
    with b.parallel((3,)) as (i,), b.loop(0, SIZE, kind="vector", carried=[total]) as j:
        total.update = b.words.add(total, b.load(b.x, (affine(i), affine(j))))


@broken("combined by one word")
def recurrence_in_vectors(b: Example) -> None:
    total = Carried(float32, b.zero)
    with b.parallel((3,)), b.loop(0, SIZE, kind="vector", carried=[total]):
        total.update = b.words.negative(total)


@broken("a vector loop is innermost")
def loop_in_a_vector_loop(b: Example) -> None:
    with b.parallel((3,)), b.loop(0, SIZE, kind="vector"), b.loop(0, 2):
        pass


@broken("two iterations of a vector loop")
def vector_loop_that_hands_on(b: Example) -> None:
    with b.parallel((3,)) as (i,), b.loop(1, SIZE, kind="vector") as j:
        b.store(b.load(b.y, (affine(i), affine(j) - 1)), b.y, (affine(i), affine(j)))


@broken("x is not proven to be inside")
def one_too_far(b: Example) -> None:
    with b.parallel((3,)) as (i,), b.loop(0, SIZE + 1) as j:
        b.load(b.x, (affine(i), affine(j)))


@broken("x is not proven to be inside")
def one_too_early(b: Example) -> None:
    with b.parallel((3,)) as (i,), b.loop(0, SIZE) as j:
        b.load(b.x, (affine(i), affine(j) - 1))


@broken("x is not proven to be inside")
def tile_past_the_end(b: Example) -> None:
    with b.parallel((3, 3)) as (i, t), b.loop(affine(t) * 4, affine(t) * 4 + 4) as j:
        b.load(b.x, (affine(i), affine(j)))


@broken("x is not proven to be inside")
def block_past_the_end(b: Example) -> None:
    tile = b.stack("tile", float32, (4, 16))
    with b.parallel((3,)) as (i,), b.loop(0, SIZE, step=4) as j:
        block = CopyBlock(tile, (affine(0), affine(j)), b.x, (affine(i), affine(j)), (1, 0), 4)
        b.body.append(block)


@broken("z is not proven to be inside")
def another_symbol(b: Example) -> None:
    n, m = b.symbol("n"), b.symbol("m")
    z = b.buffer("z", float32, (n,), (4,), 3)
    with b.parallel((m,)) as (i,):
        b.load(z, (affine(i),))


@broken("x has 2 axes and is indexed by 1")
def too_few_indices(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.load(b.x, (affine(i),))


@broken("computed and unchecked")
def unchecked_index(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        at = b.words.cast(b.load(b.x, (affine(i), affine(0))), int64)
        b.load(b.sums, (at,))


@broken("sums is not proven to be inside")
def index_checked_for_another_axis(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        at = b.words.cast(b.load(b.x, (affine(i), affine(0))), int64)
        b.load(b.sums, (b.checked(at, SIZE),))


@broken("sums is not proven to be inside")
def condition_that_is_too_wide(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        at = b.words.cast(b.load(b.x, (affine(i), affine(0))), int64)
        with b.when(at, 0, 4):
            b.load(b.sums, (at,))


@broken("a condition is about an int64")
def condition_about_a_float(b: Example) -> None:
    with b.parallel((3,)), b.when(b.zero, 0, 4):
        pass


@broken("two iterations of the parallel loop")
def all_write_one_element(b: Example) -> None:
    with b.parallel((3,)):
        b.store(b.zero, b.sums, (affine(1),))


@broken("two iterations of the parallel loop")
def neighbours_overlap(b: Example) -> None:
    with b.parallel((3, 4)) as (i, t), b.loop(affine(t) * 2, affine(t) * 2 + 3) as j:
        b.store(b.zero, b.y, (affine(i), affine(j)))


@broken("two iterations of the parallel loop")
def reads_what_a_neighbour_writes(b: Example) -> None:
    with b.parallel((2,)) as (i,):
        b.store(b.load(b.sums, (affine(i) + 1,)), b.sums, (affine(i),))


@broken("two iterations of the parallel loop")
def scatters_anywhere(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        at = b.words.cast(b.load(b.x, (affine(i), affine(0))), int64)
        b.store(b.zero, b.sums, (b.checked(at, 3),))


@broken("two parallel loops touch")
def two_parallel_loops(b: Example) -> None:
    for _ in range(2):
        with b.parallel((3,)) as (i,):
            b.store(b.zero, b.sums, (affine(i),))


@broken("is on the stack")
def stack_with_gaps(b: Example) -> None:
    b.buffer("gaps", float32, (3,), (8,), None)
    with b.parallel((3,)):
        pass


@broken("no buffer of the nest")
def foreign_buffer(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.load(Buffer("other", float32, (3,), (4,), 0), (affine(i),))


@broken("constant bounds")
def unrolled_without_a_length(b: Example) -> None:
    with b.parallel((3,)) as (i,), b.loop(0, affine(i), kind="unroll"):
        pass


@broken("a loop goes forward")
def backward_loop(b: Example) -> None:
    with b.parallel((3,)), b.loop(0, SIZE, step=-1):
        pass


@broken("a multiple is of no less than 0")
def multiple_of_less_than_nothing(b: Example) -> None:
    with b.parallel((3,)) as (i,):
        b.multiple(0, affine(i) - 1, by=2)


@broken("columns of a block of x are not contiguous")
def block_of_scattered_columns(b: Example) -> None:
    tile = b.stack("tile", float32, (2, 2))
    with b.parallel((1,)) as (i,):
        corner = (affine(i), affine(0))
        b.body.append(CopyBlock(tile, (affine(0), affine(0)), b.x, corner, (0, 1), 2))


@broken("has a parallel loop")
def nothing_at_all(b: Example) -> None:
    pass


@pytest.mark.parametrize("name", CASES)
def test_broken_nests_are_rejected(name: str) -> None:
    CASES.check(name, Example())


# Sound nests, broken in one spot.


def _all(nest: Nest, kind: type) -> list[Any]:
    return [s for region in nest.parallel for s in statements(region.body) if isinstance(s, kind)]


def _shift(nest: Nest, pick: Callable[[list[Any]], Any], by: int) -> None:
    """Moves an access by one along an axis of which it uses all."""
    access = pick([each for kind in (Load, Store) for each in _all(nest, kind) if each.index])
    index = list(access.index)
    axis = pick([axis for axis, at in enumerate(index) if isinstance(at, Affine)] or [0])
    if isinstance(index[axis], Affine):
        index[axis] = index[axis] + by
    else:
        index[axis].bound = affine(index[axis].bound) + 1
    access.index = tuple(index)


def _lengthen(nest: Nest, pick: Callable[[list[Any]], Any], by: int) -> None:
    loop = pick(_all(nest, Loop))
    loop.ends = tuple(end + abs(by) for end in loop.ends)


def _take_out(nest: Nest, pick: Callable[[list[Any]], Any], by: int) -> None:
    """Removes a value that something else needs."""
    loop = pick([loop for loop in _all(nest, Loop) if any(isinstance(s, Store) for s in loop.body)])
    store = next(s for s in loop.body if isinstance(s, Store))
    loop.body.remove(store.value)


def _change_dtype(nest: Nest, pick: Callable[[list[Any]], Any], by: int) -> None:
    pick(_all(nest, Load)).dtype = bool_


BREAKING = (_shift, _lengthen, _take_out, _change_dtype)


# A loop that takes every second element may leave out the last one, and then may be longer.
EVERY_ELEMENT = st.one_of(maps(), rows(steps=(1,)))


@given(EVERY_ELEMENT, st.sampled_from(BREAKING), st.sampled_from((1, -1)), st.data())
def test_random_nests_broken_in_one_spot_are_rejected(
    case: Case, breaking: Any, by: int, data: st.DataObject
) -> None:
    verify(case.nest)
    try:
        breaking(case.nest, lambda found: data.draw(st.sampled_from(found)), by)
    except (IndexError, ValueError):
        return  # nothing of the kind in this nest
    with pytest.raises(NestError):
        verify(case.nest)
