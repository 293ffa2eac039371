"""Maxima and minima in vectors: NaN wins, and -0 is less than +0."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.llvm.code import Code, Register
from ingot.compiler.llvm.extremes import extreme

SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
@pytest.mark.parametrize("length", [16, 48, 128, 512, 515])
def test_rows_of_special_numbers(dtype: mx.Dtype, length: int) -> None:
    """Wherever in a row two numbers are, and whatever is in the others."""
    rows = []
    for a, b in itertools.product(SPECIAL, SPECIAL):
        row = np.full(length, -np.inf)
        row[(len(rows) * 7) % length], row[(len(rows) * 7 + 16) % length] = a, b
        rows.append(row)
    x = mx.array(np.array(rows, np.float32)).astype(dtype)
    values = np.array(x.astype(mx.float32))
    for compiled, name in ((mx.max, "max"), (mx.min, "min")):
        sign = 1 if name == "max" else -1
        given = mx.array(values * sign).astype(dtype)
        found = np.array(mx.compile(lambda x, f=compiled: f(x, axis=1))(given).astype(mx.float32))
        numbers = np.where(np.isnan(values), -np.inf, values)
        # by value, and among zeros by sign
        keys = np.lexsort((~np.signbit(numbers), numbers), axis=1)[:, -1]
        expected = np.where(np.isnan(values).any(1), np.nan, numbers[np.arange(len(keys)), keys])
        np.testing.assert_array_equal(found, expected * sign)
        is_zero = expected == 0
        np.testing.assert_array_equal(
            np.signbit(found[is_zero]), np.signbit(expected[is_zero] * sign)
        )


def test_vectors_that_fill_registers_take_the_processors_instruction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def text(type: str, features: frozenset[str]) -> str:
        monkeypatch.setattr("ingot.compiler.llvm.extremes.processor_features", lambda: features)
        code = Code()
        extreme(code, True, Register("%a", type), Register("%b", type))
        return "\n".join(code.lines)

    assert text("<32 x float>", frozenset({"avx512dq"})).count("range.ps.512") == 2
    assert "range.pd.512" in text("<8 x double>", frozenset({"avx512dq"}))
    assert "llvm.maximum" in text("<4 x float>", frozenset({"avx512dq"}))
    assert "llvm.maximum" in text("float", frozenset({"avx512dq"}))
    assert "llvm.maximum" in text("<32 x float>", frozenset())
