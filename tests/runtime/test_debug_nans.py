"""`debug_nans`: the first op that makes a NaN or an infinity, found in every way to evaluate."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
import ingot.nn as nn
import ingot.optimizers as optim

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def checked() -> Iterator[None]:
    with mx.debug_nans():
        yield


def quotient(x: mx.array) -> mx.array:
    scaled = x * 2
    below = scaled - scaled
    result = mx.exp(-mx.abs(scaled)) / below  # the culprit
    return mx.where(mx.isnan(result), 0.0, result) + 1


CULPRIT = next(
    number
    for number, line in enumerate(Path(__file__).read_text().splitlines(), 1)
    if line.endswith("# the culprit")
)
X = [1.0, 0.5, -2.0]

WAYS: dict[str, Callable[[mx.array], Any]] = {
    "uncompiled": quotient,
    "compiled": mx.compile(quotient),
    "shapeless": mx.compile(quotient, shapeless=True),
    "nested": mx.compile(lambda x: mx.compile(quotient)(x * 1) + 1),
    "gradient": mx.grad(lambda x: quotient(x).sum()),
    "compiled gradient": mx.compile(mx.grad(lambda x: quotient(x).sum())),
    "gradient of compiled": mx.grad(lambda x: mx.compile(quotient)(x).sum()),
    "vmap": mx.vmap(quotient),
    "compiled vmap": mx.compile(mx.vmap(quotient)),
}


def problem_of(evaluate: Callable[[], Any]) -> str:
    with pytest.raises(FloatingPointError) as caught:
        evaluate()
    return str(caught.value)


@pytest.mark.parametrize("way", WAYS)
def test_the_op_and_the_line_are_named(way: str) -> None:
    text = problem_of(lambda: mx.eval(WAYS[way](mx.array(X))))
    first, *inputs, result = text.splitlines()
    assert first.startswith(
        "[debug_nans] an infinity came out of finite numbers: Divide(float32[3], float32[3]), "
    )
    assert f"made at {HERE}:{CULPRIT}: result = mx.exp(" in first
    powers = np.exp(-np.abs(np.float32(X) * 2))
    low, high = (f"{float(bound):.6g}"[:6] for bound in (powers.min(), powers.max()))
    assert re.search(rf"input 0: float32\[3\], from {low}\d* to {high}\d*, all finite", inputs[0])
    assert inputs[1] == "  input 1: float32[3], from 0 to 0, all finite"
    assert result == "  result: float32[3], nothing finite; 3 infinite of 3, the first at [0]"


def test_derivatives_name_the_line_of_the_function() -> None:
    def root(x: mx.array) -> mx.array:
        y = mx.sqrt(x)  # forward
        return y.sum()

    def line(way: Callable[..., Any]) -> str:
        return problem_of(lambda: mx.eval(way(mx.zeros(2)))).splitlines()[0]

    ways = [
        mx.grad(root),
        mx.compile(mx.grad(root)),
        mx.vmap(mx.grad(lambda x: mx.sqrt(x))),  # forward
        lambda x: mx.jvp(root, [x], [x + 1])[1],
        mx.grad(lambda x: mx.checkpoint(root)(x)),
    ]
    for way in ways[:4]:
        assert "# forward" in line(way)
    assert HERE in line(ways[4])


def test_async_evaluation_raises_where_the_value_is_needed() -> None:
    y = quotient(mx.array(X))
    mx.async_eval(y)
    assert "an infinity came out of finite numbers: Divide(" in problem_of(y.tolist)


def test_calls_that_were_compiled_before_are_checked() -> None:
    compiled = mx.compile(lambda x: mx.log(x) * 2)
    with mx.debug_nans(False):
        assert np.isneginf(compiled(mx.zeros(2)).tolist()).all()
    assert "an infinity came out of finite numbers: Log(" in problem_of(
        lambda: mx.eval(compiled(mx.zeros(2)))
    )
    assert "a NaN came out of finite numbers: Log(" in problem_of(
        lambda: mx.eval(compiled(-mx.ones(2)))
    )
    assert compiled(mx.ones(2)).tolist() == [0, 0]


def test_large_graphs_are_checked_op_by_op() -> None:
    x = mx.ones((300, 300))
    for _ in range(4):  # fused from the second time on without the check
        assert "a NaN came out of finite numbers: Sqrt(" in problem_of(
            lambda: mx.eval(mx.sqrt(x - 2) + x * 2)
        )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_all_inexact_dtypes(dtype: str) -> None:
    x = mx.ones((2, 3)).astype(getattr(mx, dtype))
    text = problem_of(lambda: mx.eval(x / (x - x)))
    assert dtype in text
    assert "from 0 to 0, all finite" in text


def test_overflow_is_an_infinity() -> None:
    assert "an infinity came out of finite numbers: AsType(" in problem_of(
        lambda: mx.eval(mx.array([1e6]).astype(mx.float16))
    )
    assert "an infinity came out of finite numbers: Matmul(" in problem_of(
        lambda: mx.eval(mx.full((2, 2), 3e38) @ mx.full((2, 2), 3e38))
    )


def test_a_mask_beside_finite_numbers_hides_nothing() -> None:
    mask = mx.array([-mx.inf, 0.0, 0.0])
    mx.eval(mask + mx.ones(3))
    large = mx.full((3,), 3e38)
    text = problem_of(lambda: mx.eval((mask + large) + large))
    assert "first at [1]" in text
    rows = mx.stack([mask, large])
    assert "an infinity came out of finite numbers: Sum(" in problem_of(
        lambda: mx.eval(rows.sum(axis=1))
    )
    mx.eval(rows[:1].sum(axis=1), rows.max(axis=1))


OF_INFINITIES: dict[str, tuple[str, Callable[[], Any]]] = {
    "difference": ("Subtract", lambda: mx.array([mx.inf]) - mx.array([mx.inf])),
    "a row that is masked": ("Subtract", lambda: mx.softmax(mx.full((2, 3), -mx.inf), -1)),
    "beside a NaN": ("Multiply", lambda: mx.array([mx.nan, mx.inf]) * mx.array([1.0, 0.0])),
    "a product": ("Matmul", lambda: mx.array([[mx.inf, 0.0]]) @ mx.zeros((2, 1))),
    "a sum": ("Sum", lambda: mx.array([[mx.nan, 1.0], [mx.inf, -mx.inf]]).sum(axis=1)),
    "a gradient": ("Multiply", lambda: mx.grad(lambda x: mx.exp(x * 0))(mx.array(mx.inf))),
}


@pytest.mark.parametrize("name", OF_INFINITIES)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_nan_of_infinities_is_an_error(name: str, compiled: bool) -> None:
    op, function = OF_INFINITIES[name]
    run = mx.compile(function) if compiled else function
    text = problem_of(lambda: mx.eval(run()))
    assert text.startswith(f"[debug_nans] a NaN came out of infinities: {op}(")


ON_PURPOSE: dict[str, Callable[[], Any]] = {
    "full": lambda: mx.full((3,), -mx.inf),
    "constants": lambda: [mx.array([mx.inf, mx.nan]), mx.array(-mx.inf) * 2],
    "of what is not finite": lambda: mx.array([mx.inf, mx.nan, -1.0]) + mx.array([mx.inf, 1.0, 1]),
    "where": lambda: mx.where(mx.arange(4) > 1, -mx.inf, mx.arange(4) * 1.0),
    "masked softmax": lambda: mx.softmax(mx.where(mx.tri(4, 4) > 0, mx.ones((4, 4)), -mx.inf)),
    "masked logsumexp": lambda: mx.logsumexp(mx.where(mx.tri(4, 4) > 0, 1.0, -mx.inf), axis=1),
    "maximum of a mask": lambda: mx.full((3, 2), -mx.inf).max(axis=1),
    "additive mask": lambda: nn.MultiHeadAttention.create_additive_causal_mask(5) + 1,
    "attention": lambda: mx.fast.scaled_dot_product_attention(
        *[mx.random.normal((1, 2, 5, 8))] * 3, scale=0.3, mask="causal"
    ),
    "bits": lambda: mx.view(mx.array([0x7FC00000], mx.int32), mx.float32),
    "empty": lambda: [mx.empty((4,)), mx.zeros((0, 3)).mean(axis=1), mx.exp(mx.zeros((0,)))],
    "random": lambda: [
        mx.random.normal((1000,)),
        mx.random.gumbel((1000,)),
        mx.random.laplace((1000,)),
        mx.random.truncated_normal(-1, 1, (1000,)),
        mx.random.categorical(mx.array([0.0, -mx.inf, 1.0]), num_samples=20),
    ],
    "losses": lambda: [
        nn.losses.cross_entropy(mx.random.normal((4, 5)), mx.array([0, 1, 2, 3])),
        nn.losses.binary_cross_entropy(mx.array([0.0, 50.0, -50.0]), mx.array([0.0, 1.0, 0.0])),
    ],
    "stable functions": lambda: [
        mx.sigmoid(mx.array([-200.0, 200.0])),
        mx.logaddexp(mx.array(-200.0), mx.array(200.0)),
        nn.gelu(mx.array([-50.0, 0.0, 50.0])),
        nn.silu(mx.array([-200.0, 0.0, 200.0])),
        nn.softplus(mx.array([-200.0, 0.0, 200.0])),
        mx.tanh(mx.array([-100.0, 100.0])),
    ],
}


@pytest.mark.parametrize("name", ON_PURPOSE)
@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_what_is_meant_passes(name: str, compiled: bool) -> None:
    function = ON_PURPOSE[name]
    mx.eval(mx.compile(function)() if compiled else function())


@pytest.mark.parametrize("compiled", [False, True], ids=["", "compiled"])
def test_training_passes_and_an_exploding_one_is_found(compiled: bool) -> None:
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = optim.AdamW(1e-2)
    x, y = mx.random.normal((16, 4)), mx.arange(16) % 3
    state = [model.state, optimizer.state]

    def loss(x: mx.array) -> mx.array:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    def step(x: mx.array) -> mx.array:
        value, gradients = nn.value_and_grad(model, loss)(x)
        optimizer.update(model, gradients)
        return value

    run = mx.compile(step, inputs=state, outputs=state) if compiled else step
    for _ in range(3):
        mx.eval(run(x), state)
    before = np.array(model.layers[0].weight)
    text = problem_of(lambda: mx.eval(run(x * 3e38), state))
    assert "came out of finite numbers" in text
    assert HERE in text
    assert np.isfinite(before).all()


def test_inputs_stay_as_they_were() -> None:
    """Nothing is taken over: what failed can be evaluated again, without the check."""
    x = mx.zeros((200, 200)) + 1
    mx.eval(x)
    y = mx.compile(lambda x: mx.log(x - 1) + x)(x)
    problem_of(lambda: mx.eval(y))
    mx.debug_nans(False)
    assert np.isneginf(np.array(y)).all()
    assert (np.array(x) == 1).all()


def test_the_setting_is_restored() -> None:
    bad = mx.zeros(1)
    with mx.debug_nans(False):
        mx.eval(1 / bad)
        with mx.debug_nans():
            problem_of(lambda: mx.eval(1 / bad))
        mx.eval(1 / bad)
    problem_of(lambda: mx.eval(1 / bad))
    mx.debug_nans(on=False)
    mx.eval(1 / bad)


def test_refusals() -> None:
    with pytest.raises(TypeError, match=r"\[debug_nans\] on must be True or False, got int: 1"):
        mx.debug_nans(1)  # type: ignore[arg-type]
