"""Repeats: equal groups share a loop nest, groups that differ in anything that nests hold do not.

Results are compared with NumPy's: a nest that is shared although it must not be computes the first
group's values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.forms.nests import Nests

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 6)).astype(np.float32)
LONG = RNG.standard_normal((300, 700)).astype(np.float32)


def nests_of(function: Any, *args: Any) -> Nests:
    found: Nests = mx.compile(function).explain(*map(mx.array, args)).stages.nests
    return found


def layers(function: Callable[..., Any], count: int = 4) -> Callable[..., Any]:
    """A function several times over; sorting between the calls keeps their kernels apart."""

    def repeated(x: Any, *weights: Any) -> Any:
        for weight in weights * count:
            x = mx.sort(function(x, weight), axis=-1)
        return x

    return repeated


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: mx.tanh(x * w) + 1,
        lambda x, w: mx.softmax(x + w, axis=-1),
        lambda x, w: mx.sum(x * w, axis=0, keepdims=True) + x,
        lambda x, w: mx.tanh(x @ w + w),
        lambda x, w: x.at[mx.array([1, 2])].add(w[:2]),
        lambda x, w: mx.concatenate([x[3:] * w[:3], w[3:]], axis=0),
    ],
    ids=["map", "rows", "columns", "product", "scatter", "assembled"],
)
def test_equal_layers_share_their_nests(function: Any) -> None:
    one = nests_of(layers(function, 1), X, X * 0.1)
    many = nests_of(layers(function, 7), X, X * 0.1)
    assert len(many.kernels) == 7 * len(one.kernels) > 0
    # the last layer alone may be given its memory in another way
    assert len({id(kernel.nest) for kernel in many.kernels}) <= len(one.kernels) + 1


def test_kernels_of_a_shared_nest_name_their_own_values() -> None:
    nests = nests_of(layers(lambda x, w: mx.tanh(x * w)), X, X)
    first, second, *_ = nests.kernels
    assert first.nest is second.nest
    assert first.operands != second.operands
    names = {step: f"v{n}" for n, step in enumerate(nests.schedule.tape.steps)}
    texts = [each.text("kernel", lambda step: names.get(step)) for each in (first, second)]  # type: ignore[arg-type]
    for kernel, text in zip((first, second), texts, strict=True):
        for step in kernel.operands:
            assert step is not None
            assert names[step] in text
    assert texts[0] != texts[1]


def _chain(x: Any, *steps: Callable[[Any], Any]) -> Any:
    for step in steps:
        x = mx.sort(step(x), axis=-1)
    return x


@pytest.mark.parametrize(
    "steps",
    [
        (lambda x: x * 2, lambda x: x * 3, lambda x: x * -3),
        (lambda x: 1 / (x * 0.0), lambda x: 1 / (x * -0.0)),
        (lambda x: x + mx.array(1.0), lambda x: x + mx.broadcast_to(mx.array(2.0), x.shape)),
        (lambda x: x - x.T, lambda x: x.T - x, lambda x: x - x),
        (lambda x: mx.sum(x, axis=0) + x, lambda x: mx.sum(x, axis=1) + x),
        (
            lambda x: x + mx.arange(6),
            lambda x: x + mx.arange(1, 7),
            lambda x: x + mx.arange(0, 12, 2),
        ),
        (lambda x: x @ x, lambda x: x @ x.T, lambda x: x.T @ x),
        (lambda x: x[:, mx.array([0, 1, 2, 3, 4, 5])] * 2, lambda x: x[mx.array([5] * 6)] * 2),
        (lambda x: x[::-1] * 1.5, lambda x: x[:, ::-1] * 1.5),
    ],
    ids=[
        "factors",
        "signs of zero",
        "constants through views",
        "which operand is which",
        "axes",
        "positions",
        "transposed",
        "gathered axes",
        "directions",
    ],
)
def test_groups_that_differ_are_not_shared(steps: tuple[Any, ...]) -> None:
    compiled = mx.compile(lambda x: _chain(x, *steps))
    expected = X
    for step in steps:
        with mx.stream(mx.cpu):
            expected = np.sort(np.array(step(mx.array(expected))), axis=-1)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(np.array(compiled(mx.array(X))), expected, rtol=1e-4, atol=1e-4)


def test_inputs_that_are_copied_first_are_found_again() -> None:
    """Sums over a long stride copy their input; the second such sum must copy its own."""

    def sums(x: Any, y: Any) -> Any:
        return [mx.sum(mx.exp(z.T), axis=-1) for z in (x, y)]

    found = mx.compile(sums)(mx.array(LONG), mx.array(LONG * 0.5))
    for value, z in zip(found, (LONG, LONG * 0.5), strict=True):
        np.testing.assert_allclose(np.array(value), np.exp(z.astype(np.float64)).sum(0), rtol=1e-5)
