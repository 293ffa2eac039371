"""Conversions of dtype, views of bits and copies against MLX."""

from __future__ import annotations

from typing import Any

import mlx.core as oracle
import numpy as np
import pytest
from tests.support.elementwise import (
    Named,
    assert_derivatives,
    assert_same,
    assert_same_error,
    assert_vmap,
    values_of,
)

import ingot.core as mx
from ingot.graph.dtype import ALL_DTYPES

NAMES = ["bool_" if str(dtype.name).startswith("bool") else str(dtype.name) for dtype in ALL_DTYPES]


def converted(module: Any, values: Any, source: str, target: str) -> Any:
    return module.array(values, dtype=getattr(module, source)).astype(getattr(module, target))


@pytest.mark.parametrize("target", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_every_conversion(source: str, target: str) -> None:
    values = [0.0, 1.0, 2.0, 7.75, 100.5]
    if source in ("bool_", *(name for name in NAMES if "int" in name)):
        values = [0, 1, 2, 7, 100]
    signed = source.startswith(("int", "float", "bfloat", "complex"))
    if signed and not target.startswith("uint"):
        values = [*values, *(-value for value in values)]
    ours = converted(mx, values, source, target)
    with oracle.stream(oracle.cpu):
        theirs = values_of(converted(oracle, values, source, target))
    assert str(ours.dtype).endswith(target.rstrip("_"))
    np.testing.assert_array_equal(values_of(ours), theirs)


def test_special_conversions() -> None:
    specials = mx.array([float("nan"), float("inf"), 300.7, -5.2, 0.0])
    assert values_of(specials.astype(mx.bool_)).tolist() == [True, True, True, True, False]
    assert values_of(specials[2:4].astype(mx.uint8)).tolist() == [44, 251]
    numbers = mx.array([1j, 0j, 1])
    assert values_of(numbers.astype(mx.bool_)).tolist() == [True, False, True]
    assert values_of(numbers.astype(mx.int32)).tolist() == [0, 0, 1]
    assert values_of(mx.array([1e6]).astype(mx.float16)).tolist() == [float("inf")]


def test_equal_dtypes_are_no_conversion() -> None:
    a = mx.array([1.0])
    same = a.astype(mx.float32)
    assert same._node is a._node
    same += 1
    assert a.tolist() == [1.0]
    assert mx.astype(a, mx.float32)._node is a._node
    assert mx.view(a, mx.float32)._node is a._node


def test_the_method_takes_keywords() -> None:
    a = mx.array([1.0])
    assert a.astype(dtype=mx.int8).dtype == mx.int8
    assert a.astype(mx.int8, mx.cpu).dtype == mx.int8
    assert a.view(mx.int16).shape == (2,)


def test_derivatives_of_conversions() -> None:
    assert_derivatives(lambda x: (x * x).astype(mx.float64), [1.0, 2.0])
    point = mx.array([1.0, 2.0])
    cotangent = mx.array([1 + 2j, 2j])
    _, (found,) = mx.vjp(lambda x: x.astype(mx.complex64), [point], [cotangent])
    assert values_of(found).tolist() == [1, 0]
    assert found.dtype == mx.float32
    _, (found,) = mx.jvp(lambda x: x.astype(mx.float16), [point], [point])
    assert found.dtype == mx.float16
    # As in MLX, whose conversions hand cotangents on whatever the dtype.
    gradient = mx.grad(lambda x: x.astype(mx.int32).astype(mx.float32).sum())
    assert values_of(gradient(point)).tolist() == [1, 1]


def test_identities() -> None:
    a = mx.array([1.0, 2.0])
    gradient = mx.grad(lambda x: (x * mx.stop_gradient(x)).sum())
    assert values_of(gradient(a)).tolist() == [1, 2]
    assert_same("stop_gradient", ([1.5, 2.5], "float16"))
    assert_same("contiguous", ([[1, 2], [3, 4]], "int16"))
    assert_derivatives(lambda x: mx.contiguous(x) * x, [1.0, 2.0])
    data = np.arange(6.0).reshape(2, 3)
    for function in (mx.stop_gradient, mx.contiguous):
        assert_vmap(function, data)
    assert_vmap(lambda x: x.astype(mx.int8), data)


def test_contiguous_memory() -> None:
    transposed = mx.array(np.arange(6).reshape(2, 3)).transpose()
    assert mx.contiguous(transposed)._data.flags.c_contiguous
    assert mx.contiguous(transposed, allow_col_major=True)._data.flags.f_contiguous
    assert mx.contiguous(mx.array(1.0)).shape == ()


@pytest.mark.parametrize("target", ["uint8", "int16", "bfloat16", "int32", "complex64"])
@pytest.mark.parametrize("source", ["uint8", "float16", "float32", "int64"])
def test_views(source: str, target: str) -> None:
    bits = np.random.default_rng(0).integers(0, 2, (3, 16), np.uint8)
    a = np.ascontiguousarray(bits).view(source)
    assert_same("view", (a, source), Named(target))


def test_views_of_other_layouts_and_scalars() -> None:
    assert_same("view", ([[0, 1], [1, 1]], "int8"), Named("bool_"))
    transposed = mx.array([[1, 2], [3, 4]], dtype=mx.uint8).transpose()
    assert values_of(mx.view(transposed, mx.uint16)).tolist() == [[769], [1026]]
    assert values_of(mx.view(1.0, mx.int32)).item() == 1065353216
    assert mx.view(mx.zeros((2, 0), mx.uint8), mx.int32).shape == (2, 0)
    assert_vmap(lambda x: mx.view(x, mx.uint8), np.ones((2, 3), np.float32))
    assert_vmap(lambda x: mx.view(x, mx.uint32), np.ones((2,), np.float32))


def test_views_have_no_derivative() -> None:
    with pytest.raises(
        ValueError, match=r"\[Bitcast\] has no vjp rule: bits are not a smooth function"
    ):
        mx.grad(lambda x: mx.view(mx.view(x, mx.int32), mx.float32).sum())(mx.array([1.0]))


@pytest.mark.parametrize(
    ("name", "arguments", "match"),
    [
        (
            "view",
            (([[1, 2, 3]], "uint8"), "int32"),
            "the 3 bytes of its last axis do not divide by 4.",
        ),
        ("view", (1.0, "uint8"), "[view] a scalar of dtype"),
        ("stop_gradient", (3,), "[stop_gradient] a must be an array, got int: 3."),
        ("contiguous", (3,), "[contiguous] a must be an array, got int: 3."),
        ("astype", (3, "float32"), "[astype] a must be an array, got int: 3."),
        (
            "astype",
            (([1], "int32"), float),
            "[astype] dtype must be a dtype such as mx.float32, got type",
        ),
        (
            "view",
            (([1], "int32"), np.int8),
            "[view] dtype must be a dtype such as mx.float32, got type",
        ),
    ],
)
def test_refusals(name: str, arguments: Any, match: str) -> None:
    given = tuple(Named(item) if type(item) is str else item for item in arguments)
    assert_same_error(name, *given, match=match)
