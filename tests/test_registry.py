"""Every registered op has every rule, or a reason why not."""

from __future__ import annotations

import dataclasses

import pytest

import ingot.core as mx
from ingot.graph.op import RULES, Missing, Op, registry

OPS = sorted(
    (name, kind) for name, kind in registry().items() if kind.__module__.startswith("ingot.")
)


@pytest.mark.parametrize(("name", "kind"), OPS, ids=[name for name, _ in OPS])
class TestEveryOp:
    @pytest.mark.parametrize("rule", RULES)
    def test_has_the_rule_or_a_reason(self, name: str, kind: type[Op], rule: str) -> None:
        found = getattr(kind, rule, None)
        if isinstance(found, Missing):
            assert len(found.reason.split()) >= 3, f"{name}.{rule} does not say why it is missing"
            assert not found.reason.endswith(".")
            assert rule not in ("infer", "evaluate"), f"{name} cannot be without {rule}"
        else:
            assert callable(found), f"{name} lacks the rule {rule}"

    def test_is_immutable_and_described(self, name: str, kind: type[Op]) -> None:
        if dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
            assert kind.__dataclass_params__.frozen, f"the parameters of {name} can be changed"
        assert kind.__doc__
        assert not kind.__doc__.startswith(f"{name}("), f"{name} has no docstring of its own"


def test_a_missing_rule_raises_its_reason() -> None:
    with pytest.raises(
        ValueError, match=r"\[Bitcast\] has no vjp rule: bits are not a smooth function"
    ):
        mx.grad(lambda x: mx.view(mx.view(x, mx.int32), mx.float32).sum())(mx.array([1.0]))
