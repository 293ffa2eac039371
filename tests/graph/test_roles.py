"""Roles: defining an op that lacks what its role asks for is an error that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph import op as op_module
from ingot.graph.op import Op, apply, no_rule, registry
from ingot.graph.roles import (
    ROLES,
    Assemble,
    Check,
    Elementwise,
    Gather,
    Host,
    Iota,
    Linear,
    Map,
    PairedMap,
    Pointwise,
    Product,
    Reduce,
    Scan,
    Scatter,
    View,
    role_of,
)

ASKED: dict[type[Op], set[str]] = {
    Map: {"emit"},
    PairedMap: {"emit", "paired_elements", "emit_pair"},
    View: {"layout"},
    Reduce: {"axes", "identity", "combine"},
    Scan: {"axis", "reverse", "inclusive", "identity", "step"},
    Gather: {"axes", "moved_strides", "emit_indices"},
    Scatter: {"axes", "position", "emit_index", "emit_combined"},
    Assemble: {"slices"},
    Iota: {"steps"},
    Check: {"evaluate"},
    Product: set(),
    Host: set(),
}


@pytest.fixture(autouse=True)
def _scratch_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops of these tests are not among those that other tests go through."""
    monkeypatch.setattr(op_module, "_registry", dict(op_module._registry))


def _given(names: set[str]) -> dict[str, Any]:
    return {name: (lambda self, *_: None) for name in names}


@pytest.mark.parametrize("role", ASKED, ids=lambda role: role.__name__)
class TestEveryRole:
    def test_takes_an_op_that_has_what_it_asks_for(self, role: type[Op]) -> None:
        made = type("Scratch", (role,), _given(ASKED[role]))
        assert registry()["Scratch"] is made
        assert issubclass(role_of(made), Op)

    def test_refuses_an_op_that_lacks_one_of_them(self, role: type[Op]) -> None:
        for missing in ASKED[role]:
            with pytest.raises(TypeError, match=rf"\[Scratch\] is a \w+ and lacks '{missing}'"):
                type("Scratch", (role,), _given(ASKED[role] - {missing}))
        assert "Scratch" not in registry()

    def test_says_what_to_write(self, role: type[Op]) -> None:
        assert "Write " in (role.__doc__ or "")
        assert role.__name__ not in registry()


def test_an_op_needs_a_role() -> None:
    with pytest.raises(TypeError, match=r"\[Homeless\] has no role: derive it from one of"):
        type("Homeless", (Op,), {})


def test_a_field_is_what_a_role_asks_for() -> None:
    @dataclass(frozen=True)
    class Named(Reduce):
        """A reduction whose axes are a field."""

        axes: tuple[int, ...]
        identity = 0

        def combine(self, k: Any, a: Any, b: Any) -> Any:
            return k.add(a, b)

    assert Named((1,)).infer(mx.zeros((2, 3))) == ((2, 1), mx.float32)
    with pytest.raises(ValueError, match=r"\[Named\] has no emit rule: a reduction is a loop"):
        Named((1,)).emit()


@pytest.mark.parametrize("kind", sorted(registry().values(), key=lambda kind: kind.__name__))
def test_every_op_has_one_role(kind: type[Op]) -> None:
    found = [role for role in ROLES if issubclass(kind, role)]
    if role_of(kind) is not Host and issubclass(role_of(kind), Host):
        found.remove(Host)  # what they are where there is no kernel for them
    assert found == [role_of(kind)]
    assert found[0] is not Map or callable(kind.emit)


def test_families_are_not_ops() -> None:
    for family in (Op, *ROLES, Elementwise, Pointwise, Linear):
        assert family.__name__ not in registry() or registry()[family.__name__] is not family


class TestNewReduction:
    """A new reduction is one class: it is inferred, differentiated, vmapped, fused and compiled."""

    @pytest.fixture
    def squares(self) -> Callable[[mx.array], mx.array]:
        @dataclass(frozen=True)
        class Parity(Reduce):
            """Whether an odd number of the elements along `axes` is set: their exclusive or."""

            axes: tuple[int, ...]

            identity: ClassVar[float] = 0

            def evaluate(self, x: np.ndarray) -> np.ndarray:
                return np.logical_xor.reduce(x, self.axes, keepdims=True)

            def combine(self, k: Any, a: Any, b: Any) -> Any:
                return k.bitwise_xor(a, b)

            vjp = no_rule("a flag has no derivative")
            jvp = no_rule("a flag has no derivative")

        return lambda x: apply(Parity((x.ndim - 1,)), x)

    def test_gives_what_numpy_gives(self, squares: Callable[[mx.array], mx.array]) -> None:
        flags = np.random.default_rng(0).random((64, 1001)) < 0.3
        expected = np.bitwise_xor.reduce(flags, 1, keepdims=True)

        def negated(x: mx.array) -> mx.array:
            return mx.logical_not(squares(mx.logical_not(x)))

        compiled = mx.compile(negated)
        x = mx.array(flags)
        assert len(compiled.explain(x).kernels) == 1
        outer = ~np.bitwise_xor.reduce(~flags, 1, keepdims=True)
        np.testing.assert_array_equal(np.asarray(compiled(x)), outer)
        np.testing.assert_array_equal(np.asarray(squares(x)), expected)
        np.testing.assert_array_equal(np.asarray(mx.vmap(squares)(x)), expected)
