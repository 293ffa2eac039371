"""Powers: large exponents, negative bases, and the special cases of C."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, largest_error


@pytest.mark.parametrize("type", DTYPES)
def test_errors(type: type) -> None:
    a = np.abs(between(0.01, 40, 2001))
    b = np.random.default_rng(0).uniform(-8, 8, a.shape)
    assert largest_error("power", type, np.power, a, b) < 2
    assert largest_error("rsqrt", type, lambda x: 1 / np.sqrt(x), a) < 2


def test_special_cases() -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan])
    a, b = (grid.ravel().astype(np.float32) for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    found = compile_word("power", DTYPES[np.float32], arity=2)(a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
