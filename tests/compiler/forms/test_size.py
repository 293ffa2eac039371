"""Symbolic sizes: whatever is computed and found out with them for one example holds for every
other that meets the conditions, which Python's own ints say.
"""

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingot.compiler.forms.size import Size, hint_of, largest, smallest
from ingot.compiler.forms.size_code import DeferredCall, DimensionValue, compiled, evaluated
from ingot.compiler.forms.sizes import Sizes

COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "max": lambda a, b: largest((a, b)),
    "min": lambda a, b: smallest((a, b)),
}

operands = st.one_of(st.integers(0, 8), st.integers(-70, 70).map(str))  # of the pool; constants
operations = st.lists(
    st.tuples(st.sampled_from([*ARITHMETIC, *COMPARISONS]), operands, operands),
    min_size=1,
    max_size=12,
)


def run(program: list[tuple[str, Any, Any]], lengths: list[Any]) -> tuple[list[Any], list[bool]]:
    """The numbers and the outcomes of comparisons of a program."""
    pool, outcomes = list(lengths), []
    for name, *places in program:
        a, b = (int(p) if isinstance(p, str) else pool[p % len(pool)] for p in places)
        if name in COMPARISONS:
            outcomes.append(bool(COMPARISONS[name](a, b)))
        elif name in ("//", "%") and hint_of(b) == 0:
            outcomes.append(bool(b == 0))
        elif name != "*" or abs(hint_of(a) * hint_of(b)) < 1 << 40:
            pool.append(ARITHMETIC[name](a, b))
    return pool, outcomes


def symbolic(lengths: list[int]) -> tuple[Sizes, list[Any]]:
    """Sizes of dimensions that have at least two elements, or a number, as programs have them."""
    sizes = Sizes()
    found = []
    for number, length in enumerate(lengths):
        size = sizes.dimension(number, length)
        if length >= 2:
            sizes.is_not_negative(size - 2)
        elif length >= 0 and not sizes.is_zero(size - length):
            raise AssertionError
        found.append(size)
    return sizes, found


@given(operations, st.lists(st.integers(0, 70), min_size=1, max_size=3), st.data())
def test_what_holds_for_the_hint_holds_for_all_that_meet_the_conditions(
    program: list[tuple[str, Any, Any]], hint: list[int], data: st.DataObject
) -> None:
    sizes, lengths = symbolic(hint)
    pool, outcomes = run(program, lengths)
    expected = run(program, hint)
    assert [hint_of(x) for x in pool] == expected[0]
    assert outcomes == expected[1]
    make = compiled(sizes, tuple(pool))
    assert make(hint) == tuple(expected[0])  # which meets its own conditions
    for _ in range(8):
        other = [data.draw(st.one_of(st.just(n), st.integers(0, 100))) for n in hint]
        found = make(other)
        if found is not None:
            numbers, same = run(program, other)
            assert found == tuple(numbers)
            assert outcomes == same


@given(operations, st.lists(st.integers(2, 70), min_size=1, max_size=3))
def test_lower_bounds_are_no_more_than_the_numbers(
    program: list[tuple[str, Any, Any]], hint: list[int]
) -> None:
    sizes, lengths = symbolic(hint)
    for x in run(program, lengths)[0]:
        least = sizes.least(x)
        assert least is None or least <= hint_of(x)
        assert not sizes.proves(x) or hint_of(x) >= 0


def two() -> tuple[Sizes, Any, Any]:
    sizes, (a, b) = symbolic([12, 20])
    return sizes, a, b


def conditions(sizes: Sizes) -> int:
    return sum(known.is_condition for known in sizes.ranges.values())


