"""Sparse updates: only rows that were looked up change, and to the same bits as in dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import traced

import ingot.core as mx
import ingot.nn as nn
from ingot import optimizers
from ingot.compiler.options import Options
from ingot.compiler.passes import sparse_updates as module
from ingot.compiler.passes.simplify import simplify
from ingot.compiler.passes.sparse_updates import sparse_updates

ROWS, WIDTH = 4100, 24


def normal(*shape: int, dtype: Any = mx.float32) -> mx.array:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return mx.array(values).astype(dtype)


def indices(*shape: int) -> mx.array:
    """Few rows, so that most occur several times, and some are counted from the end."""
    return mx.array(np.random.default_rng(1).integers(-ROWS, ROWS, shape) % 40 - 20)


def gradient(table: mx.array, i: mx.array) -> mx.array:
    return mx.grad(lambda t: mx.sin(t[i] * 3).sum())(table)


def described(function: Any, *args: Any) -> list[Any]:
    options = Options()
    tape = sparse_updates(simplify(traced(function, *args).tape, options), options)
    tape.verify()
    return options.report.sparse


def assert_sparse(function: Any, *args: mx.array, times: int = 1) -> None:
    """It has sparse updates, whose results have the bits of dense ones."""
    assert len(described(function, *args)) == times
    found = mx.compile(function)(*args)
    mx.eval(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_is_sparse", lambda step: False)
        expected = mx.compile(lambda *args: function(*args))(*args)
        mx.eval(expected)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(*(np.array(x.astype(mx.float32)) for x in (a, b)))


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("shape", [(), (300,), (7, 9)])
def test_descent(shape: tuple[int, ...], dtype: Any) -> None:
    def step(table: mx.array, i: mx.array) -> tuple[mx.array, ...]:
        return (table - 0.1 * gradient(table, i),)

    assert_sparse(step, normal(ROWS, WIDTH, dtype=dtype), indices(*shape))


def test_learning_rates_that_are_arguments_and_casts() -> None:
    def step(table: mx.array, i: mx.array, rate: mx.array) -> tuple[mx.array, ...]:
        change = (gradient(table, i) / rate).astype(mx.float16).astype(mx.float32)
        return (table + -change * 0.5, rate + 1)

    assert_sparse(step, normal(ROWS, WIDTH), indices(50), mx.array(7.0))


def test_tables_with_more_axes_and_two_indices() -> None:
    def step(table: mx.array, i: mx.array, j: mx.array) -> tuple[mx.array, ...]:
        return (table - 0.1 * mx.grad(lambda t: (t[i, j] ** 3).sum())(table),)

    i = mx.array(np.random.default_rng(0).integers(0, 4, 30))
    assert_sparse(step, normal(30, 40, 8, 9), i, i + 3)


def test_two_tables_of_one_gradient() -> None:
    def adagrad(table: mx.array, v: mx.array, i: mx.array) -> tuple[mx.array, ...]:
        g = gradient(table, i)
        v = v + mx.square(g)
        return table - 0.1 * g / (mx.sqrt(v) + 1e-8), v

    assert_sparse(adagrad, normal(ROWS, WIDTH), mx.abs(normal(ROWS, WIDTH)), indices(99), times=2)


def kept_dense(name: str) -> Any:
    def step(table: mx.array, v: mx.array, i: mx.array) -> tuple[mx.array, ...]:
        g = gradient(table, i)
        results = {
            "momentum": lambda: (table - 0.1 * (0.9 * v + g),),
            "decay": lambda: (table - 0.1 * (g + 0.01 * table),),
            "the gradient is returned": lambda: (table - 0.1 * g, g),
            "its norm": lambda: (table - g * (1 / mx.linalg.norm(g)),),
            "a divisor that may be zero": lambda: (table - g / v,),
            "a factor for each element": lambda: (table - g * v,),
            "the wrong side": lambda: (0.1 * g - table,),
            "two lookups": lambda: (table - 0.1 * (g + gradient(table, i + 1)),),
            "no table": lambda: (g + 0.5 * g, g - mx.square(g)),
        }
        return results[name]()

    return step


@pytest.mark.parametrize(
    "name",
    [
        "momentum", "decay", "the gradient is returned", "its norm", "a divisor that may be zero",
        "a factor for each element", "the wrong side", "two lookups",
        "no table",
    ],
)  # fmt: skip
def test_what_changes_other_rows_stays_dense(name: str) -> None:
    args = normal(ROWS, WIDTH), mx.abs(normal(ROWS, WIDTH)), indices(99)
    assert not described(kept_dense(name), *args)
    found = mx.compile(kept_dense(name))(*args)
    for a, b in zip(found, kept_dense(name)(*args), strict=True):
        np.testing.assert_allclose(np.array(a), np.array(b), rtol=1e-5, atol=1e-6)


def test_many_rows_and_small_tables_stay_dense() -> None:
    def step(table: mx.array, i: mx.array) -> mx.array:
        return table - 0.1 * gradient(table, i)

    assert not described(step, normal(ROWS, WIDTH), indices(ROWS // 3))
    assert not described(step, normal(400, WIDTH), indices(20))
    assert described(step, normal(ROWS, WIDTH), indices(ROWS // 4))


def test_an_index_out_of_range_raises() -> None:
    def step(table: mx.array, i: mx.array, g: mx.array) -> mx.array:
        return table - mx.zeros((ROWS, WIDTH)).at[i].add(g)

    table, rows = normal(ROWS, WIDTH), normal(2, WIDTH)
    assert described(step, table, mx.array([0, 1]), rows)
    with pytest.raises(IndexError, match=f"index {ROWS} is out of range"):
        mx.eval(mx.compile(step)(table, mx.array([0, ROWS]), rows))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(ROWS, WIDTH)
        self.out = nn.Linear(WIDTH, 3)

    def __call__(self, x: mx.array) -> mx.array:
        return self.out(self.table(x))


def trained(optimizer: Any, is_compiled: bool) -> tuple[np.ndarray, Any]:
    """The table after three steps, and the explanation of the compiled step."""
    mx.random.seed(0)
    model = Model()
    optimizer.init(model.trainable_parameters())
    state = [model.state, optimizer.state]
    mx.eval(state)

    def loss(model: Model, x: mx.array) -> mx.array:
        return mx.square(model(x)).mean()

    def step(x: mx.array) -> mx.array:
        value, gradients = nn.value_and_grad(model, loss)(model, x)
        optimizer.update(model, gradients)
        return value

    function = mx.compile(step, inputs=state, outputs=state) if is_compiled else step
    for number in range(3):
        mx.eval(function(indices(5, 8) + number), state)
    text = str(function.explain(indices(5, 8))) if is_compiled else None
    return np.array(model.table.weight), text


@pytest.mark.parametrize(
    ("make", "is_sparse"),
    [
        (lambda: optimizers.SGD(0.1), True),
        (lambda: optimizers.SGD(optimizers.cosine_decay(0.1, 10)), True),
        (lambda: optimizers.Adagrad(0.1), True),
        (lambda: optimizers.SGD(0.1, momentum=0.9), False),
        (lambda: optimizers.SGD(0.1, weight_decay=0.1), False),
        (lambda: optimizers.Adam(0.1), False),
        (lambda: optimizers.RMSprop(0.1), True),
    ],
)
def test_training_steps(make: Any, is_sparse: bool) -> None:
    table, text = trained(make(), True)
    sentence = "only the rows that the gradient of test_sparse_updates.py"
    assert (sentence in text) is is_sparse
    assert (f"at most 40 of {ROWS:,}" in text) is is_sparse
    np.testing.assert_allclose(table, trained(make(), False)[0], rtol=1e-6, atol=1e-7)
