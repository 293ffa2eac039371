"""Nests as LLVM text: what a kernel's module holds, and the runs that it holds twice."""

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
from ingot.compiler.forms.nest.data import Carried, Constant, Repeated
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import NestError, verify
from ingot.compiler.llvm import nests
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


LANES = 8


def _limited_columns(n: int, k: int) -> NestBuilder:
    """Sums along columns of a matrix, two vectors of columns at a time, and their maximum with what
    the result held.
    """
    b = NestBuilder()
    x = b.buffer("x", float32, (k, n), (4 * (n + 3), 4), 0)
    y = b.buffer("y", float32, (n,), (4,), 1)
    with b.parallel((-(-n // (2 * LANES)),)) as (i,):
        first = [affine(i) * 2 * LANES + LANES * each for each in range(2)]
        zero = Repeated(float32, Constant(float32, 0), LANES)
        sums = [Carried(float32, zero) for _ in first]
        with b.loop(0, k, carried=sums) as row:
            for total, at in zip(sums, first, strict=True):
                found = b.load_lanes(x, (affine(row), at), LANES, n)
                total.update = b.words.add(total, found)
        for total, at in zip(sums, first, strict=True):
            before = b.load_lanes(y, (at,), LANES, n)
            b.store(b.words.maximum(total, before), y, (at,), n)
    return b


@pytest.mark.parametrize("slowly", [False, True])
@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 17, 31, 32, 41])
def test_limits_leave_other_lanes_alone(
    monkeypatch: pytest.MonkeyPatch, slowly: bool, n: int
) -> None:
    """Lanes at or past a limit are neither read nor written, with masks and in code without."""
    monkeypatch.setattr(nests, "stores_masked_slowly", lambda: slowly)
    b, k = _limited_columns(n, 5), 5
    verify(b.nest)
    text = nest_module(b.nest)
    assert ("whole" in text) == slowly
    rows = np.full((k, n + 3), np.nan, np.float32)
    rows[:, :n] = np.random.default_rng(n).standard_normal((k, n)).astype(np.float32)
    result = np.full(n + 2 * LANES, np.float32(0.25))
    run_nest(b.nest, [rows, result])
    expected = np.maximum(rows[:, :n].sum(axis=0, dtype=np.float64), 0.25)
    np.testing.assert_allclose(result[:n], expected, rtol=1e-5)
    assert (result[n:] == 0.25).all()


def test_only_code_with_limits_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without limits between statements with some is not in both versions."""
    monkeypatch.setattr(nests, "stores_masked_slowly", lambda: True)
    b = NestBuilder()
    x = b.buffer("x", float32, (9,), (4,), 0)
    y = b.buffer("y", float32, (9,), (4,), 1)
    with b.parallel((2,)) as (i,):
        at = affine(i) * LANES
        zero = Repeated(float32, Constant(float32, 0), LANES)
        total = Carried(float32, zero)
        some = b.load_lanes(x, (at,), LANES, 9)
        with b.loop(0, 3, carried=[total], copies=1):
            total.update = b.words.fused_multiply_add(some, some, total)
        b.store(total, y, (at,), 9)
    text = nest_module(b.nest)
    assert text.count("call <8 x float> @llvm.fma") == 1
    assert text.count("call <8 x float> @llvm.masked.load") == 1
    assert text.count("call void @llvm.masked.store") == 1
    assert text.count("load <8 x float>") == 1
    values = [np.arange(9, dtype=np.float32), np.zeros(9, np.float32)]
    run_nest(b.nest, values)
    np.testing.assert_array_equal(values[1], 3 * values[0] ** 2)


def test_limits_that_a_loop_computes_keep_their_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nests, "stores_masked_slowly", lambda: True)
    b = NestBuilder()
    x = b.buffer("x", float32, (20,), (4,), 0)
    y = b.buffer("y", float32, (LANES,), (4,), 1)
    with b.parallel((1,)):
        total = Carried(float32, Repeated(float32, Constant(float32, 0), LANES))
        with b.loop(0, 20, step=LANES, carried=[total]) as at:
            total.update = b.words.add(total, b.load_lanes(x, (affine(at),), LANES, 20))
        b.store(total, y, (affine(0),))
    values = [np.arange(20, dtype=np.float32), np.zeros(LANES, np.float32)]
    run_nest(b.nest, values)
    padded = np.concatenate([values[0], np.zeros(4, np.float32)])
    np.testing.assert_array_equal(values[1], padded.reshape(3, LANES).sum(axis=0))
