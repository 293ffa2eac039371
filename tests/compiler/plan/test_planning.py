"""Planning: what lives where, who takes whose memory, and when memory is used again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.plan import Plan
from ingot.compiler.lower.products import matmul

N = 64
X = mx.array(np.random.default_rng(0).standard_normal((N, N)).astype(np.float32))
BYTES = 4 * N * N


def plan_of(function: Any, *args: Any) -> Plan:
    found: Plan = mx.compile(function).explain(*args).stages.plan
    return found


@pytest.fixture
def no_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of few rows read their operands in place, also on processors with 16 registers."""
    monkeypatch.setattr(matmul, "MIN_PACKED_ROWS_OF_FEW", matmul.MIN_PACKED_ROWS)


@pytest.mark.usefixtures("no_panels")
def test_a_chain_of_products_needs_two_blocks() -> None:
    def chain(x: Any) -> Any:
        for _ in range(10):
            x = x @ x
        return x

    assert plan_of(chain, X).arena == 2 * BYTES


@pytest.mark.usefixtures("no_panels")
def test_a_map_reuses_the_block_of_an_operand_that_dies_in_it() -> None:
    assert plan_of(lambda x: mx.exp(x @ x) @ x, X).arena == BYTES
    # the product is needed again, so the map has a place of its own
    assert plan_of(lambda x: (mx.exp(y := x @ x) @ x) @ y, X).arena == 3 * BYTES


def test_a_reshaped_value_gives_its_memory_too() -> None:
    flat = plan_of(lambda x: mx.exp((x @ x).reshape(-1)).reshape(N, N) @ x, X)
    assert flat.arena == BYTES


def test_an_array_of_another_shape_is_not_donated() -> None:
    """The caller's array itself becomes the result."""
    assert plan_of(lambda x: mx.exp(x.reshape(-1)), X).donations == {}
    assert len(plan_of(lambda x: mx.exp(x), X).donations) == 1
    found = mx.compile(lambda x: mx.exp(x.reshape(-1)))(mx.ones((2, 3)) * 2)
    assert found.shape == (6,)
    np.testing.assert_allclose(np.array(found), np.exp(np.full(6, 2.0)), rtol=1e-6)


def test_a_transposed_value_does_not() -> None:
    assert plan_of(lambda x: mx.exp((x @ x).T) @ x, X).arena == 2 * BYTES


def test_gathers_and_reductions_do_not_take_what_they_read() -> None:
    indices = mx.array(np.arange(N)[::-1].copy())
    gathered = plan_of(lambda x, i: mx.take(x @ x, i, axis=0) @ x, X, indices)
    assert gathered.arena >= 2 * BYTES
    reduced = plan_of(lambda x: mx.softmax(x @ x, axis=-1) @ x, X)
    assert reduced.arena == 2 * BYTES


def test_scratch_memory_is_used_again() -> None:
    long = mx.ones((4, 1 << 18))
    once = plan_of(lambda x: x.sum(axis=1), long)
    twice = plan_of(lambda x: (x * x.sum(axis=1, keepdims=True)).sum(axis=1), long)
    assert len(twice.nests.kernels) == 2 * len(once.nests.kernels) == 4
    assert twice.arena == once.arena + 64  # the first sums


def test_a_view_that_needs_a_copy_is_a_result_of_its_own() -> None:
    plan = plan_of(lambda x: x.T.reshape(-1), X)
    (owned,) = plan.owned
    assert owned.nbytes == BYTES
    assert plan.arena == 0


@pytest.mark.parametrize("count", [1, 3])
def test_inputs_are_given_to_outputs_of_the_same_kind(count: int) -> None:
    plan = plan_of(lambda *xs: [mx.exp(x) for x in xs], *[X + k for k in range(count)])
    given = {plan.nests.inputs.index(block) for block in plan.donations.values()}
    assert given == set(range(count))


def test_nothing_is_donated_before_the_last_host_step() -> None:
    after = plan_of(lambda x, y: mx.exp(mx.sort(x, axis=0)) + y, X, X + 1)
    assert len(after.donations) == 1  # y, which is read last
    before = plan_of(lambda x, y: (mx.exp(y), mx.sort(mx.exp(y) + x, axis=0)), X, X + 1)
    assert before.donations == {}


def test_what_the_host_makes_is_in_slots_behind_the_arena() -> None:
    plan = plan_of(lambda x: mx.sort(x, axis=0) + 1, X)
    host = [block for block in plan.addresses if block.kind == "host"]
    assert [plan.addresses[block].slot for block in host] == [plan.arena_slot + 1]
    assert plan.slots == plan.arena_slot + 2
