"""The printed form of arrays, character by character as MLX's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()

SHAPES = [(), (1,), (0,), (5,), (6,), (7,), (1000,), (2, 3), (6, 7), (7, 6), (7, 7), (0, 3), (3, 0)]
SHAPES += [(2, 2, 2), (2, 0, 3), (2, 3, 100), (8, 8, 8), (2, 2, 2, 2), (1, 1, 1, 1, 1)]

SPECIAL = [1.5, -2.25, 1e10, 1e-10, float("inf"), float("-inf"), float("nan"), 0.1, 1 / 3]
SPECIAL += [
    123456789.0,
    1e5,
    1e6,
    1e7,
    999999.5,
    -0.0,
    1e-4,
    1e-5,
    1e38,
    1e-40,
    100000.0,
    1234567.0,
]


@pytest.fixture(autouse=True)
def default_precision() -> Iterator[None]:
    yield
    mx.set_printoptions()
    mlx.set_printoptions()


def text(library: ModuleType, values: Any, dtype: str) -> str:
    return repr(library.array(values).astype(getattr(library, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 100
    assert text(mx, values, dtype) == text(mlx, values, dtype)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("precision", [-1, 0, 1, 3, 6, 10, 20])
def test_special_numbers(dtype: str, precision: int) -> None:
    mx.set_printoptions(precision=precision)
    mlx.set_printoptions(precision=precision)
    for value in SPECIAL:
        assert text(mx, [value], dtype) == text(mlx, [value], dtype)


@pytest.mark.parametrize(
    "value", [1 + 2j, 1 - 2j, 1j, -1.5, complex("nan+infj"), complex("1-infj"), complex(1, -0.0)]
)
def test_complex_numbers(value: complex) -> None:
    assert repr(mx.array([value])) == repr(mlx.array([value]))


@given(st.lists(st.floats(width=32, allow_nan=False), max_size=9))
def test_any_floats(values: list[float]) -> None:
    assert repr(mx.array(values)) == repr(mlx.array(values))


def test_integers_at_their_limits() -> None:
    limits = [2**63 - 1, -(2**63)]
    assert (
        repr(mx.array(limits)) == "array([9223372036854775807, -9223372036854775808], dtype=int64)"
    )
    assert repr(mx.array(np.array([2**64 - 1], np.uint64))) == (
        "array([18446744073709551615], dtype=uint64)"
    )


def test_views_and_lazy_arrays_print_their_values() -> None:
    array = mx.arange(6).reshape(2, 3)
    assert str(array.T + 1) == str(mlx.arange(6).reshape(2, 3).T + 1)
    assert str(mx.broadcast_to(mx.array(2), (2, 2))) == str(mlx.broadcast_to(mlx.array(2), (2, 2)))


def test_the_sign_of_nan_is_not_shown() -> None:
    """It depends on the processor; MLX shows it."""
    assert repr(-mx.array(float("nan"))) == "array(nan, dtype=float32)"


@pytest.mark.parametrize("spec", ["", "d", "5d", "x"])
def test_format_of_integers(spec: str) -> None:
    assert format(mx.array(31), spec) == format(mlx.array(31), spec)


@pytest.mark.parametrize("spec", ["", ".2f", "10.3f", ".1e", "g"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_format_of_floats(spec: str, dtype: str) -> None:
    ours = mx.array(2.7).astype(getattr(mx, dtype))
    theirs = mlx.array(2.7).astype(getattr(mlx, dtype))
    assert format(ours, spec) == format(theirs, spec)


def test_format_of_arrays() -> None:
    array = mx.array([1, 2])
    assert f"{array}" == str(array)
    with pytest.raises(TypeError, match=r"'.2f' formats one number, .* shape \(2,\)"):
        format(array, ".2f")
    with pytest.raises(ValueError, match="format code 'd'"):
        format(mx.array(1.5), "d")


def test_print_options() -> None:
    third = mx.array(1 / 3)
    assert mx.get_printoptions().precision == -1
    with mx.printoptions(precision=2):
        assert str(third) == "array(0.33, dtype=float32)"
        assert mx.get_printoptions().precision == 2
        with mx.printoptions(4):
            assert str(third) == "array(0.3333, dtype=float32)"
    assert str(third) == "array(0.333333, dtype=float32)"
    mx.set_printoptions(3)
    assert str(third) == "array(0.333, dtype=float32)"
    options = mx.get_printoptions()
    options.precision = 1
    assert str(third) == "array(0.333, dtype=float32)"
    assert mx.PrintOptions(precision=4).precision == 4
    for wrong in ("a", None, 1.5):
        with pytest.raises(TypeError, match="precision must be an int"):
            mx.set_printoptions(precision=wrong)  # type: ignore[arg-type]


def test_shortened() -> None:
    """In a process of its own: MLX mends reprlib too."""
    code = """
import array, reprlib
import {}.core as mx
print(reprlib.repr(mx.ones(300)), reprlib.repr(mx.array(2)), reprlib.repr(array.array("i", [1])))
"""
    printed = [
        subprocess.check_output([sys.executable, "-c", code.format(name)], text=True)
        for name in ("ingot", "mlx")
    ]
    assert printed[0] == printed[1]
    assert printed[0].endswith("array('i', [1])\n")
