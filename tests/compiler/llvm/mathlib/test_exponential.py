"""exp, expm1 and hyperbolic functions, where they overflow and where they cancel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, half_errors, largest_error


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("word", ["exp", "expm1", "sinh", "cosh", "tanh"])
def test_errors(word: str, type: type) -> None:
    for x in (between(-20, 20), between(-1e-3, 1e-3)):
        assert largest_error(word, type, getattr(np, word), x) < 2


def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1000.0, -1000.0], np.float32)
    for word in ("exp", "expm1", "sinh", "cosh", "tanh"):
        found = compile_word(word, DTYPES[np.float32])(x)
        with np.errstate(all="ignore"):
            expected = getattr(np, word)(x)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[:2], np.signbit(expected)[:2])


def test_half_types() -> None:
    assert half_errors("exp", np.exp) < 0.51
