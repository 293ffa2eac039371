"""Bitwise logic and shifts against MLX."""

from __future__ import annotations

import operator
from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.support.elementwise import assert_same, assert_same_error, assert_vmap, values_of

import ingot.core as mx

SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
YES = ([True, True, False, False], "bool_")
NO = ([True, False, True, False], "bool_")
OPERATORS = {
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "left_shift": operator.lshift,
    "right_shift": operator.rshift,
}


def values(dtype: str, seed: int) -> tuple[np.ndarray, str]:
    limits = np.iinfo(dtype)
    drawn = np.random.default_rng(seed).integers(limits.min, limits.max, 50, dtype, endpoint=True)
    return drawn, dtype


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_logic(dtype: str) -> None:
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        assert_same(name, values(dtype, 0), values(dtype, 1))
    assert_same("bitwise_invert", values(dtype, 0))


@pytest.mark.parametrize("name", ["left_shift", "right_shift"])
@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts(name: str, dtype: str) -> None:
    counts = (np.arange(50) % (8 * np.dtype(dtype).itemsize), dtype)
    assert_same(name, values(dtype, 0), counts)
    assert_same(f"bitwise_{name}", values(dtype, 0), counts)
    assert_same(name, values(dtype, 0), 3)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_shifts_beyond_the_width(dtype: str) -> None:
    """In C they are undefined, and MLX's result depends on the length of the array."""
    a = mx.array([5, 0, 100]).astype(getattr(mx, dtype))
    for count in (8 * a.itemsize, 8 * a.itemsize + 1, 100):
        assert values_of(a << count).tolist() == [0, 0, 0]
        assert values_of(a >> count).tolist() == [0, 0, 0]
    if dtype in SIGNED:
        assert values_of(a << -1).tolist() == [0, 0, 0]
        assert values_of(a >> -1).tolist() == [0, 0, 0]
        assert values_of(-a >> 100).tolist() == [-1, 0, -1]


@pytest.mark.parametrize("name", OPERATORS)
def test_booleans(name: str) -> None:
    assert_same(name, YES, NO)
    assert_same(name, YES, 1)
    assert_same(name, True, NO)
    assert_same(name, True, True)
    assert_same(name, YES, ([1, 2, 3, 4], "int16"))


def test_inverted_booleans_and_numbers() -> None:
    assert_same("bitwise_invert", YES)
    assert_same("bitwise_invert", True)
    assert_same("bitwise_invert", 5)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_the_functions(name: str) -> None:
    for a, b in ((mx.array([5, -9]), mx.array([1, 2])), (mx.array([True, False]), mx.array(True))):
        for right in (b, 1):
            expected = getattr(mx, name)(a, right)
            found = OPERATORS[name](a, right)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(values_of(found), values_of(expected))
    np.testing.assert_array_equal(values_of(~mx.array([5, -9])), [-6, 8])
    np.testing.assert_array_equal(values_of(~mx.array([True, False])), [False, True])


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_no_fractions(name: str, dtype: str) -> None:
    match = f"[{name}] does not take arrays of dtype"
    assert_same_error(name, ([1], dtype), ([1], dtype), match=match)
    for module in (mx, oracle):
        array = module.array([1], dtype=getattr(module, dtype))
        with pytest.raises(ValueError, match="not"):
            OPERATORS[name](array, array)
    # The common dtype is floating-point.
    assert_same_error(name, ([1], "uint64"), ([1], "int32"), match=match)


def test_other_refusals() -> None:
    match = "[bitwise_invert] does not take arrays of dtype"
    assert_same_error("bitwise_invert", 1.5, match=match)
    assert_same_error("left_shift", ([1], "int32"), "a", match="[left_shift] takes arrays")
    with pytest.raises(ValueError, match="bitwise_invert"):
        ~mx.array([1.5])


@pytest.mark.parametrize("name", OPERATORS)
def test_vmap(name: str) -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    function: Any = getattr(mx, name)
    assert_vmap(function, data, data[::-1].copy())
    assert_vmap(mx.bitwise_invert, data)


def test_no_derivative_flows() -> None:
    gradient = mx.grad(lambda x: (x * (x.astype(mx.int32) & 3).astype(mx.float32)).sum())
    assert values_of(gradient(mx.array([5.0, 2.0]))).tolist() == [1, 2]
