"""Building nests: where statements go, and what words give."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.forms.nest.nest_runner import run_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Apply, Constant, Loop, Position
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify
from ingot.compiler.forms.sizes import Sizes
from ingot.graph.dtype import bfloat16, bool_, float32, int64


def test_statements_go_to_the_body_that_was_opened_last() -> None:
    b = NestBuilder()
    x = b.buffer("x", float32, (4,), (4,), 0)
    with b.parallel((2,)) as (i,):
        with b.loop(0, 2) as j:
            at = (affine(i) * 2 + j,)
            b.store(b.words.negative(b.load(x, at)), x, at)
        b.store(Constant(float32, 1), x, (affine(i),))
    (region,) = b.nest.parallel
    loop, last = region.body
    assert isinstance(loop, Loop)
    assert len(loop.body) == 3
    assert last not in loop.body
    assert b.body == []


def test_words_are_values_of_the_right_dtypes() -> None:
    b = NestBuilder()
    x = b.buffer("x", float32, (4,), (4,), 0)
    with b.parallel((4,)) as (i,):
        value = b.load(x, (affine(i),))
        assert b.words.add(value, value).dtype is float32
        assert b.words.less(value, value).dtype is bool_
        assert b.words.cast(value, float32) is value
        assert b.words.cast(value, int64).dtype is int64
        assert b.words.rounded(value) is value
        assert b.words.constant(2, value).dtype is float32
    words = [each.word for each in b.nest.parallel[0].body if isinstance(each, Apply)]
    assert words == ["add", "less", "cast"]


def test_half_types_are_rounded_by_a_word() -> None:
    b = NestBuilder()
    x = b.buffer("x", bfloat16, (4,), (2,), 0)
    with b.parallel((4,)) as (i,):
        found = b.words.rounded(b.load(x, (affine(i),)))
    assert isinstance(found, Apply)
    assert found.word == "rounded"


def test_symbolic_numbers_are_positions() -> None:
    b = NestBuilder()
    size = Sizes().dimension(0, 7)
    assert isinstance(b.words.constant_of(size, int64), Position)
    found = b.words.constant_of(size, float32)
    assert isinstance(found, Apply)
    assert found.word == "cast"


def test_words_that_are_not_there() -> None:
    with pytest.raises(AttributeError, match="no word frobnicate"):
        NestBuilder().words.frobnicate(1)


def test_stack_memory_is_row_by_row() -> None:
    assert NestBuilder().stack("tile", float32, (3, 5)).strides == (20, 4)


def test_conditions_and_masks_have_bodies() -> None:
    b = NestBuilder()
    x = b.buffer("x", int64, (4,), (8,), 0)
    y = b.buffer("y", int64, (4,), (8,), 1)
    with b.parallel((4,)) as (i,):
        value = b.load(x, (affine(i),))
        with b.when(value, 0, 4):
            b.load(x, (value,))
        with b.apart(x, y):
            b.store(value, y, (affine(i),))
    verify(b.nest)
    text = nest_text(b.nest)
    assert "unless y is x\n      y[i] = v1" in text
    assert "when v1 in 0..4\n" in text


@pytest.mark.parametrize("count", [1, 2, 3, 6, 24, 33])
def test_bundles_are_folded_together_as_one_by_one(count: int) -> None:
    lanes = 16
    b = NestBuilder()
    x = b.buffer("x", float32, (count, lanes), (4 * lanes, 4), 0)
    together, alone = (
        b.buffer(name, float32, (count,), (4,), n) for n, name in ((1, "y"), (2, "z"))
    )
    with b.parallel((1,)):
        bundles = [b.load_lanes(x, (affine(row), affine(0)), lanes) for row in range(count)]
        for row, total in enumerate(b.fold_each(bundles, b.words.add)):
            b.store(total, together, (affine(row),))
            b.store(b.fold_lanes(bundles[row], b.words.add), alone, (affine(row),))
    verify(b.nest)
    values = np.random.default_rng(count).normal(size=(count, lanes)).astype(np.float32)
    for run in (run_nest, interpret):
        found = np.zeros(count, np.float32), np.zeros(count, np.float32)
        run(b.nest, [values, *found])
        np.testing.assert_array_equal(*found)
        np.testing.assert_allclose(found[0], values.sum(1), rtol=1e-4, atol=1e-5)
