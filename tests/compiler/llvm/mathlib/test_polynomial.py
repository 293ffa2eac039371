"""Polynomials: Horner's rule with the coefficients of the precision."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_function
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.number import Number
from ingot.compiler.llvm.mathlib.polynomial import Polynomial, chosen


@pytest.mark.parametrize("type", DTYPES)
def test_each_precision_has_its_coefficients(type: type) -> None:
    single, double = (1.0, -2.0, 0.5), (3.0, 0.25, -1.0, 2.0)
    polynomial = Polynomial(single, double)

    def expression(code: Code, x: Register) -> Register:
        return polynomial(Number(code, x)).register

    x = np.linspace(-2, 2, 101).astype(type)
    expected = np.polyval(list(reversed(double if type is np.float64 else single)), x)
    np.testing.assert_allclose(
        compile_function(expression, DTYPES[type])(x), expected, rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("type", DTYPES)
def test_either_of_two_polynomials(type: type) -> None:
    """Of different degrees, with the bits of evaluating each."""
    low, high = Polynomial((1.0, -2.0), (1.0, -2.0)), Polynomial((0.3, 0.7, -1.1), (0.3, 0.7, -1.1))

    def expression(code: Code, x: Register) -> Register:
        number = Number(code, x)
        return chosen(number < 0.5, low, high, number).register

    def alone(polynomial: Polynomial) -> Callable[[Code, Register], Register]:
        return lambda code, x: polynomial(Number(code, x)).register

    x = np.linspace(-2, 2, 101).astype(type)
    found = compile_function(expression, DTYPES[type])(x)
    pair = [compile_function(alone(each), DTYPES[type])(x) for each in (low, high)]
    np.testing.assert_array_equal(found, np.where(x < 0.5, *pair))
