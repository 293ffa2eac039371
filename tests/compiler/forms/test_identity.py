"""Identities of ops: equal for ops that compute the same, to the sign of a zero."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ingot.compiler.forms.identity import OpIdentities
from ingot.graph.lazy_dataclass import dataclass
from ingot.graph.op import no_rule
from ingot.graph.roles import Host


@dataclass(frozen=True)
class _Scale(Host):
    by: Any

    def infer(self, x: Any) -> Any:
        return x.shape, x.dtype

    def evaluate(self, x: Any) -> Any:
        return x * self.by

    vjp = no_rule("it is never differentiated")
    jvp = no_rule("it is never differentiated")
    vmap = no_rule("it is never mapped")


@pytest.mark.parametrize("value", [0.0, 2, True, (1, 2.5), ((0.0,), "text")])
def test_equal_ops_have_equal_identities(value: Any) -> None:
    identities = OpIdentities()
    assert identities.of(_Scale(value)) == identities.of(_Scale(value))
    assert hash(identities.of(_Scale(value))) == hash(identities.of(_Scale(value)))


@pytest.mark.parametrize(
    ("one", "other"),
    [(0.0, -0.0), (1, True), (1, 1.0), ((0.0,), (-0.0,)), (1.0, math.nextafter(1, 2))],
)
def test_numbers_differ_by_type_and_sign(one: Any, other: Any) -> None:
    identities = OpIdentities()
    assert identities.of(_Scale(one)) != identities.of(_Scale(other))
