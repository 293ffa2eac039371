"""The kernel vocabulary in LLVM instructions, word by word against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.kernel_runner import compile_word
from tests.support.numpy_kernel import NumpyKernel

import ingot.core as mx
from ingot.graph import dtype as dtypes

NUMBERS = np.array([0, 1, 2, 3, 5, 7, 100, 120])
OTHERS = np.array([1, 3, 2, 7, 5, 1, 100, 3])
ARITHMETIC = "add subtract multiply maximum minimum largest smallest".split()
BITS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift floor_divide remainder".split()
COMPARISONS = "equal not_equal less less_equal greater greater_equal".split()
INTEGERS = ["int8", "uint8", "int32", "uint64"]


def compare(word: str, dtype: dtypes.Dtype, *arrays: np.ndarray) -> None:
    ready = [array.astype(dtype.numpy) for array in arrays]
    with np.errstate(all="ignore"):
        expected = getattr(NumpyKernel(), word)(*ready)
    output = dtypes.bool_ if word in COMPARISONS else dtype
    found = compile_word(word, dtype, output, arity=len(ready))(*ready)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", [*INTEGERS, "float32", "float64"])
@pytest.mark.parametrize("word", [*ARITHMETIC, *COMPARISONS])
def test_words_of_two_numbers(word: str, name: str) -> None:
    compare(word, getattr(dtypes, name), NUMBERS, OTHERS)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("word", BITS)
def test_words_of_integers(word: str, name: str) -> None:
    compare(word, getattr(dtypes, name), NUMBERS, OTHERS)


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("word", ["floor_divide", "remainder"])
def test_quotients_by_divisors_that_trap(word: str, name: str) -> None:
    dtype = getattr(dtypes, name)
    lowest = np.iinfo(dtype.numpy).min
    a, b = np.meshgrid(np.array([lowest, 0, 1, 100]).astype(dtype.numpy), np.array([0, -1]))
    compare(word, dtype, a.ravel(), b.ravel())


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("word", ["floor", "ceil", "round", "negative", "absolute", "sqrt"])
def test_words_of_one_number(word: str, name: str) -> None:
    x = np.array([-2.5, -0.5, -0.0, 0.0, 0.5, 1.5, np.inf, -np.inf, np.nan])
    compare(word, getattr(dtypes, name), x)


@pytest.mark.parametrize("word", ["floor", "ceil", "round"])
def test_every_float16_is_rounded_to_an_integer(word: str) -> None:
    x = np.arange(1 << 16).astype(np.uint16).view(np.float16)
    function = {"floor": np.floor, "ceil": np.ceil, "round": np.rint}[word]
    with np.errstate(invalid="ignore"):
        expected = function(x)
    found = compile_word(word, dtypes.float16, dtypes.float16, arity=1)(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    numbers = ~np.isnan(expected)  # zeros have signs
    np.testing.assert_array_equal(found[numbers].view(np.uint16), expected[numbers].view(np.uint16))


def test_zeros_and_nan_in_extremes() -> None:
    special = np.array([0.0, -0.0, 1.0, np.nan])
    a, b = (grid.ravel() for grid in np.meshgrid(special, special))
    for word in ("maximum", "minimum", "largest", "smallest"):
        compare(word, dtypes.float32, a, b)


def test_float16_divided_by_a_number_of_their_row() -> None:
    """Every float16 by some of them, of all magnitudes, bit for bit: such quotients are products
    with a reciprocal that is computed before the loop.
    """
    numbers = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 1.2e-7, -6.1e-5, 1.0, -3.0, 380.0, 65504.0]
    random = np.random.default_rng(0).integers(0, 1 << 16, 52).astype(np.uint16).view(np.float16)
    divisors = np.array([*special, *random], np.float16)[:, None]
    first = np.zeros((len(divisors), len(numbers)), np.float16)
    first[:, :1] = divisors
    x = np.broadcast_to(numbers, first.shape)

    def normalised(x: mx.array, first: mx.array) -> mx.array:
        return x / first.sum(axis=1, keepdims=True)

    arrays = [mx.array(np.ascontiguousarray(each)) for each in (x, first)]
    found = np.array(mx.compile(normalised)(*arrays))
    with np.errstate(all="ignore"):
        expected = x / (divisors + np.float16(0))
    same = (found.view(np.uint16) == expected.view(np.uint16)) | np.isnan(expected)
    assert same.all(), (x[~same][:9], np.broadcast_to(divisors, x.shape)[~same][:9])
    assert np.array_equal(np.isnan(found), np.isnan(expected))
