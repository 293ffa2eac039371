"""Casts in machine code: every pair of dtypes against the table of NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import CompiledLoop

from ingot.graph import dtype as dtypes
from ingot.graph.numerics.casts import converted

NAMES = "bool_ int8 uint8 int32 uint32 int64 uint64 float16 bfloat16 float32 float64".split()
EDGES = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 127.9, 128.0, 255.9, -129.0, 65504.0, 65520.0, 1e9, -1e9]
SPECIAL = [np.inf, -np.inf, np.nan, 3e38, 1e-40, 2.0**31, 2.0**63, 2.0**64, -(2.0**63)]


def samples(dtype: dtypes.Dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtypes.is_inexact(dtype):
            return np.array(EDGES + SPECIAL, np.float64).astype(dtype.numpy)
        if dtype is dtypes.bool_:
            return np.array([False, True])
        info = np.iinfo(dtype.numpy)
        return np.array([0, 1, info.max, info.min, info.max - 1, 77], dtype.numpy)


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_casts(source: str, target: str) -> None:
    a, b = getattr(dtypes, source), getattr(dtypes, target)
    x = samples(a)
    found = CompiledLoop([a], b, lambda kernel, values: kernel.cast(values[0], b))(x)
    with np.errstate(all="ignore"):
        expected = converted(x, b.numpy)
    wide = np.float64 if dtypes.is_inexact(b) else b.numpy
    np.testing.assert_array_equal(found.astype(wide), expected.astype(wide))
