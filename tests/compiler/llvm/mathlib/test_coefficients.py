"""Coefficients: as they stand in the file, they approximate what they are called."""

from __future__ import annotations

import numpy as np
import pytest

from ingot.compiler.llvm.mathlib import coefficients
from ingot.compiler.llvm.mathlib.coefficients import EXPONENTIAL
from ingot.compiler.llvm.mathlib.polynomial import Polynomial

POLYNOMIALS = {k: v for k, v in vars(coefficients).items() if isinstance(v, Polynomial)}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_single_coefficients_are_floats(name: str) -> None:
    polynomial = POLYNOMIALS[name]
    assert polynomial.single or polynomial.double
    for coefficient in polynomial.single:
        assert float(np.float32(coefficient)) == coefficient


def test_the_exponential_is_one() -> None:
    x = np.linspace(-0.34, 0.34, 101)
    for found, bound in ((EXPONENTIAL.single, 1e-7), (EXPONENTIAL.double, 1e-15)):
        tail = np.polyval(list(reversed(found)), x)
        candidates = (tail, 1 + x * tail, 1 + x + x * x * tail, x + x * x * tail + 1)
        assert min(np.abs(c / np.exp(x) - 1).max() for c in candidates) < bound
