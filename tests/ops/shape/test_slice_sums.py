"""Cotangents of arrays that are read in slices: NumPy's sums, as concatenations where slices are
disjoint.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot.core as mx

ROWS, COLUMNS = 6, 10
Read = Callable[[Any], list[Any]]

# name -> what is read of an array, and whether cotangents are concatenated
READS: dict[str, tuple[Read, bool]] = {
    "all columns": (lambda x: [x[:, :3], x[:, 3:4], x[:, 4:]], True),
    "in another order": (lambda x: [x[:, 4:], x[:, :3], x[:, 3:4]], True),
    "with gaps": (lambda x: [x[:, 1:3], x[:, 5:7]], True),
    "rows": (lambda x: [x[i] for i in range(ROWS)], True),
    "one": (lambda x: [x[:, 2:5]], False),
    "overlapping": (lambda x: [x[:, :5], x[:, 3:]], False),
    "twice the same": (lambda x: [x[:, :5], x[:, :5], x[:, 5:]], True),
    "two axes": (lambda x: [x[:, :5], x[:3]], False),
    "corners": (lambda x: [x[:2, :5], x[2:, 5:]], False),
    "with strides": (lambda x: [x[:, ::2], x[:, 1::2]], False),
    "backwards": (lambda x: [x[:, ::-1], x[:, :5]], False),
    "besides all of it": (lambda x: [x[:, :5], x * 2, x[:, 5:]], False),
}


def weights(pieces: list[Any]) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(size=piece.shape).astype(np.float32) for piece in pieces]


def expected(read: Read) -> np.ndarray:
    """The gradient, element by element: what is read is linear."""
    gradient = np.empty(ROWS * COLUMNS, np.float32)
    for number in range(gradient.size):
        one = np.zeros(gradient.size, np.float32)
        one[number] = 1
        pieces = read(one.reshape(ROWS, COLUMNS))
        gradient[number] = sum((x * w).sum() for x, w in zip(pieces, weights(pieces), strict=True))
    return gradient.reshape(ROWS, COLUMNS)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", READS)
def test_gradients(name: str, compiled: bool) -> None:
    read, is_concatenation = READS[name]

    def loss(x: mx.array) -> mx.array:
        pieces = read(x)
        return sum(
            ((piece * mx.array(w)).sum() for piece, w in zip(pieces, weights(pieces), strict=True)),
            mx.array(0.0),
        )

    gradient = mx.grad(loss)
    x = mx.zeros((ROWS, COLUMNS))
    found = (mx.compile(gradient) if compiled else gradient)(x)
    np.testing.assert_allclose(np.array(found), expected(read), rtol=1e-6)
    if compiled:
        assert ("Concatenate" in str(mx.compile(gradient).explain(x))) == is_concatenation


def test_second_order_and_vmap() -> None:
    def value(x: mx.array) -> mx.array:
        a, b, c = mx.split(x, [3, 4], axis=-1)
        return (mx.sin(a).sum() * b.sum() + (c * c * c).sum()) * a.sum()

    def shifted(x: mx.array) -> mx.array:
        return mx.grad(lambda x: (mx.grad(value)(x) ** 2).sum())(x)

    rng = np.random.default_rng(2)
    xs = mx.array(rng.normal(size=(3, 7)).astype(np.float32))
    found = mx.vmap(shifted)(xs)
    direction = mx.array(rng.normal(size=(7,)).astype(np.float32))
    for x, gradient in zip(xs, found, strict=True):

        def along(t: float, x: mx.array = x) -> float:
            return float((mx.grad(value)(x + t * direction) ** 2).sum())

        slope = (along(1e-2) - along(-1e-2)) / 2e-2
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=0.02, abs=0.05)


def test_many_slices() -> None:
    """More than a concatenation takes: the rest is added."""
    count = 1100

    def loss(x: mx.array) -> mx.array:
        return sum((x[i] * i for i in range(count)), mx.array(0.0))

    found = mx.grad(loss)(mx.ones((count,)))
    np.testing.assert_array_equal(np.array(found), np.arange(count))
