"""erf and erfinv against SciPy's of doubles."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tests.compiler.accuracy import ulp_errors
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, half_errors


@pytest.mark.parametrize(
    ("word", "x"),
    [("erf", between(-4, 4)), ("erf", between(-1e-3, 1e-3)), ("erfinv", between(-0.999, 0.999))],
)
def test_single_errors(word: str, x: np.ndarray) -> None:
    x = x.astype(np.float32)
    found = compile_word(word, DTYPES[np.float32])(x)
    expected = getattr(scipy.special, word)(x.astype(np.float64))
    assert ulp_errors(found, expected).max() < 3


def test_they_are_each_others_inverses() -> None:
    x = between(-3, 3).astype(np.float64)
    erf, erfinv = (compile_word(word, DTYPES[np.float64]) for word in ("erf", "erfinv"))
    np.testing.assert_allclose(erfinv(erf(x)), x, rtol=1e-9)


def test_ends() -> None:
    x = np.array([1.0, -1.0, 1.5, np.nan, 0.0], np.float32)
    found = compile_word("erfinv", DTYPES[np.float32])(x)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.nan, 0.0])


def test_half_types() -> None:
    assert half_errors("erf", scipy.special.erf) < 0.51
