"""Random loop nests: sound, and the same in NumPy and as machine code."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.compiler.forms.nest.nest_runner import run_nest
from tests.compiler.forms.nest.random_nests import Case, any_nest

from ingot.compiler.forms.affine import affine
from ingot.compiler.forms.nest.build import NestBuilder
from ingot.compiler.forms.nest.data import Constant, Load, Splat, Store
from ingot.compiler.forms.nest.interpret import interpret
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.verify import verify
from ingot.graph.dtype import float32


@given(any_nest(), st.sampled_from((1, 3, 1 << 62)))
def test_interpreter_and_machine_code_agree(case: Case, chunk: int) -> None:
    verify(case.nest)
    expected, found = case.copies(), case.copies()
    interpret(case.nest, expected, case.symbols)
    run_nest(case.nest, found, case.symbols, chunk)
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_array_equal(a, b, nest_text(case.nest))


def test_uninitialised_stack_memory_shows() -> None:
    b = NestBuilder()
    out = b.buffer("out", float32, (2,), (4,), 0)
    row = b.stack("row", float32, (2,))
    with b.parallel(()):
        b.store(Constant(float32, 3.0), row, (affine(0),))
        with b.loop(0, 2) as i:
            b.store(b.load(row, (affine(i),)), out, (affine(i),))
    found = np.zeros(2, np.float32)
    interpret(b.nest, [found], stack=np.nan)
    np.testing.assert_array_equal(found, [3, np.nan])
    interpret(b.nest, [found])
    np.testing.assert_array_equal(found, [3, 0])


def test_lanes_behind_a_limit_are_not_accessed() -> None:
    """Even the first may be outside the buffer, as in a block of columns behind the last."""
    b = NestBuilder()
    x = b.buffer("x", float32, (5,), (4,), 0)
    out = b.buffer("out", float32, (16,), (4,), 1)
    with b.parallel(()), b.loop(0, 16, step=4) as i:
        some = Load(float32, x, (affine(i),), 4, affine(5))
        b.body.append(some)
        b.body.append(Store(out, (affine(i),), some))
    verify(b.nest)
    numbers = np.arange(1, 6, dtype=np.float32)
    for run in (interpret, run_nest):
        found = np.full(16, 7, np.float32)
        run(b.nest, [numbers, found])
        np.testing.assert_array_equal(found, [1, 2, 3, 4, 5, *[0] * 11])


def test_a_splat_to_one_lane_is_a_scalar() -> None:
    b = NestBuilder()
    x = b.buffer("x", float32, (1,), (4,), 0)
    out = b.buffer("out", float32, (1,), (4,), 1)
    with b.parallel(()):
        value = Splat(float32, b.load(x, (affine(0),)), 1)
        b.body.append(value)
        b.body.append(Store(out, (affine(0),), value))
    found = np.zeros(1, np.float32)
    interpret(b.nest, [np.array([5], np.float32), found])
    assert found[0] == 5
