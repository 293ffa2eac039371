"""The rules of every op: derivatives against finite differences and MLX, vmap against a loop."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.support.derivative_checks import (
    Function,
    Point,
    check_first_order,
    check_second_order,
    check_vmap,
    check_vmap_everywhere,
    exact,
    gradient_of,
    value,
)
from tests.transforms.examples.example import Example
from tests.transforms.examples.ops import ELSEWHERE, TWINS
from tests.transforms.examples.search import ALL_EXAMPLES as EXAMPLES

import ingot.core as mx
import ingot.ops
from ingot.graph.op import Missing, Op, apply, registry
from ingot.graph.outputs import apply_multiple

SIZE = 3  # of batches


def function_of(example: Example) -> Function:
    """The op as a function of its inputs that returns a list."""
    op = example.op
    if op.several_outputs:
        return lambda *inputs: list(apply_multiple(op, *inputs))
    return lambda *inputs: [apply(op, *inputs)]


def has_derivative(example: Example) -> bool:
    """Whether there is something to differentiate by, and a rule for it."""
    if isinstance(type(example.op).vjp, Missing) or example.stops:
        return False
    return any(x.dtype == np.float64 for x in example.primals(0))


DIFFERENTIABLE = [example for example in EXAMPLES if has_derivative(example)]
MAPPED = [example for example in EXAMPLES if example.has_vmap]
IN_MLX = [
    example for example in EXAMPLES if (has_derivative(example) or example.stops) and example.mlx
]


def test_every_op_has_an_example() -> None:
    # Modules that are imported on first use register their ops late.
    for module in walk_packages(ingot.ops.__path__, "ingot.ops."):
        import_module(module.name)
    shown = {type(example.op).__name__ for example in EXAMPLES}
    shown.update(type(op).__name__ for op, _, _ in TWINS)
    # Ops of the compiler are held by programs only, and tests make ops of their own.
    own = [
        name
        for name, kind in registry().items()
        if kind.__module__.startswith("ingot.") and not kind.__module__.startswith("ingot.compiler")
    ]
    missing = sorted(set(own) - shown - set(ELSEWHERE))
    assert not missing, f"add examples to examples/ops.py for {', '.join(missing)}"
    assert not shown & set(ELSEWHERE)


def test_examples_without_vmap_have_a_reason() -> None:
    for example in EXAMPLES:
        if not example.has_vmap:
            assert isinstance(type(example.op).vmap, Missing)


@pytest.mark.parametrize("example", DIFFERENTIABLE, ids=str)
def test_first_derivatives(example: Example) -> None:
    check_first_order(Point(function_of(example), example.primals(1)), example.step)


@pytest.mark.parametrize("example", DIFFERENTIABLE, ids=str)
def test_second_derivatives(example: Example) -> None:
    point = Point(function_of(example), example.primals(2))
    if point(*map(exact, point.here)):
        check_second_order(point, example.step)


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.stops], ids=str)
def test_stopped_derivatives(example: Example) -> None:
    point = Point(function_of(example), example.primals(1))
    here = [exact(x) for x in point.here]
    outputs, changes = mx.jvp(point, here, here)
    _, pulled = mx.vjp(point, here, outputs)
    for x in (*changes, *pulled):
        assert not value(x).any()


@pytest.mark.parametrize(("op", "twin", "make"), TWINS, ids=[repr(op) for op, _, _ in TWINS])
def test_twins_have_the_same_rules(op: Op, twin: Op, make: Any) -> None:
    x = mx.array(make(np.random.default_rng(8)).astype(np.float32))
    (found,), (expected,) = (
        mx.vjp(lambda x, op=op: apply(op, x), [x], [x])[1] for op in (op, twin)
    )
    np.testing.assert_allclose(value(found), value(expected), rtol=1e-5)
    (found,), (expected,) = (
        mx.jvp(lambda x, op=op: apply(op, x), [x], [x])[1] for op in (op, twin)
    )
    np.testing.assert_allclose(value(found), value(expected), rtol=1e-5)
    batch = mx.stack([x, x[::-1]])
    mapped = mx.vmap(lambda x: apply(op, x))(batch)
    np.testing.assert_array_equal(value(mapped), [value(apply(op, x)) for x in batch])


@pytest.mark.parametrize("example", MAPPED, ids=str)
def test_vmap(example: Example) -> None:
    check_vmap_everywhere(function_of(example), example.batches(3, SIZE))


@pytest.mark.parametrize("example", MAPPED, ids=str)
def test_vmap_of_vmap(example: Example) -> None:
    rows = [example.batches(4 + SIZE * k, SIZE) for k in range(2)]
    batches = [np.stack(column) for column in zip(*rows, strict=True)]
    function = function_of(example)
    check_vmap(mx.vmap(function), batches, [0] * len(batches))
    if len(batches) > 1:
        # The outer batch in the first input only, the inner one in the others.
        inner_axes = (None, *[0] * (len(batches) - 1))
        outer_axes = (0, *[None] * (len(batches) - 1))
        nested = mx.vmap(function, in_axes=inner_axes)
        check_vmap(nested, [batches[0][:, 0], *batches[1:]], outer_axes)


@pytest.mark.parametrize(
    "example", [example for example in DIFFERENTIABLE if example.has_vmap], ids=str
)
def test_vmap_of_gradients(example: Example) -> None:
    batches = example.batches(5, SIZE)
    point = Point(function_of(example), [x[0] for x in batches])
    if not point(*map(exact, point.here)):
        return
    gradient = gradient_of(point)
    gradient(*map(exact, point.here))  # fixes the weights
    check_vmap(gradient, [batches[k] for k in point.varied], [0] * len(point.varied))


@pytest.mark.parametrize("example", IN_MLX, ids=str)
def test_gradients_equal_mlx(example: Example) -> None:
    primals = [x.astype(np.float32) if x.dtype == np.float64 else x for x in example.primals(6)]
    varied = [k for k, x in enumerate(primals) if x.dtype == np.float32]

    def pulled(module: Any) -> list[Any]:
        def function(*inputs: Any) -> Any:
            arguments: list[Any] = [module.array(x) for x in primals]
            for k, x in zip(varied, inputs, strict=True):
                arguments[k] = x
            outputs = example.mlx(module, *arguments)
            found = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
            return [x for x in found if x.dtype == module.float32]

        here = [module.array(primals[k]) for k in varied]
        outputs = function(*here)
        random = np.random.default_rng(7)
        weights = [module.array(random.normal(size=x.shape).astype(np.float32)) for x in outputs]
        return module.vjp(function, here, weights)[1] if outputs else []

    for found, expected in zip(pulled(mx), pulled(mlx), strict=True):
        np.testing.assert_allclose(value(found), np.array(expected), rtol=2e-5, atol=2e-5)
