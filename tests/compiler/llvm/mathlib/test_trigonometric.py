"""Sine, cosine and tangent, of large angles too."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, largest_error


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("word", ["sin", "cos", "tan"])
def test_errors(word: str, type: type) -> None:
    for x in (between(-10, 10), between(-1e-3, 1e-3), between(1e4, 1e4 + 7)):
        assert largest_error(word, type, getattr(np, word), x) < 3


@pytest.mark.parametrize("x", [1e6, 1e15, 1e22, 1e300])
def test_huge_angles(x: float) -> None:
    with mpmath.workdps(400):
        expected = float(mpmath.sin(mpmath.mpf(x)))
    found = compile_word("sin", DTYPES[np.float64])(np.array([x]))
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


def test_infinities_have_none() -> None:
    x = np.array([np.inf, -np.inf, np.nan], np.float32)
    assert np.isnan(compile_word("cos", DTYPES[np.float32])(x)).all()
