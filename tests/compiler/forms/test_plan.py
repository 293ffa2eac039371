"""Plans: their text, and a verifier that follows memory without the lifetimes of the planner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.nests import RunKernel
from ingot.compiler.forms.plan import Address, Plan

X = mx.array(np.arange(64, dtype=np.float32).reshape(8, 8))


def plan_of(function: Any, *args: Any) -> Plan:
    found: Plan = mx.compile(function).explain(*args).stages.plan
    found.verify()
    return found


def products(x: Any) -> Any:
    """Two intermediate values that are needed at the same time."""
    left = x @ x
    return (left @ x) * (x @ left) + left


def test_the_text_says_where_everything_is() -> None:
    text = plan_of(products, X).text()
    assert "slot 0: input %0" in text
    assert "arena of 768 bytes" in text
    assert "0: BLAS %0 in slot 0 -> %1 at 0..256" in text


def test_two_values_that_are_needed_at_once_have_one_address() -> None:
    plan = plan_of(products, X)
    in_arena = [b for b, address in plan.addresses.items() if address.slot == plan.arena_slot]
    first, second = in_arena[:2]
    plan.addresses[second] = plan.addresses[first]
    with pytest.raises(AssertionError, match=r"something else was written to|writes over"):
        plan.verify()


def test_a_kernel_writes_over_what_it_reads() -> None:
    plan = plan_of(lambda x: mx.softmax(x @ x, axis=-1) @ x, X)
    kernel = next(each for each in plan.nests.instructions if isinstance(each, RunKernel))
    read, written = kernel.reads[0], kernel.writes[0]
    plan.addresses[written] = plan.addresses[read]
    with pytest.raises(AssertionError, match="kernel writes over what it reads"):
        plan.verify()


def test_kernels_report_shared_arguments() -> None:
    plan = plan_of(lambda x: mx.exp(x @ x) @ x, X)
    (shared,) = plan.shared.values()
    assert shared == {0, 1}
    plan.shared.clear()
    with pytest.raises(AssertionError, match="kernel writes over what it reads"):
        plan.verify()


def test_the_arena_is_too_small() -> None:
    plan = plan_of(products, X)
    plan.arena -= 1
    with pytest.raises(AssertionError, match="does not fit into the arena"):
        plan.verify()


def test_an_output_is_in_the_arena() -> None:
    plan = plan_of(products, X)
    (owned,) = plan.owned
    plan.addresses[owned] = Address(plan.arena_slot, plan.arena)
    plan.arena += owned.nbytes
    with pytest.raises(AssertionError, match="an output is in the arena"):
        plan.verify()


def test_two_blocks_have_one_slot() -> None:
    plan = plan_of(lambda x, y: x + y, X, X + 1)
    first, second = plan.nests.inputs
    plan.addresses[second] = plan.addresses[first]
    with pytest.raises(AssertionError, match="two blocks have one slot"):
        plan.verify()


def test_donating_an_input_too_early_is_an_error() -> None:
    plan = plan_of(lambda x: (mx.exp(x), mx.sort(x, axis=0)), X)
    assert plan.donations == {}
    (result,) = plan.owned
    plan.donations[result] = plan.nests.inputs[0]
    with pytest.raises(AssertionError, match=r"before something may fail|after it was given away"):
        plan.verify()


def test_donating_an_input_that_is_an_output_is_an_error() -> None:
    plan = plan_of(lambda x: (mx.exp(x), x), X)
    assert plan.donations == {}
    plan.donations[plan.owned[0]] = plan.nests.inputs[0]
    with pytest.raises(AssertionError, match="that is an output, too"):
        plan.verify()