@pytest.mark.parametrize(
    "outcome",
    [
        lambda a, b: a * b * 4 == b * (4 * a),
        lambda a, b: a != 1 and a * b != a,
        lambda a, b: 4 * a >= 4 and a * b > a and a * b > b,
        lambda a, b: (a * b) // b == a and (a * b) % a == 0,
        lambda a, b: -(-a // 64) * 64 >= a,
        lambda a, b: (a // 32) * 32 <= a,
        lambda a, b: a - (a // 32) * 32 < 32,
        lambda a, b: a + b - b == a and (a + 1) * (a - 1) == a * a - 1,
        lambda a, b: hash(a * b) == hash(b * a),
        lambda a, b: {(a, b): 1}.get((a, b)) == 1,
        lambda a, b: (a, b) != (a + 1, b),
    ],
)
def test_what_holds_for_all_lengths_is_no_condition(outcome: Any) -> None:
    sizes, a, b = two()
    before = conditions(sizes)
    assert outcome(a, b)
    assert conditions(sizes) == before


def test_comparisons_of_one_size_are_one_range() -> None:
    sizes, a, _ = two()
    assert a <= 512
    assert a < 100
    assert 2 * a >= 11
    assert a != 50
    make = compiled(sizes, (a,))
    allowed = [n for n in range(600) if make([n, 5]) is not None]
    assert allowed == [n for n in range(6, 100) if n != 50]
    assert conditions(sizes) == 2


def test_a_size_that_must_be_a_number_names_what_needed_it() -> None:
    sizes, a, _ = two()
    assert list(range(a)) == list(range(12))
    (known,) = [x for x in sizes.ranges.values() if x.why]
    assert known.low == known.high == 12
    assert (
        known.why
        == f"{test_a_size_that_must_be_a_number_names_what_needed_it.__name__} in {__name__}"
    )
    assert compiled(sizes, ())([13, 5]) is None


def test_sizes_pass_for_ints() -> None:
    _, a, b = two()
    assert isinstance(a, int)
    assert str(a * b * 4 + 1) == "4*s0*s1 + 1"
    assert type(a - a) is int
    assert a - a == 0
    assert type(a * 0) is int
    assert a.hint == 12
    assert (a.__add__(1.5), a.__lt__("x")) == (NotImplemented, NotImplemented)


def test_structures_are_made_for_each_shape() -> None:
    sizes, a, b = two()
    structure = (
        a,
        [1, (a * b, "x")],
        DeferredCall(divmod, (a * b, 7)),
        DimensionValue(1),
        DeferredCall(str, (5,)),
    )
    make = compiled(sizes, structure)
    assert make([3, 4]) == (3, [1, (12, "x")], (1, 5), 4, "5")
    assert make([1, 4]) is None
    assert evaluated((1, DeferredCall(divmod, (9, 4)), [DeferredCall(str, (2,))])) == (
        1,
        (2, 1),
        ["2"],
    )


def test_dimensions_may_have_to_be_values() -> None:
    sizes = Sizes()
    sizes.numbers[2] = 0.5
    make = compiled(sizes, "made")
    assert make([1, 2, 0.5]) == "made"
    assert make([1, 2, 0.25]) is None


def test_remainders_and_quotients_keep_what_was_found_of_them() -> None:
    sizes, a, _ = two()
    assert a % 8 == 4
    assert a // 5 == 2
    assert (a % 8, a // 5) == (a % 8, a // 5)
    make = compiled(sizes, ())
    assert [n for n in range(40) if make([n, 5]) is not None] == [12]


def test_other_hints_leave_what_is_known() -> None:
    sizes, a, b = two()
    size = a * b // 3 + largest((a, b))
    assert a <= 40
    others = sizes.with_hints([30, 9])
    moved = sizes.moved(size, others, [30, 9])
    assert moved.hint == 30 * 9 // 3 + 30
    a, b = (sizes.moved(x, others, [30, 9]) for x in (a, b))
    assert a > b  # which is the other way round for the first ones
    assert compiled(others, moved)([12, 20]) is None
    assert compiled(others, moved)([13, 7]) == 13 * 7 // 3 + 13
    assert compiled(others, moved)([50, 7]) is None
    assert compiled(sizes, size)([12, 20]) == 12 * 20 // 3 + 20


def test_a_size_of_zero_divides_nothing() -> None:
    sizes, (a, b) = symbolic([0, 4])
    with pytest.raises(ZeroDivisionError):
        b // a
    assert type(a) is Size
    sizes, (a, b) = symbolic([3, 4])
    a = a - 2
    assert hint_of(b // a) == 4
    assert compiled(sizes, b // a)([2, 4]) is None  # where it would divide by zero
