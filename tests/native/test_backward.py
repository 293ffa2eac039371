"""The traversal of reverse mode: what it visits, what it refuses, and what it gives back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import ingot.core as mx
from ingot._native import Node, backward, between, follow, make, tracing
from ingot.graph.op import apply, no_rule
from ingot.graph.outputs import apply_multiple
from ingot.graph.roles import Host
from ingot.ops.elementwise.casting import Copy


@dataclass(frozen=True, eq=False)
class Scripted(Host):
    """An op whose vjp rule returns what it is told to."""

    rule: Any

    def infer(self, *inputs: mx.array) -> Any:
        return inputs[0].shape, inputs[0].dtype

    def evaluate(self, *inputs: Any) -> Any:
        return inputs[0]

    def vjp(self, cotangent: Any, out: Any, *inputs: Any) -> Any:
        return self.rule(cotangent, out, *inputs)

    jvp = no_rule("only its vjp is tested")
    vmap = no_rule("only its vjp is tested")
    emit = no_rule("only its vjp is tested")


@dataclass(frozen=True, eq=False)
class Twice(Scripted):
    """The same with its input as two outputs."""

    several_outputs = True

    def infer(self, *inputs: mx.array) -> Any:
        return ((inputs[0].shape, inputs[0].dtype),) * 2

    def evaluate(self, *inputs: Any) -> Any:
        return inputs[0], inputs[0]


@pytest.fixture(autouse=True)
def transform_is_running() -> Iterator[None]:
    """Values may be looked at without losing the graph."""
    with tracing:
        yield


def leaf(value: float = 1.0) -> mx.array:
    return follow(Copy(), [mx.array(value)])[0]


def pulled(output: Any, leaves: list[mx.array], cotangent: Any = None) -> list[Any]:
    outputs = output if isinstance(output, (list, tuple)) else [output]
    seeds = [mx.array(1.0) if cotangent is None else cotangent for _ in outputs]
    return backward(list(outputs), seeds, leaves)


def test_followed_arrays_are_tracers_with_the_same_values() -> None:
    x = mx.array([1.0, 2.0])
    fresh = follow(Copy(), [x, x])
    assert [y.tolist() for y in fresh] == [[1, 2]] * 2
    assert fresh[0]._node is not fresh[1]._node
    assert all(y._node.tracer for y in fresh)
    assert not x._node.tracer
    with pytest.raises(TypeError, match="expected an array"):
        follow(Copy(), [3])  # type: ignore[list-item]


def test_between_visits_paths_only_and_inputs_first() -> None:
    x, other = leaf(), leaf()
    constant = mx.exp(mx.array(2.0))
    y = x * constant
    z = y + other
    nodes = between([z, y], [x])
    assert nodes == [y._node, z._node]
    assert between([x], [x]) == []
    assert between([constant], [x]) == []
    assert between([z], [y]) == [z._node]


def test_rules_get_arrays_of_the_graph() -> None:
    seen: list[Any] = []

    def rule(*arguments: Any) -> Any:
        seen.append(arguments)
        return (arguments[0] * 2, None)

    x, constant = leaf(), mx.array(5.0)
    out = apply(Scripted(rule), x, constant)
    (found,) = pulled(out, [x])
    assert found.item() == 2
    (arguments,) = seen
    assert [a._node for a in arguments[1:]] == [out._node, x._node, constant._node]


def test_shares_may_be_functions_which_run_only_if_needed() -> None:
    runs: list[str] = []

    def rule(cotangent: Any, *_: Any) -> Any:
        def first() -> Any:
            runs.append("first")
            return cotangent * 3

        def second() -> Any:
            runs.append("second")
            return None

        return first, second

    x, y = leaf(), leaf()
    out = apply(Scripted(rule), x, y)
    assert pulled(out, [x])[0].item() == 3
    assert runs == ["first"]
    found = pulled(out, [x, y])
    assert found[1] is None
    assert runs == ["first", "first", "second"]


def test_cotangents_of_several_outputs() -> None:
    def rule(cotangents: Any, outs: Any, x: Any) -> Any:
        assert isinstance(outs, tuple)
        total = mx.array(0.0)
        for weight, cotangent in zip((1, 10), cotangents, strict=True):
            if cotangent is not None:
                total = total + cotangent * weight
        return (total,)

    x = leaf()
    first, second = apply_multiple(Twice(rule), x)
    assert pulled(first, [x])[0].item() == 1
    assert pulled(second, [x])[0].item() == 10
    assert pulled([first + second * second, second], [x])[0].item() == 31
    assert pulled([second, second], [x])[0].item() == 20


def test_missing_cotangents() -> None:
    x, y = leaf(), leaf()
    assert backward([x * y], [None], [x, y]) == [None, None]
    assert backward([], [], [x]) == [None]


@pytest.mark.parametrize(
    ("rule", "kind", "message"),
    [
        (lambda *_: 3, RuntimeError, "must return a tuple of 1; this is a bug"),
        (lambda *_: (None, None), RuntimeError, "must return a tuple of 1"),
        (
            lambda c, *_: (c.astype(mx.float16),),
            RuntimeError,
            r"dtype ingot.core.float16 for",
        ),
        (lambda c, *_: (c.reshape(1),), RuntimeError, r"of shape \(1,\) and dtype .* shape \(\)"),
        (lambda *_: (3,), TypeError, "not callable"),
        (lambda *_: (lambda: 3,), TypeError, "expected an array, got int"),
        (lambda *_: (lambda: [][0],), IndexError, "out of range"),
        (lambda *_: [][0], IndexError, "out of range"),
    ],
)
def test_what_rules_must_not_return(rule: Any, kind: type[Exception], message: str) -> None:
    x = leaf()
    with pytest.raises(kind, match=message):
        pulled(apply(Scripted(rule), x), [x])


def test_rules_may_traverse_themselves() -> None:
    def rule(cotangent: Any, out: Any, x: Any) -> Any:
        return (mx.grad(lambda y: y * y * cotangent)(x),)

    x = leaf(3.0)
    out = x
    for _ in range(3):
        out = apply(Scripted(rule), out)
    assert pulled(out, [x])[0].item() == 6**3


def test_many_inputs() -> None:
    xs = [leaf(float(k)) for k in range(20)]

    def rule(cotangent: Any, out: Any, *inputs: Any) -> Any:
        return tuple(cotangent * k for k in range(len(inputs)))

    found = pulled(apply(Scripted(rule), *xs), xs)
    assert [x.item() for x in found] == list(range(20))


def test_arguments() -> None:
    x = leaf()
    with pytest.raises(TypeError, match="backward takes outputs"):
        backward([x], (None,), [x])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected an array"):
        backward([3], [None], [x])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="between takes"):
        between([x])  # type: ignore[call-arg]


def test_references_are_balanced() -> None:
    x = leaf()

    def rule(cotangent: Any, *_: Any) -> Any:
        if cotangent.item() == 4:
            raise ValueError("stop")
        return (cotangent * 2,)

    out = apply(Scripted(rule), apply(Scripted(rule), apply(Scripted(rule), x)))
    node: Node = x._node
    before = sys.getrefcount(node)
    for _ in range(50):
        assert pulled(out, [x], mx.array(5.0))[0].item() == 40
        with pytest.raises(ValueError, match="stop"):
            pulled(out, [x])
    assert sys.getrefcount(node) == before


def test_graphs_without_ops_of_their_own() -> None:
    x = leaf()
    whole = make(Copy(), (x,), x.shape, x.dtype)
    assert pulled(whole, [x])[0].item() == 1
