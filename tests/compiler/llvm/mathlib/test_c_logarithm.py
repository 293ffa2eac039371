"""The logarithm of random numbers: step by step the C library's."""

from __future__ import annotations

import platform

import numpy as np
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.graph.numerics.c_library import c_function


def test_bits_are_the_c_librarys() -> None:
    x = np.concatenate([np.linspace(1e-7, 1, 5000), 2.0 ** np.linspace(-100, 100, 5000)])
    x = x.astype(np.float32)
    found = compile_word("c_log", DTYPES[np.float32])(x)
    if platform.libc_ver()[0] == "glibc":
        np.testing.assert_array_equal(found, c_function("log")(x))
    np.testing.assert_allclose(found, np.log(x.astype(np.float64)), rtol=2e-7, atol=1e-7)
