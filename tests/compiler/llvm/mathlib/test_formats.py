"""Constants of the formats: high and low parts add up to what they are called."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest

from ingot.compiler.llvm.mathlib.formats import DOUBLE, SINGLE, Format

with mpmath.workdps(60):
    EXPECTED = {
        "log_2": mpmath.log(2),
        "log10_2": mpmath.log10(2),
        "log2_e": 1 / mpmath.log(2),
        "log10_e": mpmath.log10(mpmath.e),
        "half_pi": mpmath.pi / 2,
    }


@pytest.mark.parametrize(("format", "type"), [(SINGLE, np.float32), (DOUBLE, np.float64)])
@pytest.mark.parametrize("name", EXPECTED)
def test_pairs_are_nearly_exact(format: Format, type: type, name: str) -> None:
    high, low = getattr(format, f"{name}_high"), getattr(format, f"{name}_low")
    assert float(type(high)) == high
    with mpmath.workdps(60):
        found = mpmath.mpf(high) + mpmath.mpf(float(type(low)))
        error = abs(found / EXPECTED[name] - 1)
    assert error < 2.0 ** (-1.7 * format.mantissa)


@pytest.mark.parametrize(("format", "type"), [(SINGLE, np.float32), (DOUBLE, np.float64)])
def test_limits_are_those_of_the_types(format: Format, type: type) -> None:
    info = np.finfo(type)
    assert format.mantissa == info.nmant
    assert format.bias == 1 - info.minexp
    assert Fraction(format.smallest) == Fraction(float(info.smallest_normal))
    with np.errstate(all="ignore"):
        assert np.exp(type(format.highest_exponential)) == np.inf
        assert np.exp(type(format.lowest_exponential)) == 0
