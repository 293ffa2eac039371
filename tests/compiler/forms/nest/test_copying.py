"""Copies of nests: the same text and the same results, and nothing in common."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from tests.compiler.forms.nest.random_nests import Case, any_nest
from tests.compiler.forms.nest.test_rewrites import require_same
from tests.compiler.lower.kernels.test_lowered_nests import CASES

import ingot.core as mx
from ingot.compiler.forms.affine import Index, affine
from ingot.compiler.forms.nest.copying import Copy
from ingot.compiler.forms.nest.data import Loop, Nest, Value
from ingot.compiler.forms.nest.text import nest_text
from ingot.compiler.forms.nest.traversal import statements


def parts(nest: Nest) -> set[int]:
    """The identities of everything that belongs to one nest."""
    found: set[int] = set()
    for region in nest.parallel:
        found.update(map(id, (region, *region.indices)))
        for each in statements(region.body):
            if isinstance(each, (Value, Loop)):
                found.add(id(each))
    return found


@given(any_nest())
def test_random_nests(case: Case) -> None:
    copy = Copy().nest(case.nest)
    assert nest_text(copy) == nest_text(case.nest)
    assert not parts(copy) & parts(case.nest)
    require_same(case, copy)


def test_the_nests_of_all_kinds_of_kernels() -> None:
    for function, args in CASES.values():
        report: Any = mx.compile(function).explain(*args)
        for work in report.work:
            if work.kernel is not None:
                assert nest_text(Copy().nest(work.kernel.nest)) == nest_text(work.kernel.nest)


def test_indices_are_replaced_by_expressions() -> None:
    copy, old, new = Copy(), Index(), Index()
    copy.indices[old] = affine(new) * 4 + 1
    assert copy.affine(affine(old) * 2 + 3).key() == (affine(new) * 8 + 5).key()
