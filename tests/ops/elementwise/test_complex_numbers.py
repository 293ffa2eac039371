"""Parts and conjugates of complex numbers against MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.support.elementwise import assert_same, assert_same_error, assert_vmap, values_of

import ingot.core as mx

Z = np.array([1 + 2j, -3 + 0.5j, 0j], np.complex64)
W = np.array([2 - 1j, 0.5 + 2j, 1j], np.complex64)
FUNCTIONS = ["real", "imag", "conj", "conjugate"]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "a", [(Z, "complex64"), ([1, -2], "int8"), ([1.5], "bfloat16"), ([True], "bool_"), 2.5, 1 + 2j]
)
def test_parts(name: str, a: Any) -> None:
    assert_same(name, a)


def test_real_arrays_are_their_own_conjugates() -> None:
    a = mx.array([1.0])
    assert mx.conj(a)._node is a._node


@pytest.mark.parametrize("name", ["real", "imag", "conj"])
@pytest.mark.parametrize("values", [Z, Z.real.copy()], ids=["complex", "real"])
def test_derivatives(name: str, values: np.ndarray) -> None:
    other = W if values is Z else W.real.copy()
    cotangent = W if name == "conj" and values is Z else np.array([1, 2, 3], np.float32)
    products = []
    for module in (mx, oracle):
        with oracle.stream(oracle.cpu):
            point, direction = module.array(values), module.array(other)
            function = getattr(module, name)
            backward = module.vjp(function, [point], [module.array(cotangent)])[1][0]
            forward = module.jvp(function, [point], [direction])[1][0]
            products.append((values_of(backward), values_of(forward)))
    for ours, theirs in zip(*products, strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap(name: str) -> None:
    assert_vmap(getattr(mx, name), np.stack([Z, W]))


def test_gradients_through_parts() -> None:
    def energy(z: Any) -> Any:
        return (mx.real(z) ** 2 + 3 * mx.imag(z) ** 2).sum()

    point = mx.array(Z)
    tangent = mx.array(W)
    _, (change,) = mx.jvp(energy, [point], [tangent])
    gradient = values_of(mx.vjp(energy, [point], [mx.array(1.0)])[1][0])
    np.testing.assert_allclose(gradient, 2 * Z.real + 6j * Z.imag)
    expected = (gradient.real * W.real + gradient.imag * W.imag).sum()
    np.testing.assert_allclose(values_of(change), expected, 1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_refusals(name: str) -> None:
    assert_same_error(name, "a", match="takes arrays and numbers, got str.")
