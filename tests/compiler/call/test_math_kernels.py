"""Math functions one by one through kernels: the bits of fused programs, for all lengths."""

from __future__ import annotations

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.call.math_kernels import run
from ingot.ops.elementwise.exponential import Exp
from ingot.tuning import MAX_MATH_KERNEL, MIN_MATH_KERNEL


@pytest.mark.parametrize("size", [0, 1, MIN_MATH_KERNEL + 1, 1000, MAX_MATH_KERNEL + 3])
def test_every_length_has_the_bits_of_compiled_functions(size: int) -> None:
    x = np.linspace(-5, 5, size, dtype=np.float32)
    found = run(Exp(), (x,))
    assert found.shape == x.shape
    if size:
        np.testing.assert_array_equal(found, np.array(mx.compile(mx.exp)(mx.array(x))))
        np.testing.assert_allclose(found, np.exp(x.astype(np.float64)), rtol=1e-6)


def test_layouts_do_not_matter() -> None:
    x = np.random.default_rng(8).uniform(-1, 1, (30, 40)).astype(np.float32)
    np.testing.assert_array_equal(run(Exp(), (x.T,)), run(Exp(), (x,)).T)
