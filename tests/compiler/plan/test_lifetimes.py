"""Lifetimes: the last instruction that touches a block, and which blocks outlive the program."""

from __future__ import annotations

from typing import Any

from tests.compiler.lower.nests_of_calls import numbers

import ingot.core as mx
from ingot.compiler.forms.nests import Nests
from ingot.compiler.plan.lifetimes import ends_of, owned_results


def nests_of(function: Any, *args: Any) -> Nests:
    found: Nests = mx.compile(function).explain(*args).stages.nests
    return found


def test_every_block_ends_once_and_is_not_used_afterwards() -> None:
    nests = nests_of(lambda x: mx.sort(mx.exp(mx.sort(x * 2))) + 1, numbers(30))
    ends = ends_of(nests)
    touched = {b for each in nests.instructions for b in (*each.reads, *each.writes)}
    assert sorted(map(id, (b for blocks in ends.values() for b in blocks))) == sorted(
        map(id, touched)
    )
    for number, blocks in ends.items():
        for later in nests.instructions[number + 1 :]:
            assert not set(blocks) & {*later.reads, *later.writes}


def test_outputs_are_owned_and_others_not() -> None:
    nests = nests_of(lambda x: mx.sort(mx.exp(x)) + 1, numbers(30))
    owned = owned_results(nests)
    assert owned == [location.block for location in nests.outputs]
    assert len(owned) == 1


def test_views_of_inputs_are_not_owned() -> None:
    nests = nests_of(lambda x: (x.T, x + 1), numbers(4, 5))
    assert len(owned_results(nests)) == 1
