"""Dtypes, their categories, limits and promotion against MLX's."""

from __future__ import annotations

import copy
import itertools
import pickle
from types import ModuleType
from typing import Any

import mlx.core as mlx
import numpy as np
import pytest

import ingot.core as mx

DTYPES = (
    "bool_ uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "float16 bfloat16 float32 float64 complex64"
).split()
CATEGORIES = (
    "complexfloating floating inexact signedinteger unsignedinteger integer number generic"
).split()
KINDS = [
    "bool",
    "signed integer",
    "unsigned integer",
    "integral",
    "real floating",
    "complex floating",
    "numeric",
]


def result(library: ModuleType, text: str) -> Any:
    """What an expression gives, in words that are the same for both libraries."""
    try:
        value = eval(text, {"mx": library, "np": np})
    except Exception as error:
        return type(error)
    return str(value).replace(library.__name__, "core")


@pytest.mark.parametrize("name", DTYPES)
def test_a_dtype(name: str) -> None:
    dtype = getattr(mx, name)
    assert repr(dtype) == repr(getattr(mlx, name)).replace("mlx.core", "ingot.core")
    assert dtype.size == getattr(mlx, name).size
    assert dtype == dtype
    assert hash(dtype) == hash(dtype)
    assert [other for other in DTYPES if getattr(mx, other) == dtype] == [name]
    assert dtype != mx.floating
    assert dtype != name
    assert dtype != dtype.numpy
    assert dtype is not None
    for protocol in range(6):
        assert pickle.loads(pickle.dumps(dtype, protocol)) is dtype
    assert copy.copy(dtype) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert mx.array([1]).astype(dtype).dtype is dtype


def test_dtypes_are_not_made_or_called() -> None:
    with pytest.raises(TypeError):
        mx.Dtype()
    with pytest.raises(TypeError):
        mx.float32(1)  # type: ignore[operator]


@pytest.mark.parametrize("name", CATEGORIES)
def test_a_category(name: str) -> None:
    category = getattr(mx, name)
    assert (repr(category), category.name, category.value) == (
        repr(getattr(mlx, name)),
        name,
        getattr(mlx, name).value,
    )
    assert mx.DtypeCategory[name] is category
    assert pickle.loads(pickle.dumps(category)) is category


@pytest.mark.parametrize("first", DTYPES)
def test_promotion(first: str) -> None:
    for second in DTYPES:
        text = f"mx.result_type(mx.{first}, mx.{second})"
        assert result(mx, text) == result(mlx, text)
        text = f"mx.can_cast(mx.{first}, mx.{second})"
        assert result(mx, text) == result(mlx, text)
        text = f"(mx.array([1]).astype(mx.{first}) + mx.array([1]).astype(mx.{second})).dtype"
        assert result(mx, text) == result(mlx, text)


def test_subtypes() -> None:
    for first, second in itertools.product(DTYPES + CATEGORIES, repeat=2):
        text = f"mx.issubdtype(mx.{first}, mx.{second})"
        assert result(mx, text) == result(mlx, text), text


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    for name in DTYPES:
        text = f"mx.isdtype(mx.{name}, {kind!r})"
        assert result(mx, text) == result(mlx, text), text


@pytest.mark.parametrize("name", DTYPES)
def test_limits(name: str) -> None:
    fields = "min max eps bits dtype smallest_normal"
    texts = [f"mx.finfo(mx.{name})", f"mx.iinfo(mx.{name})"]
    texts += [f"mx.finfo(mx.{name}).{field}" for field in fields.split()]
    texts += [f"mx.iinfo(mx.{name}).{field}" for field in ("min", "max", "dtype")]
    for text in texts:
        assert result(mx, text) == result(mlx, text), text


@pytest.mark.parametrize(
    "text",
    [
        "mx.isdtype(mx.float32, mx.float32)",
        "mx.isdtype(mx.float32, ('bool', mx.float32))",
        "mx.isdtype(mx.float32, (mx.float32, 'foo'))",
        "mx.isdtype(mx.float32, ('foo', mx.float32))",
        "mx.isdtype(mx.float32, ())",
        "mx.isdtype(mx.float32, 'foo')",
        "mx.isdtype(mx.float32, ['bool'])",
        "mx.isdtype(mx.float32, mx.floating)",
        "mx.isdtype('a', 'bool')",
        "mx.issubdtype(mx.float32, 'x')",
        "mx.issubdtype(mx.array(1), mx.floating)",
        "mx.result_type()",
        "mx.result_type(mx.array(1), mx.uint8)",
        "mx.result_type(mx.array(1), mx.uint8, mx.float16)",
        "mx.result_type(1, mx.uint8)",
        "mx.result_type(mx.floating)",
        "mx.can_cast(mx.array(1), mx.int64)",
        "mx.can_cast(1, mx.int64)",
        "mx.can_cast(mx.int32, mx.floating)",
        "mx.can_cast(from_=mx.int32, to=mx.int64)",
        "mx.finfo('float32')",
        "mx.finfo(np.float32)",
        "mx.finfo(mx.array(1.0))",
        "mx.iinfo(mx.array(1))",
        "mx.finfo()",
    ],
)
def test_questions(text: str) -> None:
    assert result(mx, text) == result(mlx, text)


def test_messages() -> None:
    with pytest.raises(ValueError, match="there is no kind 'foo', only bool, signed integer"):
        mx.isdtype(mx.float32, "foo")
    with pytest.raises(ValueError, match="int32 is not a floating-point dtype"):
        mx.finfo(mx.int32)
    with pytest.raises(ValueError, match="bool is not an integer dtype"):
        mx.iinfo(mx.bool_)
    with pytest.raises(ValueError, match="takes arrays and dtypes, got int"):
        mx.result_type(mx.int32, 1)  # type: ignore[arg-type]
