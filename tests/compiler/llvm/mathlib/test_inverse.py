"""Inverse functions: at the ends of their ranges, and where they cancel."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, largest_error


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize(
    ("word", "low", "high"),
    [
        ("arcsin", -1, 1),
        ("arccos", -1, 1),
        ("arctan", -50, 50),
        ("arcsinh", -50, 50),
        ("arccosh", 1, 50),
        ("arctanh", -0.999, 0.999),
    ],
)
def test_errors(word: str, low: float, high: float, type: type) -> None:
    assert largest_error(word, type, getattr(np, word), between(low, high)) < 2.5


@pytest.mark.parametrize("type", DTYPES)
def test_arctan2_in_every_quadrant(type: type) -> None:
    angle = between(-3.1, 3.1)
    y, x = np.sin(angle) * 3, np.cos(angle) * 3
    assert largest_error("arctan2", type, np.arctan2, y, x) < 2.5


def test_arctan2_of_zeros_and_infinities() -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf], np.float32)
    y, x = (grid.ravel() for grid in np.meshgrid(special, special))
    found = compile_word("arctan2", DTYPES[np.float32], arity=2)(y, x)
    np.testing.assert_allclose(found, np.arctan2(y, x), rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.arctan2(y, x)))


def test_outside_there_is_nothing() -> None:
    x = np.array([1.5, -2.0, np.nan], np.float32)
    for word in ("arcsin", "arccos", "arctanh"):
        assert np.isnan(compile_word(word, DTYPES[np.float32])(x)).all()
