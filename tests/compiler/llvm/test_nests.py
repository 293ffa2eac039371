"""Nests as LLVM text: what a kernel's module holds."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest
from tests.compiler.lower.nests_of_calls import nests_of, numbers

import ingot.core as mx
from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.copying import Copy
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import NestError, verify
from ingot.compiler.llvm.nests import nest_code, nest_module
from ingot.graph.dtype import float32


def test_a_module_has_a_kernel_and_its_body() -> None:
    (nest,) = nests_of(lambda x, y: x * y, numbers(40), numbers(40))
    text = nest_module(nest)
    assert text.count("define void @KERNEL(ptr %arguments, i64 %begin, i64 %end, i32 %thread)") == 1
    assert text.count("ptr noalias %a") == 3


def test_arguments_that_are_shared_are_not_noalias() -> None:
    (nest,) = nests_of(lambda x, y: x * y, numbers(40), numbers(40))
    assert nest_module(nest, (0, 2)).count("ptr noalias %a") == 1


def test_equal_nests_are_equal_texts() -> None:
    texts = {nest_module(nests_of(lambda x: mx.exp(x) * 2, numbers(40))[0]) for _ in range(2)}
    assert len(texts) == 1


@pytest.mark.parametrize("chunk", [1, 7, 40])
def test_parts_of_the_range_are_parts_of_the_result(chunk: int) -> None:
    (nest,) = nests_of(lambda x: x * 2, numbers(40))
    x, y = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    run_nest(nest, [x, y], chunk=chunk, begin=5, end=30)
    np.testing.assert_array_equal(y[5:30], x[5:30] * 2)
    assert not y[:5].any()
    assert not y[30:].any()


def test_loops_of_rows_carry_their_totals() -> None:
    (nest,) = nests_of(lambda x: x.sum(axis=1), numbers(3, 600))
    assert any(re.search(r"= phi <\d+ x float>", line) for line in nest_code(nest).lines)


def test_prefetches_change_nothing() -> None:
    """Lines that are fetched may lie behind the end."""
    b = NestBuilder()
    x = b.buffer("x", float32, (20,), (4,), 0)
    y = b.buffer("y", float32, (20,), (4,), 1)
    with b.parallel((20,)) as (i,):
        b.prefetch(x, (affine(i) * 1000,))
        b.store(b.words.negative(b.load(x, (affine(i),))), y, (affine(i),))
    verify(b.nest)
    assert "prefetch x[1000*i]" in nest_text(b.nest)
    copy = Copy().nest(b.nest)
    assert nest_text(copy) == nest_text(b.nest)
    assert nest_module(copy).count("call void @llvm.prefetch") == 1
    for run in (interpret, run_nest):
        given, found = np.arange(20, dtype=np.float32), np.zeros(20, np.float32)
        run(copy, [given, found])
        np.testing.assert_array_equal(found, -given)
    outside = NestBuilder()
    z = outside.buffer("z", float32, (20,), (4,), 0)
    with outside.parallel((20,)):
        outside.prefetch(z, (affine(i),))  # the index of another loop
    with pytest.raises(NestError, match="z"):
        verify(outside.nest)
