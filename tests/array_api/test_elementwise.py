"""Elementwise functions and operators, in all dtypes of their kinds."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.array_api.comparison import DATA, agree, compare

import ingot.array_api as xp

FLOATING = ("float32", "float64", "complex64")
REAL = ("float32", "float64")
INTEGRAL = ("int8", "uint8", "int64")
NUMERIC = (*INTEGRAL, *FLOATING)
UNARY = {
    **dict.fromkeys(
        """sin cos sinh cosh exp expm1 asinh atan tanh square isnan isinf isfinite""".split(),
        FLOATING,
    ),
    **dict.fromkeys("floor ceil trunc round sign positive".split(), (*INTEGRAL, *REAL)),
    **dict.fromkeys("abs conj real".split(), NUMERIC),
    "negative": ("int8", "int64", *FLOATING),
    "signbit": REAL,
    "imag": ("complex64",),
    "logical_not": ("bool",),
    "bitwise_invert": ("bool", *INTEGRAL),
    "reciprocal": FLOATING,
}
POSITIVE = "log log2 log10 log1p sqrt acosh".split()
WITHIN_ONE = "asin acos atanh tan".split()
BINARY = {
    **dict.fromkeys("add subtract multiply".split(), NUMERIC),
    **dict.fromkeys("equal not_equal".split(), ("bool", *NUMERIC)),
    **dict.fromkeys(
        "less less_equal greater greater_equal maximum minimum".split(), (*INTEGRAL, *REAL)
    ),
    **dict.fromkeys("logical_and logical_or logical_xor".split(), ("bool",)),
    **dict.fromkeys("bitwise_and bitwise_or bitwise_xor".split(), ("bool", *INTEGRAL)),
    **dict.fromkeys("atan2 copysign hypot logaddexp nextafter".split(), REAL),
    "divide": FLOATING,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    for dtype in UNARY[name]:
        compare(lambda ns, x: getattr(ns, name)(x), DATA[dtype])


@pytest.mark.parametrize("name", [*POSITIVE, *WITHIN_ONE])
def test_unary_within_a_domain(name: str) -> None:
    for dtype in REAL:
        sizes = np.abs(DATA[dtype])
        data = sizes + 1 if name in POSITIVE else sizes / 3
        compare(lambda ns, x: getattr(ns, name)(x), data)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    for dtype in BINARY[name]:
        x = DATA[dtype]
        compare(lambda ns, x, y: getattr(ns, name)(x, y), x, x[::-1, :1])
        agree(getattr(xp, name)(xp.asarray(x), xp.asarray(x)), getattr(np, name)(x, x))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "pow"])
def test_division_and_powers(name: str) -> None:
    for dtype in ("int64", "float64", "float32"):
        x = DATA[dtype]
        y = np.abs(x[::-1]) + 1
        base = np.abs(x) if name == "pow" else x
        compare(lambda ns, x, y: getattr(ns, name)(x, y), base, y)


@pytest.mark.parametrize("name", [*POSITIVE, *WITHIN_ONE])
def test_unary_of_complex_numbers(name: str) -> None:
    compare(lambda ns, x: getattr(ns, name)(x), DATA["complex64"], rtol=1e-4)


def test_shifts() -> None:
    x, y = np.array([1, -7, 100]), np.array([0, 2, 5])
    compare(lambda ns, x, y: (ns.bitwise_left_shift(x, y), ns.bitwise_right_shift(x, y)), x, y)


def test_special_values() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, 5e-324, 1.0])
    for name in "signbit sign abs isnan floor round".split():
        compare(lambda ns, x, name=name: getattr(ns, name)(x), special)
    for name in "copysign nextafter hypot maximum atan2".split():
        compare(
            lambda ns, x, y, name=name: getattr(ns, name)(x, y), special[:, None], special[None]
        )


def test_clip() -> None:
    x = DATA["float64"]
    compare(lambda ns, x: ns.clip(x, -1, 1), x)
    compare(lambda ns, x: ns.clip(x, None, 0.5), x)
    compare(lambda ns, x, low: ns.clip(x, low, None), x, x[:1])


OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt,
    operator.eq, operator.ne, operator.ge, operator.mod, operator.floordiv,
]  # fmt: skip


@pytest.mark.parametrize("apply", OPERATORS)
def test_operators_with_numbers(apply: Callable[[Any, Any], Any]) -> None:
    x = np.abs(DATA["float32"]) + 1
    compare(lambda ns, x: apply(x, 2), x)
    compare(lambda ns, x: apply(2.5, x), x)
    integers = np.abs(DATA["int8"]) + np.int8(1)
    if apply is not operator.truediv:
        compare(lambda ns, x: apply(x, 2), integers)


def test_other_operators() -> None:
    x = DATA["int64"]
    compare(lambda ns, x: (-x, abs(x), ~x, x & 3, x | 3, x ^ 3, x << 1, x >> 1, +x), x)
    compare(lambda ns, x: x @ x.T, DATA["float64"])
    compare(lambda ns, x: x @ x.T, x)

    def in_place(ns: Any, x: Any) -> Any:
        y = ns.asarray(x, copy=True)
        y += 1
        y *= x
        y -= 2
        return y

    compare(in_place, x)


def test_promotion() -> None:
    kinds = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64")
    for one in kinds:
        for other in kinds:
            if ("int" in one) != ("int" in other):
                continue  # not defined by the standard
            x, y = np.ones(2, one), np.ones(2, other)
            compare(lambda ns, x, y: x + y, x, y)
            found = xp.result_type(getattr(xp, one), getattr(xp, other))
            assert found.name == np.result_type(x, y).name


def test_what_is_refused() -> None:
    integers = xp.asarray([1, 2])
    for name in ("sin", "exp", "mean", "logical_not"):
        with pytest.raises(TypeError, match=name):
            getattr(xp, name)(integers)
    with pytest.raises(TypeError, match="array_api"):
        xp.sin(np.ones(2))
    with pytest.raises(TypeError, match="in place"):
        integers += xp.asarray([1.5, 2.5])
    with pytest.raises(TypeError):
        _ = integers + "a"
