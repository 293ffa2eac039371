"""`cond` and `switch` against Python's `if`."""

from __future__ import annotations

from typing import Any

import pytest
from tests.transforms.control.unrolled import close

import ingot.core as mx


def chosen(x: mx.array) -> mx.array:
    return mx.cond(x > 0, lambda x: x**3, lambda x: -x * mx.sin(x), x)


def chosen_in_python(x: mx.array) -> mx.array:
    return x**3 if x.item() > 0 else -x * mx.sin(x)


@pytest.mark.parametrize("value", [2.0, -2.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_values_and_derivatives(value: float, compiled: bool) -> None:
    x = mx.array(value)
    wrap = mx.compile if compiled else lambda f: f
    for derive in (lambda f: f, mx.grad, lambda f: mx.grad(mx.grad(f))):
        close(wrap(derive(chosen))(x), derive(chosen_in_python)(x), 1e-5)
    close(mx.jvp(chosen, (x,), (x,)), mx.jvp(chosen_in_python, (x,), (x,)), 1e-5)


def test_only_the_chosen_branch_is_computed() -> None:
    x = mx.arange(3.0)
    safe = mx.compile(lambda i: mx.cond(i < 3, lambda: mx.take(x, i), lambda: mx.array(-1.0)))
    assert safe(mx.array(1)).item() == 1
    assert safe(mx.array(7)).item() == -1  # the other one would raise


def test_vmap_selects() -> None:
    xs = mx.array([1.0, -2.0, 3.0, -4.0])
    close(mx.vmap(chosen)(xs), mx.stack([chosen_in_python(x) for x in xs]))
    close(mx.vmap(mx.grad(chosen))(xs), mx.stack([mx.grad(chosen_in_python)(x) for x in xs]), 1e-5)
    # the condition is the same for all
    found = mx.vmap(lambda x: mx.cond(mx.array(True), lambda x: x + 1, lambda x: x, x))(xs)
    close(found, xs + 1)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_switch(index: int) -> None:
    branches = [lambda x: (x, x * 2), lambda x: (x + 1, x), lambda x: (x - 1, -x)]
    x = mx.array([1.0, 2.0])
    expected = branches[min(max(index, 0), 2)](x)
    close(mx.switch(index, branches, x), expected)
    close(mx.compile(lambda i: mx.switch(i, branches, x))(mx.array(index)), expected)
    indices = mx.array([0, 2, 1])
    found = mx.vmap(lambda i: mx.switch(i, branches, x))(indices)
    close(found, tuple(mx.stack([branches[i](x)[n] for i in (0, 2, 1)]) for n in (0, 1)))


def test_unsigned_indices_out_of_range() -> None:
    branches = [lambda x: x + 1, lambda x: x * 10]
    index = mx.array(4_000_000_000, mx.uint32)
    assert mx.switch(index, branches, mx.array(3.0)).item() == 30


def test_captured_arrays_have_gradients() -> None:
    def loss(w: mx.array, b: mx.array) -> mx.array:
        return mx.cond(w.sum() > 0, lambda x: (x * w).sum(), lambda x: (x * b).sum(), mx.ones((2,)))

    w, b = mx.array([1.0, 2.0]), mx.array([3.0, 4.0])
    found = mx.grad(loss, (0, 1))(w, b)
    assert [x.tolist() for x in found] == [[1, 1], [0, 0]]


def test_random_state_advances_as_in_the_branch_taken() -> None:
    for holds in (True, False):
        mx.random.seed(5)
        found = mx.cond(mx.array(holds), lambda: mx.random.uniform(), lambda: mx.array(0.0))
        after = mx.random.uniform()
        mx.random.seed(5)
        expected = mx.random.uniform() if holds else mx.array(0.0)
        close((found, after), (expected, mx.random.uniform()))


def test_in_loops() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        return mx.cond(x > 0, lambda c: c * 0.5 + x, lambda c: mx.sin(c), c), c

    xs = mx.array([1.0, -1.0, 2.0, -0.5])

    def in_python(w: mx.array) -> mx.array:
        c = w
        for x in xs.tolist():
            c = c * 0.5 + x if x > 0 else mx.sin(c)
        return c

    def loss(w: mx.array) -> mx.array:
        return mx.scan(step, w, xs)[0]

    w = mx.array(0.3)
    close(mx.value_and_grad(loss)(w), mx.value_and_grad(in_python)(w))
    close(mx.compile(mx.grad(loss))(w), mx.grad(in_python)(w))


def test_errors() -> None:
    x = mx.array([1.0, 2.0])
    with pytest.raises(ValueError, match=r"float32 of shape \(2\) in false_fun and int32"):
        mx.cond(True, lambda x: x.astype(mx.int32), lambda x: x, x)
    with pytest.raises(ValueError, match="false_fun returns array and true_fun"):
        mx.cond(True, lambda x: (x, x), lambda x: x, x)
    with pytest.raises(ValueError, match=r"mx\.where"):
        mx.cond(x > 0, lambda x: x, lambda x: x, x)
    with pytest.raises(ValueError, match="at least one branch"):
        mx.switch(0, [], x)
    with pytest.raises(ValueError, match="an array of one int"):
        mx.switch(mx.array(0.5), [lambda x: x], x)
