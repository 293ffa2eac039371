"""The hot loop of machine code: innermost, on vectors, and real kernels have one."""

from __future__ import annotations

import ingot.core as mx
from ingot.compiler.machine.jit import assembly
from ingot.explain.page.hot_loop import hot_loop

NESTED = """
f:
	xorl	%eax, %eax
.outer:
	movl	%eax, %ecx
.vectors:
	vmovups	(%rsi,%rcx), %zmm0
	vmovups	%zmm0, (%rdi,%rcx)
	addq	$64, %rcx
	cmpq	%rcx, %rdx
	jne	.vectors
.rest:
	vmovss	(%rsi,%rcx), %xmm0
	vmovss	%xmm0, (%rdi,%rcx)
	addq	$4, %rcx
	incq	%r8
	decq	%r9
	cmpq	%rcx, %rdx
	jne	.rest
	incl	%eax
	jne	.outer
	jmp	.done
.done:
	retq
"""


def test_the_innermost_loop_on_vectors() -> None:
    lines = hot_loop(NESTED).splitlines()
    assert lines[0] == ".vectors:"
    assert lines[-1].split() == ["jne", ".vectors"]


def test_other_processors() -> None:
    text = (
        "f:\n.LBB0_1:\n\tldr\tq0, [x0], #16\n\tfadd\tv0.4s, v0.4s, v1.4s\n\tb.ne\t.LBB0_1\n\tret\n"
    )
    assert hot_loop(text).startswith(".LBB0_1:")


def test_no_loop() -> None:
    assert hot_loop("f:\n\tjmp\t.end\n.end:\n\tretq\n") == ""
    assert hot_loop("") == ""


def test_a_real_kernel() -> None:
    report = mx.compile(lambda x: mx.exp(x) * 2).explain(mx.ones(100_000))
    (work,) = report.work
    assert work.code is not None
    loop = hot_loop(assembly(work.code.text))
    assert 3 < len(loop.splitlines()) < 400
