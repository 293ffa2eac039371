"""Compiled functions inside transforms, transforms inside compiled functions, and both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import X, Y, check

import ingot.core as mx
from ingot.compiler.run.program import Compiled


def test_transforms_of_compiled_functions() -> None:
    compiled = mx.compile(lambda x: (x * mx.sin(x)).sum())
    plain = lambda x: (x * mx.sin(x)).sum()  # noqa: E731
    check(mx.grad(compiled)(X), mx.grad(plain)(X))
    check(mx.value_and_grad(compiled)(X)[1], mx.grad(plain)(X))
    check(mx.vmap(compiled)(mx.stack([X, Y])), mx.vmap(plain)(mx.stack([X, Y])))
    check(mx.vjp(compiled, [X], [mx.array(2.0)])[1][0], mx.grad(plain)(X) * 2)
    check(mx.jvp(compiled, [X], [Y])[1][0], (mx.grad(plain)(X) * Y).sum())
    check(
        mx.grad(lambda x: mx.grad(compiled)(x).sum())(X),
        mx.grad(lambda x: mx.grad(plain)(x).sum())(X),
    )
    assert compiled.cache_info().misses == 0


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: mx.grad(f),
        lambda f: mx.value_and_grad(f),
        lambda f: mx.vmap(f),
        lambda f: lambda x: mx.jvp(f, [x], [x]),
        lambda f: lambda x: mx.vjp(f, [x], [mx.array(1.0)]),
        lambda f: mx.grad(lambda x: mx.grad(f)(x).sum()),
        lambda f: mx.vmap(mx.grad(lambda x: f(x) * 1)),
        lambda f: mx.checkpoint(f),
        lambda f: mx.grad(mx.checkpoint(f)),
    ],
)
def test_transforms_can_be_compiled_again(transformed: Any) -> None:
    function = lambda x: (x * mx.sin(x)).sum()  # noqa: E731
    expected = transformed(function)(X)
    compiled = mx.compile(transformed(mx.compile(function)))
    for _ in range(3):
        found = compiled(X)
        leaves = zip(_leaves(found), _leaves(expected), strict=True)
        for one, other in leaves:
            check(one, other)
    assert compiled.cache_info().misses == 1


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in _leaves(item)]
    return [tree]


def test_the_outermost_compiled_function_sees_the_whole_graph() -> None:
    inner = mx.compile(lambda x: mx.exp(-mx.abs(x)))
    outer = mx.compile(lambda x: inner(inner(x)) + inner(x))
    check(outer(X), inner(inner(X)) + inner(X))
    explanation = outer.explain(X)
    assert "Compiled" not in explanation.stages.traced.text()
    assert len(explanation.kernels) == 1
    assert [type(step.op).__name__ for step in explanation.stages.simplified.steps].count(
        "Exp"
    ) == 2


def test_a_compiled_function_that_closes_over_what_a_transform_follows() -> None:
    def function(x: Any) -> Any:
        compiled = mx.compile(lambda y: (x * y).sum())
        return compiled(Y)

    check(mx.grad(function)(X), Y)
    check(mx.vmap(lambda x: mx.compile(lambda y: x * y)(Y))(X), np.outer(np.array(X), np.array(Y)))

    constant = mx.compile(lambda y: (x0 * y).sum())  # type: ignore[has-type]
    x0 = X
    check(mx.grad(lambda x: constant(Y) * x.sum())(X), [11.0, 11.0])


def test_functions_with_rules_of_their_own_are_fused_away() -> None:
    @mx.custom_function
    def halved(x: Any) -> Any:
        return x * 0.5

    @halved.vjp
    def _(primals: Any, cotangents: Any, outputs: Any) -> Any:
        return cotangents * 100.0

    compiled = mx.compile(lambda x: mx.exp(halved(x)) + 1)
    check(compiled(X), np.exp(np.array(X) * 0.5) + 1)
    explanation = compiled.explain(X)
    assert "CustomFunction" not in str(explanation)
    assert len(explanation.kernels) == 1
    check(mx.compile(mx.grad(lambda x: halved(x).sum()))(X), [100.0, 100.0])


@pytest.mark.parametrize("rule", ["vjp", "jvp", "vmap"])
def test_the_compiled_op_refuses_transforms(rule: str) -> None:
    op = Compiled(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\[") as caught:
        getattr(op, rule)()
    assert str(caught.value) == (
        f"[Compiled] has no {rule} rule: a compiled function called under another transform is "
        "traced through instead; transform the function first and compile the result."
    )


def test_results_are_lazy_and_can_be_used_by_eager_code() -> None:
    compiled = mx.compile(lambda x: (x + 1, x * 2))
    first, second = compiled(X)
    assert not first._node.evaluated
    check(first + second + compiled(first)[0], np.array([1 + 1 + 2, 2 + 1 + 4]) + [3, 4])
