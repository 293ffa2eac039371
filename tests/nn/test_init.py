"""Every initialiser against the real one: the same numbers for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nn.both import BOTH

import ingot.core as mx
import ingot.nn as nn

CASES = [
    ("constant", [0.5], (3, 4), {}),
    ("normal", [], (3, 4), {}),
    ("normal", [2.0, 0.1], (30,), {}),
    ("uniform", [], (3, 4), {}),
    ("uniform", [-2, 3], (3, 4), {}),
    ("identity", [], (4, 4), {}),
    ("glorot_normal", [], (3, 4), {}),
    ("glorot_normal", [], (3, 2, 5, 4), {"gain": 4.0}),
    ("glorot_uniform", [], (3, 4), {"gain": 2.0}),
    ("glorot_uniform", [], (3, 5, 4), {}),
    ("he_normal", [], (3, 4), {}),
    ("he_normal", [], (3, 2, 5, 4), {"mode": "fan_out", "gain": 5}),
    ("he_uniform", [], (3, 4), {}),
    ("he_uniform", [], (3, 2, 5, 4), {"mode": "fan_out", "gain": 5}),
    ("sparse", [0.5], (5, 6), {}),
    ("sparse", [0.3, 1.0, 2.0], (7, 10), {}),
]


@pytest.mark.parametrize(("name", "arguments", "shape", "options"), CASES)
def test_initializer_equals_mlx(
    name: str, arguments: list[Any], shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    results = []
    for library in BOTH:
        library.mx.random.seed(11)
        initializer = getattr(library.nn.init, name)(*arguments)
        results.append(np.array(initializer(library.mx.zeros(shape), **options)))
    ours, theirs = results
    assert ours.dtype == theirs.dtype
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["constant", "normal", "uniform", "identity", "he_normal"])
def test_dtype_is_chosen(name: str) -> None:
    arguments = [1.0] if name == "constant" else []
    initializer = getattr(nn.init, name)(*arguments, dtype=mx.float16)
    assert initializer(mx.zeros((4, 4))).dtype == mx.float16


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 2)])
def test_orthogonal_equals_mlx(shape: tuple[int, ...]) -> None:
    results = []
    for library in BOTH:
        library.mx.random.seed(11)
        results.append(np.array(library.nn.init.orthogonal(2.0)(library.mx.zeros(shape))))
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


def test_initializers_are_for_apply() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model.apply(nn.init.constant(0.25))
    assert model.layers[1].weight.tolist() == [[0.25] * 4] * 2


ERRORS = [
    (nn.init.identity(), (2, 3), {}, r"expected a square matrix, got shape \(2, 3\)"),
    (nn.init.glorot_normal(), (3,), {}, r"\[init.glorot_normal\] .* at least 2 dimensional"),
    (nn.init.glorot_uniform(), (3,), {}, "at least 2 dimensional input, got one with 1 "),
    (nn.init.he_normal(), (3,), {}, "at least 2 dimensional input, got one with 1 "),
    (nn.init.he_uniform(), (3, 3), {"mode": "in"}, "mode must be 'fan_in' or 'fan_out', got 'in'"),
    (nn.init.sparse(0.5), (3,), {}, "arrays with 2 dimensions"),
    (nn.init.orthogonal(), (3,), {}, "requires a 2D array"),
]


@pytest.mark.parametrize(("initializer", "shape", "options", "message"), ERRORS)
def test_error_says_what_is_wrong(
    initializer: Any, shape: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        initializer(mx.zeros(shape), **options)
