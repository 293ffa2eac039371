"""Open groups: which steps and groups can join, and what a merged group knows."""

from __future__ import annotations

import pytest

from ingot.compiler.forms.tape import Step
from ingot.compiler.passes import open_group
from ingot.compiler.passes.open_group import OpenGroup
from ingot.graph.dtype import float32

DOMAIN = (4, 5)


def step() -> Step:
    return Step(None, (), DOMAIN, float32)


def reduced(axes: tuple[int, ...], by_rows: bool = True) -> OpenGroup:
    group = OpenGroup(DOMAIN, 0)
    group.reduced, group.by_rows = axes, by_rows
    return group


def test_a_group_is_full_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_group, "MAX_GROUP_STEPS", 2)
    group = OpenGroup(DOMAIN, 0)
    group.add(step())
    assert group.can_join(DOMAIN, None)
    group.add(step())
    assert group.is_full
    assert not group.can_join(DOMAIN, None)


def test_only_steps_over_the_domain_and_its_reduction_join() -> None:
    group = reduced((1,))
    assert group.can_join(DOMAIN, None)
    assert group.can_join(DOMAIN, (1,))
    assert not group.can_join(DOMAIN, (0,))
    assert not group.can_join((5, 4), None)


def test_rows_have_the_shape_of_the_kept_axes() -> None:
    assert reduced((1,)).rows_shape() == (4,)
    assert reduced((0,), by_rows=False).rows_shape() is None
    assert OpenGroup(DOMAIN, 0).rows_shape() is None


def test_groups_merge_unless_their_reductions_differ() -> None:
    plain, rows = OpenGroup(DOMAIN, 0), reduced((1,))
    assert plain.can_absorb(rows)
    assert rows.can_absorb(plain)
    assert rows.can_absorb(reduced((1,)))
    assert not rows.can_absorb(reduced((0,)))
    assert not rows.can_absorb(reduced((1,), by_rows=False))
    assert not plain.can_absorb(OpenGroup((4,), 0))


def test_a_merged_group_has_what_both_had() -> None:
    first, second, third = OpenGroup(DOMAIN, 0), reduced((1,)), OpenGroup(DOMAIN, 0)
    row, last = step(), step()
    second.add(row, is_row=True)
    second.add(last, is_finished=True)
    second.is_read = True
    first.absorb(second)
    third.absorb(first)
    assert second.final() is first.final() is third
    assert third.steps == [row, last]
    assert (third.row_steps, third.finished) == ({row}, {last})
    assert (third.reduced, third.by_rows, third.is_read) == ((1,), True, True)


def test_a_group_reads_few_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_group, "MAX_GROUP_PRODUCTS", 2)
    group, products = OpenGroup(DOMAIN, 0), [step() for _ in range(3)]
    group.products = set(products[:2])
    assert group.can_read(set(products[:2]))
    assert not group.can_read(set(products[2:]))
    assert group.can_read(set())
