"""Kernels of groups: which symbols they take, and copies in the stead of operands."""

from __future__ import annotations

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.sizes import Sizes
from ingot.compiler.forms.tape import Step
from ingot.compiler.lower.kernel import Lowered, kernel_of
from ingot.graph.dtype import float32


def step() -> Step:
    return Step(None, (), (4,), float32)


def test_kernels_take_the_symbols_that_they_use() -> None:
    n = Sizes().dimension(0, 5)
    b = NestBuilder()
    b.symbol("unused")
    x = b.buffer("x", float32, (n,), (4,), 0)
    with b.parallel((n,)) as (i,):
        b.store(b.load(x, (affine(i),)), x, (affine(i),))
    kernel = kernel_of(b.nest, [step()])
    assert [symbol.size.key for symbol in kernel.nest.symbols if symbol.size] == [n.key]


def test_copies_take_the_stead_of_operands() -> None:
    a, b, copy = step(), step(), step()
    lowered = Lowered([kernel_of(NestBuilder().nest, [a, None, b])], 16)
    found = lowered.reading({a: copy})
    assert found.kernels[0].operands == (copy, None, b)
    assert found.scratch == 16
    assert lowered.reading({}) is lowered
