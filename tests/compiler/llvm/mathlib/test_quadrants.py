"""Angles reduced to a quadrant: exactly enough that what is left has few errors."""

from __future__ import annotations

import mpmath
import numpy as np
from tests.compiler.kernel_runner import compile_function
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.mathlib.number import Number
from ingot.compiler.llvm.mathlib.quadrants import reduced_angle


def test_what_is_left_is_right_next_to_multiples_of_half_pi() -> None:
    def left(code: Code, x: Register) -> Register:
        return reduced_angle(Number(code, x)).rest.register

    with mpmath.workdps(60):
        x = np.array([float(k * mpmath.pi / 2) for k in (1, 2, 3, 50, 1001)])
        expected = []
        for value in x:
            turns = mpmath.nint(mpmath.mpf(value) / (mpmath.pi / 2))
            expected.append(float(mpmath.mpf(value) - turns * mpmath.pi / 2))
    found = compile_function(left, DTYPES[np.float64])(x)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
