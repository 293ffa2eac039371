"""Long reductions: groups of blocks side by side, and a second kernel that combines them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.lower.nests_of_calls import nests_of, numbers

import ingot.core as mx
from ingot.compiler.forms.nest.data import Apply
from ingot.compiler.forms.nest.traversal import statements
from ingot.graph.numerics.reduction_order import BLOCK, PART
from ingot.runtime import threads

PARTS = 128
LONG = PARTS * BLOCK * PART


def test_few_long_rows_are_split() -> None:
    first, second = nests_of(lambda x: x.sum(), numbers(LONG))
    assert first.parallel[0].lengths == (PARTS,)
    (partial,) = [buffer for buffer in first.buffers if buffer.name == "partial0"]
    assert partial.shape == (PARTS,)
    assert [b.name for b in second.buffers if b.name.startswith("partial")] == ["partial0"]


def test_rows_of_one_group_are_one_kernel() -> None:
    (nest,) = nests_of(lambda x: x.sum(), numbers(BLOCK * PART))
    assert all(not buffer.name.startswith("partial") for buffer in nest.buffers)


def test_what_follows_from_the_result_is_in_the_second_kernel() -> None:
    *_, last = nests_of(lambda x: mx.sqrt(x.sum(axis=1) + 5e5), numbers(2, LONG))
    words = [x.word for x in statements(last.parallel[0].body) if isinstance(x, Apply)]
    assert "sqrt" in words


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    x = numbers(LONG + 17)
    compiled = mx.compile(lambda x: x.sum())
    first = np.array(compiled(x))
    np.testing.assert_allclose(first, np.array(x, np.float64).sum(), rtol=1e-5, atol=1e-2)
    before = threads.get_num_threads()
    threads.set_num_threads(1)
    try:
        assert np.array(compiled(x)) == first
    finally:
        threads.set_num_threads(before)


@pytest.mark.parametrize(
    ("shape", "order", "axes"),
    [
        ((600, 70), (1, 0), None),
        ((2000, 33), (1, 0), None),
        ((3, 700, 50), (0, 2, 1), (1, 2)),
        ((2, 30, 3, 600), (1, 3, 0, 2), (1, 2, 3)),
        ((5, 600, 40, 3), (2, 3, 0, 1), (0, 3)),
        ((5, 600, 40, 3), (2, 0, 3, 1), (0, 2, 3)),
        ((64, 3, 700), (2, 0, 1), None),
    ],
)
def test_sums_across_memory_have_the_order_of_the_axes(
    shape: tuple[int, ...], order: tuple[int, ...], axes: tuple[int, ...] | None
) -> None:
    x = numbers(*shape)
    contiguous = mx.array(np.ascontiguousarray(np.array(x).transpose(order)))
    found = mx.compile(lambda x: x.transpose(order).sum(axis=axes))(x)
    expected = mx.compile(lambda x: x.sum(axis=axes))(contiguous)
    np.testing.assert_array_equal(np.array(found), np.array(expected))


def test_sums_across_memory_copy_nothing() -> None:
    blocks, combined = nests_of(lambda x: (x.T * 3).sum(), numbers(1300, 200))
    assert [b.shape for b in blocks.buffers if b.name == "partial0"] == [(200, 3)]
    assert [b.shape for b in combined.buffers if b.name == "partial0"] == [(600,)]
