"""Modules of kernels: grains, and how arguments reach the body."""

from __future__ import annotations

from ingot.compiler.llvm.code import Code
from ingot.compiler.llvm.module import IN_VECTORS, module_text, work_grain
from ingot.tuning import MIN_THREAD_WORK


def code_of(lines: int) -> Code:
    code = Code()
    code.lines = ["  ret void"] * lines
    return code


def test_grains_are_for_enough_work() -> None:
    for lines in (1, 10, 300):
        for elements in (1, 64, 5000):
            grain = work_grain(code_of(lines), elements)
            assert grain >= 1
            assert grain == 1 or grain * lines * elements <= MIN_THREAD_WORK
            assert (grain + 1) * lines * elements > MIN_THREAD_WORK


def test_arguments_are_unpacked_in_order() -> None:
    text = module_text(code_of(1), [True, False])
    assert "(ptr noalias %a0, ptr %a1, i64 %begin, i64 %end)" in text
    assert "getelementptr inbounds ptr, ptr %arguments, i64 1" in text
    assert module_text(code_of(1), []).count("i64 %begin, i64 %end") == 3


def test_bodies_are_optimised_once() -> None:
    """Not again in the function that unpacks the arguments."""
    text = module_text(code_of(1), [True])
    assert "@KERNEL_body(ptr noalias %a0, i64 %begin, i64 %end) #1 {" in text
    assert "attributes #1 = { noinline " in text
    assert "noinline" not in text[text.index("attributes #0") : text.index("attributes #1")]


def test_loops_in_vectors_are_marked() -> None:
    assert module_text(code_of(1), [True], in_vectors=True).startswith(IN_VECTORS)
    assert IN_VECTORS not in module_text(code_of(1), [True])
