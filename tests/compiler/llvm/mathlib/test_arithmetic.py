"""Sums and products in two parts: together they are exact."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_function
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.arithmetic import divided, exact_product, exact_sum, fast_sum
from ingot.compiler.llvm.mathlib.number import Number

GENERATOR = np.random.default_rng(3)
A = (GENERATOR.uniform(-1, 1, 500) * 2.0 ** GENERATOR.integers(-20, 20, 500)).astype(np.float32)
B = (GENERATOR.uniform(-1, 1, 500) * 2.0 ** GENERATOR.integers(-20, 20, 500)).astype(np.float32)


def part(function: Callable[..., Any], number: int) -> Callable[..., Register]:
    def expression(code: Code, a: Register, b: Register) -> Register:
        return function(Number(code, a), Number(code, b))[number].register

    return expression


def both(function: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> list[Fraction]:
    high, low = (
        compile_function(part(function, number), DTYPES[np.float32], 2)(a, b) for number in range(2)
    )
    return [Fraction(float(x)) + Fraction(float(y)) for x, y in zip(high, low, strict=True)]


@pytest.mark.parametrize("sort", [False, True])
def test_sums(sort: bool) -> None:
    a, b = A, B
    if sort:
        larger = np.abs(a) >= np.abs(b)
        a, b = np.where(larger, a, b), np.where(larger, b, a)
    found = both(fast_sum if sort else exact_sum, a, b)
    assert found == [Fraction(float(x)) + Fraction(float(y)) for x, y in zip(a, b, strict=True)]


def test_products() -> None:
    expected = [Fraction(float(x)) * Fraction(float(y)) for x, y in zip(A, B, strict=True)]
    assert both(exact_product, A, B) == expected


def test_quotients_of_pairs_are_rounded_right() -> None:
    def quotient(code: Code, a: Register, b: Register) -> Register:
        x, y = Number(code, a), Number(code, b)
        return divided(x, x.constant(0.0), y, y.constant(0.0)).register

    found = compile_function(quotient, DTYPES[np.float32], 2)(A, B)
    exact = A.astype(np.float64) / B
    assert (np.abs(found - exact) <= 0.51 * np.spacing(np.abs(found))).mean() > 0.99
