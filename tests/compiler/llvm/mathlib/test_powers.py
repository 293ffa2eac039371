"""Powers: large exponents, negative bases, the special cases of C; integers modulo the width."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.compiler.llvm.mathlib.references import DTYPES, between, largest_error

from ingot.graph import dtype as dtypes


@pytest.mark.parametrize("type", DTYPES)
def test_errors(type: type) -> None:
    a = np.abs(between(0.01, 40, 2001))
    b = np.random.default_rng(0).uniform(-8, 8, a.shape)
    assert largest_error("power", type, np.power, a, b) < 2
    assert largest_error("rsqrt", type, lambda x: 1 / np.sqrt(x), a) < 2


def test_special_cases() -> None:
    special = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan])
    a, b = (grid.ravel().astype(np.float32) for grid in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        expected = np.power(a, b)
    found = compile_word("power", DTYPES[np.float32], arity=2)(a, b)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_integers_against_pythons(name: str) -> None:
    dtype = getattr(dtypes, name)
    generator = np.random.default_rng(2)
    info = np.iinfo(dtype.numpy)
    a = generator.integers(info.min, info.max, 300, dtype.numpy, endpoint=True)
    b = generator.integers(0, 40, 300).astype(dtype.numpy)
    found = compile_word("power", dtype, arity=2)(a, b)
    width = 8 * dtype.size
    expected = [pow(int(x), int(y), 1 << width) for x, y in zip(a, b, strict=True)]
    np.testing.assert_array_equal(found, np.array(expected, np.uint64).astype(dtype.numpy))


def test_integers_to_negative_powers_are_0() -> None:
    a, b = np.array([1, 2, -1], np.int32), np.array([-1, -2, -3], np.int32)
    found = compile_word("power", dtypes.int32, arity=2)(a, b)
    np.testing.assert_array_equal(found, [0, 0, 0])
