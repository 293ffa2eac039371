"""Powers of integers, modulo the width."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word

from ingot.graph import dtype as dtypes


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_against_pythons_integers(name: str) -> None:
    dtype = getattr(dtypes, name)
    generator = np.random.default_rng(2)
    info = np.iinfo(dtype.numpy)
    a = generator.integers(info.min, info.max, 300, dtype.numpy, endpoint=True)
    b = generator.integers(0, 40, 300).astype(dtype.numpy)
    found = compile_word("power", dtype, arity=2)(a, b)
    width = 8 * dtype.size
    expected = [pow(int(x), int(y), 1 << width) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(found, np.array(expected, np.uint64).astype(dtype.numpy))


def test_negative_exponents_give_nothing() -> None:
    a, b = np.array([1, 2, -1], np.int32), np.array([-1, -2, -3], np.int32)
    found = compile_word("power", dtypes.int32, arity=2)(a, b)
    np.testing.assert_array_equal(found, [0, 0, 0])
