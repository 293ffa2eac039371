"""Numbers: operators that write instructions, and constants of the right precision."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_function
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.number import Number, absolute, fma, select

X = np.linspace(-3, 3, 201)


@pytest.mark.parametrize("type", DTYPES)
def test_operators(type: type) -> None:
    def expression(code: Code, register: Register) -> Register:
        x = Number(code, register)
        return (2.0 * x - x * x / (x * x + 1.0) + (1.0 - x)).register

    x = X.astype(type)
    expected = 2 * x - x * x / (x * x + 1) + (1 - x)
    np.testing.assert_allclose(
        compile_function(expression, DTYPES[type])(x), expected, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("type", DTYPES)
def test_choices(type: type) -> None:
    def expression(code: Code, register: Register) -> Register:
        x = Number(code, register)
        return select(x < 0.0, absolute(x), fma(x, x, 1.0)).register

    x = X.astype(type)
    expected = np.where(x < 0, np.abs(x), x * x + 1)
    np.testing.assert_allclose(compile_function(expression, DTYPES[type])(x), expected, rtol=1e-6)


def test_precision_follows_from_the_register() -> None:
    code = Code()
    assert Number(code, Register("%x", "double")).is_double
    assert not Number(code, Register("%x", "float")).is_double
