"""Exponentials, logarithms, sigmoid and the error function against MLX and finite differences."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.special
from tests.support.elementwise import (
    assert_derivatives,
    assert_same,
    assert_same_derivatives,
    assert_same_error,
    assert_vmap,
    values_of,
)

import ingot.core as mx

INF = float("inf")
NAN = float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, INF, -INF, NAN]
FUNCTIONS = "exp expm1 log log2 log10 log1p sigmoid erf erfinv".split()
COMPLEX = "exp log log2 log10 log1p".split()


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("a", [(SPECIAL, "float32"), ([0, 1, 7], "int8"), 0.5, True])
def test_values(name: str, a: Any) -> None:
    assert_same(name, a, rounding=2e-6)


REFERENCES = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sigmoid": scipy.special.expit,
    "erf": scipy.special.erf,
    "erfinv": scipy.special.erfinv,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_accuracy(name: str, dtype: str) -> None:
    """Within NumPy's four units in the last place of what double precision gives."""
    low, high = {"erfinv": (-1, 1), "log1p": (-1, 3)}.get(name, (0 if "log" in name else -9, 9))
    inputs = mx.array(np.random.default_rng(3).uniform(low, high, 1000)).astype(getattr(mx, dtype))
    exact = REFERENCES[name](np.array(inputs.astype(mx.float64)))
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
    found = np.array(getattr(mx, name)(inputs).astype(mx.float64))
    np.testing.assert_allclose(found, exact, 4 * unit[dtype], 1e-38)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_values(name: str) -> None:
    points = [1 + 2j, -3 + 0.5j, 1e-3 - 1e-3j, 0.5j]
    assert_same(name, (points, "complex64"), rounding=1e-5)
    assert_derivatives(getattr(mx, name), points[:2], complex_points=True)


def test_complex_log1p_is_accurate_near_zero() -> None:
    small = np.array([1e-20 + 1e-20j, -1e-12 + 3e-9j], np.complex64)
    found = values_of(mx.log1p(mx.array(small)))
    np.testing.assert_allclose(found, small - small**2 / 2, 1e-6)


def test_logaddexp() -> None:
    a = [0.0, 1.0, -INF, INF, INF, -INF, 100.0, NAN]
    b = [0.0, -INF, -INF, INF, 1.0, 2.0, -100.0, 1.0]
    assert_same("logaddexp", (a, "float32"), (b, "float32"), rounding=2e-7)
    assert_same("logaddexp", (a[:3], "bfloat16"), 1, rounding=1e-2)
    z = ([1 + 2j, -INF, 1j], "complex64")
    assert_same("logaddexp", z, ([2 - 1j, -INF, 1j], "complex64"), rounding=1e-6)
    assert_derivatives(mx.logaddexp, [0.5, -1.0, 3.0], [0.5, 2.0, -1.0])
    assert_derivatives(mx.logaddexp, [0.5 + 1j], [0.2 - 0.3j], complex_points=True)
    assert_same_derivatives("logaddexp", a, b)
    assert_vmap(mx.logaddexp, np.ones((2, 3)), np.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives(name: str) -> None:
    points = np.array([0.15, 0.4, 0.8]) if name == "erfinv" else np.array([0.3, 1.0, 2.7])
    assert_derivatives(getattr(mx, name), points)
    assert_vmap(getattr(mx, name), np.stack([points, points / 2]))
    assert_same_derivatives(name, SPECIAL, rounding=1e-5)


@pytest.mark.parametrize("name", ["expm1", "sigmoid", "erf", "erfinv"])
def test_no_complex_numbers(name: str) -> None:
    match = f"[{name}] does not take arrays of dtype"
    assert_same_error(name, ([1j], "complex64"), match=match)


def test_scipy_is_imported_when_it_is_needed() -> None:
    program = """
import sys
from ingot.ops.elementwise.exponential import erf
from ingot.graph.libraries import scipy_special
assert "scipy" not in sys.modules
assert scipy_special().erf(0) == 0
assert "scipy.special" in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)
