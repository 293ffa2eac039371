"""LLVM code as text: what becomes of loops of known length."""

from __future__ import annotations

import platform
import re
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.llvm.code import Code, Register, literal, literal_value
from ingot.compiler.machine.jit import assembly, compile_object


def machine_code(function: Any, *arrays: mx.array) -> str:
    """The machine code of the one kernel that a function becomes, as text."""
    compiled = mx.compile(function)
    np.testing.assert_allclose(np.array(compiled(*arrays)), np.array(function(*arrays)), rtol=1e-6)
    (text,) = compiled.explain(*arrays).code
    return assembly(text)


# LLVM would write these loops out, and then read the columns of many rows at once, far apart.
@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
@pytest.mark.parametrize("length", [14, 16, 22, 30, 32])
def test_short_loops_are_vectorised(length: int) -> None:
    x = mx.array(np.random.rand(6007, length).astype(np.float32))
    text = machine_code(lambda x, bias: x - bias, x, x[7])
    assert "subps" in text
    assert text.count("subss") < length // 2


@pytest.mark.parametrize("length", [1, 2, 3])
def test_llvm_prints_nothing_about_tiny_loops(
    length: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Random numbers in rows of two: no loop to vectorise, although their logarithm asks for it."""
    key = mx.random.key(5)
    x, scale = mx.ones((64, length)), mx.ones(length)

    def function(x: mx.array, scale: mx.array) -> mx.array:
        return mx.random.normal(x.shape, key=key) * scale + x

    assert compile_object(mx.compile(function).explain(x, scale).code[0])
    assert capfd.readouterr().err == ""


def test_sums_and_products_of_known_integers_take_no_instruction() -> None:
    code, x = Code(), Register("%x", "i64")
    zero, one, three = (literal("i64", n) for n in (0, 1, 3))
    assert code.binary("mul nsw", three, literal("i64", -14)).name == "-42"
    assert code.binary("add nsw", three, literal("i64", -14)).name == "-11"
    assert code.binary("mul nsw", x, zero).name == "0"
    for a, b in ((x, one), (one, x)):
        assert code.binary("mul nsw", a, b) is x
    for a, b in ((x, zero), (zero, x)):
        assert code.binary("add nsw", a, b) is x
    address = Register("%a0", "ptr")
    assert code.offset(address, zero) is address
    assert code.lines == []
    code.binary("add nsw", x, one)
    code.binary("mul nsw", x, three)
    code.binary("sub nsw", x, zero)
    assert len(code.lines) == 3


def test_values_of_literals() -> None:
    for value in (0.1, -3.0, float("inf")):
        assert literal_value(literal("double", value)) == value
        assert literal_value(literal("<4 x float>", value)) == np.float32(value)
    assert literal_value(Register("%v1", "float")) is None
    assert literal_value(Register("<float %v1, float 0x3FF0000000000000>", "<2 x float>")) is None
    assert literal_value(literal("i64", 3)) is None


def hinted(
    lines: int,
    constants: int,
    most: int,
    few: int = 0,
    length: int | None = None,
    least: int = 1,
) -> str:
    """The metadata of a loop with so many instructions and so many different constants."""
    code = Code()
    x = Register("%x", "float")
    end = Register("%n", "i64") if length is None else literal("i64", length)
    counts = range(least, most + 1)
    with code.loop(literal("i64", 0), end, interleaved=counts, few=few):
        code.lanes = 32
        for number in range(lines):
            x = code.binary("fadd", x, literal("float", float(number % constants)))
    return " ".join(code.metadata)


def test_long_bodies_are_interleaved() -> None:
    assert '"llvm.loop.interleave.count", i32 4' in hinted(60, 5, 4)
    assert '"llvm.loop.interleave.count", i32 2' in hinted(60, 30, 4)
    assert '"llvm.loop.interleave.count", i32 2' in hinted(60, 5, 2)
    assert '"llvm.loop.interleave.count", i32 4' in hinted(60, 5, 4, least=4)
    assert "interleave" not in hinted(60, 30, 4, least=4)
    assert "interleave" not in hinted(60, 5, 1)
    assert "interleave" not in hinted(5, 5, 4)


def test_no_more_vectors_at_a_time_than_a_loop_fills() -> None:
    """LLVM would never enter the vectorised loop."""
    assert '"llvm.loop.interleave.count", i32 2' in hinted(60, 5, 2, length=64)
    assert "interleave" not in hinted(60, 5, 2, length=32)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="reads the assembly of x86")
def test_sums_of_normal_numbers_are_vectorised() -> None:
    text = machine_code(lambda key: mx.random.normal((4096,), key=key).sum(), mx.random.key(1))
    assert "fmadd" in text
    assert not re.search(r"fmadd\w*ss", text)


def test_few_iterations_fill_no_wide_vectors() -> None:
    for few in (1, 3):
        hints = hinted(60, 5, 4, few)
        assert '"llvm.loop.vectorize.enable", i1 false' in hints
        assert '"llvm.loop.unroll.disable"' in hints
        assert "width" not in hints
    for few in (4, 7):
        hints = hinted(60, 5, 4, few)
        assert '"llvm.loop.vectorize.width", i32 4' in hints
        assert '"llvm.loop.interleave.count", i32 1' in hints
    assert '"llvm.loop.vectorize.width", i32 32' in hinted(60, 5, 4)
    code = Code()
    n = Register("%n", "i64")
    with code.loop(literal("i64", 0), n, few=3), code.loop(literal("i64", 0), n):
        pass
    assert "vectorize" not in " ".join(code.metadata), "the loop inside may be long"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_roundings_one_after_the_other_are_interleaved_more(dtype: str) -> None:
    def polynomial(x: mx.array) -> mx.array:
        return ((x * 3 + 1) * x - 2) * x + 4

    x = mx.zeros((200, 200)).astype(getattr(mx, dtype))
    for function, is_long in ((polynomial, True), (mx.exp, False)):
        (text,) = mx.compile(function).explain(x).code
        assert ('"llvm.loop.interleave.count", i32 8' in text) is is_long


def test_what_is_computed_before_a_loop_does_not_vary_in_it() -> None:
    code = Code()
    before = code.fresh()
    with code.loop(literal("i64", 0), literal("i64", 9), [Register(before, "float")]) as loop:
        inside = code.fresh()
        assert code.is_invariant(Register(before, "float"))
        assert not code.is_invariant(loop.index)
        assert not code.is_invariant(loop.carried[0])
        assert not code.is_invariant(Register(inside, "float"))
        assert not code.is_invariant(literal("float", 2.0))
        with code.loop(literal("i64", 0), literal("i64", 9)):
            assert code.is_invariant(Register(inside, "float"))
        assert not code.is_invariant(Register(inside, "float"))
    assert not code.is_invariant(Register(before, "float"))
