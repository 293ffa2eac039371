"""Remainders: exact, with the sign of the divisor."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES


@pytest.mark.parametrize("type", DTYPES)
def test_they_are_exact(type: type) -> None:
    generator = np.random.default_rng(1)
    a = (generator.uniform(-1, 1, 4000) * 2.0 ** generator.integers(-10, 30, 4000)).astype(type)
    b = (generator.uniform(-1, 1, 4000) * 2.0 ** generator.integers(-10, 10, 4000)).astype(type)
    found = compile_word("remainder", DTYPES[type], arity=2)(a, b)
    np.testing.assert_array_equal(found, np.remainder(a, b))


def test_special_values() -> None:
    a = np.array([1.0, np.inf, 1.0, -1.0, np.nan, 0.0], np.float32)
    b = np.array([0.0, 1.0, np.inf, np.inf, 1.0, -2.0], np.float32)
    with np.errstate(all="ignore"):
        expected = np.remainder(a, b)
    found = compile_word("remainder", DTYPES[np.float32], arity=2)(a, b)
    np.testing.assert_array_equal(found, expected)
