"""Logarithms, close to 1 and over all exponents."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, largest_error


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("word", ["log", "log2", "log10"])
def test_errors(word: str, type: type) -> None:
    for x in (between(0.5, 2), 2.0 ** between(-120, 120)):
        assert largest_error(word, type, getattr(np, word), x) < 2


@pytest.mark.parametrize("type", DTYPES)
def test_log1p(type: type) -> None:
    for x in (between(-0.999, 5), between(-1e-6, 1e-6)):
        assert largest_error("log1p", type, np.log1p, x) < 2


def test_special_values() -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40], np.float32)
    for word in ("log", "log2", "log10", "log1p"):
        with np.errstate(all="ignore"):
            expected = getattr(np, word)(x)
        np.testing.assert_allclose(compile_word(word, DTYPES[np.float32])(x), expected, rtol=1e-6)


@pytest.mark.parametrize("power", range(-10, 11))
def test_powers_are_exact(power: int) -> None:
    for word, base in (("log2", 2.0), ("log10", 10.0)):
        found = compile_word(word, DTYPES[np.float64])(np.array([base**power]))
        assert found[0] == power or (base == 10 and abs(found[0] - power) < 1e-15 * abs(power))
