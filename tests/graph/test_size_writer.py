"""Size code computes what Python's operators compute, or says that it cannot."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingot.graph.dimension import _ARITHMETIC, _COMPARISONS, _FUNCTIONS
from ingot.graph.size_writer import SizeWriter

NUMBERS = st.one_of(
    st.integers(-5, 70),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(-100, 100),
    st.sampled_from([0, 0.5, -0.5, 1.5, 2.5, -0.0, 2**53 + 1, 1e300]),
)


def kinds(*values: Any) -> str:
    return "".join("f" if type(value) is float else "i" for value in values)


def computed(function: Callable[..., Any], *values: Any) -> Any:
    """What Python computes; None where it raises."""
    try:
        found = function(*values)
    except (ArithmeticError, ValueError, TypeError, MemoryError):
        return None
    return None if type(found) is complex else found


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(_ARITHMETIC)), NUMBERS, NUMBERS)
def test_operators(name: str, a: Any, b: Any) -> None:
    if name in ("pow", "lshift") and abs(b) > 200:
        return
    expected = computed(_ARITHMETIC[name][1], a, b)
    if name in ("lshift", "rshift", "and", "or", "xor") and float in (type(a), type(b)):
        return
    writer = SizeWriter(kinds(a, b))
    is_power = name == "pow" and type(expected) is float
    register = writer.float_power(0, 1) if is_power else writer.result(name, 0, 1)
    code, final = writer.code()
    try:
        found = code.run([a, b])
    except OverflowError:
        return  # left to Python
    if expected is None:
        assert found is None
        return
    assert found is not None
    result = found[final[register]]
    assert type(result) is type(expected)
    assert result == expected or (result != result and expected != expected)


def test_small_numbers_are_not_left_to_python() -> None:
    for name in ("add", "sub", "mul", "floordiv", "mod", "pow", "lshift", "rshift", "truediv"):
        for a in range(-4, 12):
            for b in range(1, 9):
                writer = SizeWriter("ii")
                register = writer.result(name, 0, 1)
                code, final = writer.code()
                found = code.run([a, b])
                assert found is not None
                assert found[final[register]] == _ARITHMETIC[name][1](a, b)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(_FUNCTIONS)), NUMBERS)
def test_functions(name: str, a: Any) -> None:
    is_rounding = name in ("floor", "ceil", "round", "trunc")
    if is_rounding != (type(a) is float) and name not in ("neg", "abs"):
        return
    writer = SizeWriter(kinds(a))
    register = writer.result(name, 0)
    code, final = writer.code()
    try:
        found = code.run([a])
    except OverflowError:
        return
    assert found is not None
    result = found[final[register]]
    assert (type(result), result) == (type(_FUNCTIONS[name](a)), _FUNCTIONS[name](a))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(_COMPARISONS)), NUMBERS, NUMBERS, st.booleans())
def test_conditions(name: str, a: Any, b: Any, outcome: bool) -> None:
    writer = SizeWriter(kinds(a, b))
    writer.require(name, 0, 1, outcome)
    code, _ = writer.code()
    try:
        found = code.run([a, b])
    except OverflowError:
        return
    assert (found is not None) == (_COMPARISONS[name][1](a, b) is outcome)


def test_numbers_of_another_type_meet_no_condition() -> None:
    writer = SizeWriter("if")
    writer.result("add", 0, 1)
    code, _ = writer.code()
    assert code.run([1, 2.0]) is not None
    assert code.run([1.0, 2.0]) is None
    assert code.run([1, 2]) is None
    with pytest.raises(TypeError):
        code.run([1])
    with pytest.raises(OverflowError):
        code.run([2**64, 2.0])


def test_constants_beyond_64_bits_cannot_be_written() -> None:
    writer = SizeWriter("i")
    writer.result("add", 0, writer.constant(2**70))
    with pytest.raises(OverflowError):
        writer.code()


def test_equal_instructions_are_written_once() -> None:
    writer = SizeWriter("ii")
    assert writer.result("mul", 0, 1) == writer.result("mul", 0, 1)
    assert writer.constant(1) != writer.constant(1.0)
    assert operator.index(writer.constant(True)) == writer.constant(1)
