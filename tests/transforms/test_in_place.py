"""In-place updates and assignment to indices under the transforms; old graphs are kept."""

from __future__ import annotations

from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from tests.support.derivative_checks import Point, check_first_order, check_second_order

import ingot.core as mx

X = np.array([0.5, 1.5, -2.0, 3.0], np.float32)


def augmented(m: Any, x: Any) -> Any:
    y = x
    y = y * 2
    y += x
    y *= y
    y -= 1
    y /= x
    return y


def set_element(m: Any, x: Any) -> Any:
    y = x * 1
    y[1] = x[0] * x[2]
    return y * y


def set_slice(m: Any, x: Any) -> Any:
    y = m.zeros((4,)) + 0 * x
    y[1:3] = x[2:] * x[:2]
    y[::-3] = x[:2]
    return y * x


def set_rows(m: Any, x: Any) -> Any:
    table = m.zeros((3, 4)) + 0 * x[0]
    table[1] = x
    table[:, 2] = x[:3] * 3
    table[2, 1:] += x[1:]
    return table * table


def set_by_indices(m: Any, x: Any) -> Any:
    y = x * 1
    y[m.array([3, 0])] = x[:2] * x[1:3]
    return y * y


def add_at(m: Any, x: Any) -> Any:
    return x.at[m.array([1, 1, 0])].add(x[:3] * 2) ** 2


def multiply_at(m: Any, x: Any) -> Any:
    return x.at[m.array([1, 3])].multiply(x[:2]) ** 2


def overwrite_all(m: Any, x: Any) -> Any:
    y = x * x
    z = y * 1
    y[:] = 7.0
    return y * x + z


def set_where(m: Any, x: Any) -> Any:
    y = x * 1
    y[x > 1] = 4.0
    return y * x


FUNCTIONS = [
    augmented,
    set_element,
    set_slice,
    set_rows,
    set_by_indices,
    add_at,
    multiply_at,
    overwrite_all,
    set_where,
]


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS if f not in (multiply_at, set_where)],  # MLX has no derivative of these
    ids=lambda f: f.__name__,
)
def test_gradients_equal_mlx(function: Any) -> None:
    found, expected = (m.grad(lambda x, m=m: function(m, x).sum())(m.array(X)) for m in (mx, mlx))
    np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-5)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_derivatives_equal_differences(function: Any) -> None:
    def exactly(x: mx.array) -> list[mx.array]:
        return [function(_Doubles, x)]

    point = Point(exactly, [X.astype(np.float64)])
    check_first_order(point, 1e-4)
    check_second_order(point, 1e-4)


class _Doubles:
    """ingot.core with zeros of float64."""

    array = mx.array

    @staticmethod
    def zeros(shape: tuple[int, ...]) -> mx.array:
        return mx.zeros(shape, dtype=mx.float64)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_vmap_equals_a_loop(function: Any) -> None:
    batch = np.stack([X, X + 1, X * 2])
    found = mx.vmap(lambda x: function(mx, x), in_axes=1)(mx.array(batch.T))
    looped = [np.array(function(mx, mx.array(row))) for row in batch]
    np.testing.assert_allclose(np.array(found), np.stack(looped), rtol=1e-6)


@pytest.mark.parametrize("update", ["+=", "[]"])
def test_the_argument_itself_may_be_updated(update: str) -> None:
    def loss(x: mx.array) -> mx.array:
        if update == "+=":
            x += x[0]
        else:
            x[0] = 5.0
        return (x * x).sum()

    argument = mx.array(X)
    found = np.array(mx.grad(loss)(argument))
    expected = 2 * (X + X[0]) if update == "+=" else 2 * X
    expected[0] = expected[0] + 2 * (X + X[0]).sum() if update == "+=" else 0
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.array(argument), X)


def test_parameters_in_a_tree_may_be_updated() -> None:
    def loss(p: Any) -> mx.array:
        p["a"] += 1
        p["a"][0] = p["b"][1]
        return (p["a"] * p["a"] * p["b"]).sum()

    tree = {"a": mx.array([1.0, 2.0, 3.0]), "b": mx.array([1.0, 2.0, 3.0])}
    given = tree["a"]
    found = mx.grad(loss)(tree)
    assert found["a"].tolist() == [0, 12, 24]
    assert found["b"].tolist() == [4, 13, 16]
    assert tree["a"].tolist() == [2, 3, 4]
    assert given.tolist() == [1, 2, 3]


def test_what_is_captured_may_be_updated() -> None:
    table = mx.zeros((3,))

    def loss(x: mx.array) -> mx.array:
        table[1] = x[0] * x[1]
        return (table * table).sum()

    np.testing.assert_allclose(np.array(mx.grad(loss)(mx.array([2.0, 3.0]))), [36, 24])
    assert table.tolist() == [0, 6, 0]


def test_graphs_that_were_built_before_an_update_keep_the_old_value() -> None:
    def loss(x: mx.array) -> mx.array:
        y = x * x
        before = y.sum()
        y[0] = 100.0
        return before + (y * 0).sum()

    np.testing.assert_allclose(np.array(mx.grad(loss)(mx.array(X))), 2 * X)


def test_vmap_of_gradients_of_updates() -> None:
    def loss(x: mx.array, i: mx.array) -> mx.array:
        y = x * x
        y[i] = x[0]
        return (y * y).sum()

    batch = np.stack([X, X + 1])
    places = np.array([2, 0])
    found = mx.vmap(mx.grad(loss))(mx.array(batch), mx.array(places))
    looped = [
        np.array(mx.grad(loss)(mx.array(row), mx.array(int(i))))
        for row, i in zip(batch, places, strict=True)
    ]
    np.testing.assert_allclose(np.array(found), np.stack(looped), rtol=1e-6)


class TestResultsAreArraysOfTheirOwn:
    """Assigning to a result changes no other result, and no argument."""

    def check(self, *arrays: mx.array) -> None:
        before = [np.array(x) for x in arrays]
        for number, x in enumerate(arrays):
            x += 100
            for other, value in zip(arrays[number + 1 :], before[number + 1 :], strict=True):
                np.testing.assert_array_equal(np.array(other), value)

    def test_gradients(self) -> None:
        x, y = mx.array(X), mx.array(X)
        self.check(*mx.grad(lambda x, y: (x + y).sum(), argnums=(0, 1))(x, y), x, y)
        value, gradient = mx.value_and_grad(lambda x: x)(mx.array(2.0))
        self.check(value, gradient, *mx.grad(lambda x: x)(mx.array([2.0]).reshape(()))[None])

    def test_vjp(self) -> None:
        x, y, c = mx.array(X), mx.array(X), mx.array(X)
        outputs, pulled = mx.vjp(lambda x, y: [x, x, x + y], [x, y], [c, c, c])
        self.check(*outputs, *pulled, x, y, c)

    def test_jvp(self) -> None:
        x, t = mx.array(X), mx.array(X)
        outputs, changes = mx.jvp(lambda x: [x, x], [x], [t])
        self.check(*outputs, *changes, x, t)

    def test_vmap(self) -> None:
        x, other = mx.array(X), mx.array(X)
        found = mx.vmap(lambda x: (x, x, other, other), out_axes=(0, 0, None, None))(x)
        self.check(*found, x, other)

    def test_custom_functions(self) -> None:
        function = mx.custom_function(lambda x: (x, x))
        function.vjp(lambda primal, cotangents, outputs: cotangents[0])
        x = mx.array(X)
        self.check(*function(x), *mx.checkpoint(lambda x: (x, x))(x), x)
