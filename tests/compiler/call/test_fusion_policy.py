"""When an uncompiled graph is fused: each rule of the policy at its threshold, on both sides.

The numbers are written out: changing one in `tuning.py` by accident, or a rule, fails here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call import eager
from ingot.compiler.call.fusion_policy import Family, pays

LARGE = 8192  # elements of one result
FOR_EACH = 4096  # elements of results for each op


@pytest.fixture
def offered() -> Iterator[list[int]]:
    """How many nodes the graphs have that evaluation offers; none is taken."""
    counts: list[int] = []

    def decline(nodes: list[Any], wanted: list[int], is_frequent: bool) -> bool:
        counts.append(len(nodes))
        return False

    _native.set_callbacks(fuse=decline)
    yield counts
    mx.set_eager_fusion(True)


def leaf(*shape: int) -> mx.array:
    x = mx.zeros(shape)
    mx.eval(x)
    return x


def two_ops(elements: int) -> mx.array:
    return mx.exp(mx.sin(leaf(elements)))


@pytest.mark.parametrize(("elements", "is_offered"), [(LARGE - 1, False), (LARGE, True)])
def test_one_result_is_large(offered: list[int], elements: int, is_offered: bool) -> None:
    mx.eval(two_ops(elements))
    assert offered == [2] * is_offered


def test_one_op_alone_is_not_a_graph(offered: list[int]) -> None:
    mx.eval(mx.exp(leaf(LARGE)))
    assert offered == []


@pytest.mark.parametrize(("small", "is_offered"), [(1, True), (2, False)])
def test_results_have_enough_elements_for_each_op(
    offered: list[int], small: int, is_offered: bool
) -> None:
    x, y = leaf(LARGE), leaf(1)
    for _ in range(small):
        y = mx.sin(y)
    # One result of 2 * 4096 elements, and small ones, which add nothing.
    both = [mx.exp(x), y]
    mx.eval(both)
    assert offered == [small + 1] * is_offered


@pytest.mark.parametrize(("elements", "is_offered"), [(FOR_EACH, True), (FOR_EACH - 1, False)])
def test_results_that_are_not_even_enough_for_one_op_do_not_count(
    offered: list[int], elements: int, is_offered: bool
) -> None:
    y = [leaf(elements) for _ in range(2)]
    mx.eval([mx.exp(leaf(LARGE)), *map(mx.sin, y)])
    assert offered == [3] * is_offered


def test_views_are_not_results(offered: list[int]) -> None:
    mx.eval(mx.broadcast_to(mx.exp(mx.sin(leaf(1))), (LARGE,)))
    assert offered == []


def test_what_a_transform_follows_is_left_to_it(offered: list[int]) -> None:
    def loss(x: mx.array) -> mx.array:
        y = mx.exp(mx.sin(x))
        mx.eval(y)
        return mx.sum(y)

    mx.grad(loss)(leaf(LARGE))
    assert offered == []


def test_a_switch_turns_it_off(offered: list[int]) -> None:
    mx.set_eager_fusion(False)
    mx.eval(two_ops(LARGE))
    assert offered == []


@pytest.mark.parametrize(
    ("count", "is_offered"), [(1, False), (2, True), (2000, True), (2001, False)]
)
def test_graphs_of_two_maps_to_two_thousand_nodes(
    offered: list[int], count: int, is_offered: bool
) -> None:
    x = leaf(LARGE)
    for _ in range(count):
        x = mx.abs(x)
    mx.eval(x)
    assert offered == [count] * is_offered


def test_reductions_are_fused_and_views_and_products_are_not(offered: list[int]) -> None:
    x = leaf(2, 2, LARGE)
    mx.eval(mx.sum(mx.max(x, axis=0, keepdims=True), axis=1, keepdims=True))
    assert offered == [2]
    matrix = leaf(128, 128)
    mx.eval(mx.exp(mx.transpose(matrix @ matrix)))
    assert offered == [2]


@pytest.mark.parametrize(("products", "is_offered"), [(2, True), (3, False)])
def test_as_many_ops_are_fused_as_are_programs_by_themselves(
    offered: list[int], products: int, is_offered: bool
) -> None:
    x = leaf(128, 128)
    y = mx.exp(mx.sin(x))
    for _ in range(products):
        y = y @ x
    mx.eval(y)
    assert offered == [products + 2] * is_offered


MEGABYTE = 1 << 20


@pytest.mark.parametrize(
    ("nbytes", "nodes", "expected"),
    [
        (64 * MEGABYTE, 16, True),
        (64 * MEGABYTE - 1, 2, False),
        (64 * MEGABYTE, 17, False),
        (68 * MEGABYTE, 17, True),
        (math.inf, 2000, True),
    ],
)
def test_what_moves_much_memory_is_compiled_at_once(
    nbytes: int, nodes: int, expected: bool
) -> None:
    hopeless = Family(programs=4, runs=0)
    assert pays(nbytes, nodes, 0, hopeless) is expected
    assert pays(nbytes, nodes, 1, hopeless) is expected


def test_others_are_compiled_when_they_come_again() -> None:
    assert not pays(0, 2, 0, Family())
    assert pays(0, 2, 1, Family())


@pytest.mark.parametrize(
    ("programs", "runs", "expected"),
    [(3, 0, True), (4, 31, False), (4, 32, True), (5, 39, False), (5, 40, True)],
)
def test_a_family_must_use_its_programs(programs: int, runs: int, expected: bool) -> None:
    assert pays(0, 2, 1, Family(programs, runs)) is expected


def test_evaluation_asks_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eager, "_structures", eager._Structures())
    _native.forget_programs()
    for expected in (0, 1, 1):  # seen once, compiled, run
        mx.eval(two_ops(LARGE))
        assert mx.eager_fusion_info()["programs"] == expected
