"""erf and erfinv against SciPy's of doubles."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
from tests.compiler.accuracy import ulp_errors
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, half_errors

from ingot.compiler.llvm.lookup import has_permutations


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


def test_the_table_has_errors_below_two_ulp_and_ends_at_one() -> None:
    """The borders of its intervals, the steepest of which is around 3, and all that follows."""
    borders = np.arange(-32, 33) / 8 + np.linspace(-1e-3, 1e-3, 2001)[:, None]
    x = borders.astype(np.float32).ravel()
    found = compile_word("erf", DTYPES[np.float32])(x)
    assert ulp_errors(found, scipy.special.erf(x.astype(np.float64))).max() < 2
    # The polynomials of processors without permutations end at 4; 0.99999994 is as near before.
    end = 3.875 if has_permutations() else 4.0
    ends = np.array([end, end + 0.025, 1e30, np.inf, -4.0, -np.inf, np.nan, -0.0], np.float32)
    found = compile_word("erf", DTYPES[np.float32])(ends)
    np.testing.assert_array_equal(found, [1, 1, 1, 1, -1, -1, np.nan, 0])
    assert np.signbit(found[-1])


def test_results_do_not_depend_on_the_position_in_a_loop() -> None:
    """Vectors of any width and what remains of a loop have their own code."""
    erf = compile_word("erf", DTYPES[np.float32])
    x = between(-4, 4).astype(np.float32)[:203]
    one_by_one = np.concatenate([erf(x[at : at + 1]) for at in range(x.size)])
    for first in range(20):
        np.testing.assert_array_equal(erf(x[first:].copy()), one_by_one[first:])
