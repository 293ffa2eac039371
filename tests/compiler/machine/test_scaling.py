"""Products with powers of two: the code for versions of LLVM without an instruction for them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import CompiledLoop, compile_function, loop_code
from tests.compiler.llvm.mathlib.references import DTYPES

from ingot.compiler.llvm.code import Code, Register, literal
from ingot.compiler.llvm.mathlib.exponential import scaled_in_two_steps
from ingot.compiler.llvm.mathlib.number import Bits, Number, scale
from ingot.compiler.machine import scaling
from ingot.compiler.machine.scaling import FIRST_VERSION, with_scaling

EXPONENTS = (0, 1, -1, 5, -40, 100, -120, -130, -149)


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_both_ways_round_once(type: type, exponent: int) -> None:
    exponent *= 7 if type is np.float64 else 1
    generator = np.random.default_rng(abs(exponent))
    x = generator.uniform(0.5, 2, 1001).astype(type)
    x[:6] = (0.0, -0.0, np.inf, -np.inf, np.nan, -1.25)

    def written(function: object) -> np.ndarray:
        def expression(code: Code, x: Register) -> Register:
            bits = Bits(code, literal("i64" if type is np.float64 else "i32", exponent))
            return function(Number(code, x), bits).register  # type: ignore[operator]

        return compile_function(expression, DTYPES[type])(x)

    with np.errstate(all="ignore"):
        expected = np.ldexp(x, exponent)
    for function in (scale, scaled_in_two_steps):
        found = written(function)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found)[:4], np.signbit(expected)[:4])


@pytest.mark.parametrize("type", DTYPES)
def test_older_versions_get_a_definition(type: type, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = DTYPES[type]

    def loop() -> CompiledLoop:
        return CompiledLoop([dtype], dtype, lambda kernel, values: kernel.exp(*values))

    x = np.linspace(-800, 800, 5001).astype(type)
    expected = loop()(x)
    monkeypatch.setattr(
        scaling, "with_scaling", lambda text, _: with_scaling(text, FIRST_VERSION - 1)
    )
    np.testing.assert_array_equal(loop()(x), expected)
    text = loop_code("f", [dtype], lambda kernel, values: kernel.exp(*values))
    assert "@llvm.ldexp." not in with_scaling(text, FIRST_VERSION - 1)
    assert with_scaling(text, FIRST_VERSION) == text
