"""Half types divided by constants: multiplication wherever that gives the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import CompiledLoop

from ingot._native import Dtype
from ingot.compiler.llvm.emit import Element, LLVMKernel
from ingot.graph.dtype import bfloat16, float16
from ingot.graph.numerics.division import exact_reciprocal

HALVES = [pytest.param(dtype, id=dtype.name) for dtype in (float16, bfloat16)]


def numbers(dtype: Dtype) -> np.ndarray:
    """All numbers of a half type, as float32."""
    with np.errstate(all="ignore"):
        return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).astype(np.float32)


def bits(x: np.ndarray, dtype: Dtype) -> np.ndarray:
    """The representation of float32 numbers rounded to a half type, with one NaN."""
    with np.errstate(all="ignore"):
        found = x.astype(dtype.numpy).view(np.uint16)
    return np.where(np.isnan(x), 0xFFFF, found)


@pytest.mark.parametrize("dtype", HALVES)
def test_every_dividend_has_the_same_quotient(dtype: Dtype) -> None:
    x = numbers(dtype)
    # 380 and 2896 make midpoints of float16 that the product misses.
    chosen = [float(x[n]) for n in np.random.default_rng(5).integers(0, 1 << 16, 60)]
    divisors = [3.0, -7.0, 0.3, 100.0, 380.0, 2896.0, 1e-5, 2.0**15, *chosen]
    found = 0
    for value in divisors:
        divisor = float(np.array(value, np.float32).astype(dtype.numpy).astype(np.float32))
        if not 0 < abs(divisor) < np.inf:
            continue
        reciprocal = exact_reciprocal(dtype, divisor)
        if reciprocal is None:
            continue
        found += 1
        with np.errstate(all="ignore"):
            expected, product = x / np.float32(divisor), x * np.float32(reciprocal)
        np.testing.assert_array_equal(bits(product, dtype), bits(expected, dtype), str(divisor))
    assert found > len(divisors) // 2


def test_divisors_that_have_none() -> None:
    with np.errstate(all="ignore"):
        x = numbers(float16)
        missed = bits(x * (np.float32(1) / np.float32(380)), float16)
        assert (missed != bits(x / np.float32(380), float16)).any()
    assert exact_reciprocal(float16, 380.0) is None
    for divisor in (0.0, float("inf"), float("nan"), 2.0**127):
        assert exact_reciprocal(bfloat16, divisor) is None


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("divisor", [1.4140625, 380.0, -5.0])
def test_code(dtype: Dtype, divisor: float) -> None:
    def divided(kernel: LLVMKernel, values: list[Element]) -> Element:
        (x,) = values
        return kernel.rounded(kernel.divide(x, kernel.constant(divisor, x)))

    loop = CompiledLoop([dtype], dtype, divided)
    rounded = np.float32(np.array(divisor, np.float32).astype(dtype.numpy))
    assert ("fdiv" in loop.code) == (exact_reciprocal(dtype, float(rounded)) is None)
    x = numbers(dtype)
    with np.errstate(all="ignore"):
        found = loop(x.astype(dtype.numpy)).astype(np.float32)
        expected = x / rounded
    np.testing.assert_array_equal(bits(found, dtype), bits(expected, dtype))
