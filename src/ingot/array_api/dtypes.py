"""The standard's dtypes and the functions about them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import ingot.core as mx
from ingot.array_api.array import Array, check_device, dtype_for, kind_of, unwrap, wrap
from ingot.core import (
    complex64,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__ = [
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool = mx.bool_

DTYPES: dict[str, Any] = {
    "bool": mx.bool_,
    "int8": int8,
    "int16": int16,
    "int32": int32,
    "int64": int64,
    "uint8": uint8,
    "uint16": uint16,
    "uint32": uint32,
    "uint64": uint64,
    "float32": float32,
    "float64": float64,
    "complex64": complex64,
}
KINDS = {
    "bool": ("bool",),
    "signed integer": ("signed integer",),
    "unsigned integer": ("unsigned integer",),
    "integral": ("signed integer", "unsigned integer"),
    "real floating": ("real floating",),
    "complex floating": ("complex floating",),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class FloatInfo(NamedTuple):
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: Any


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, Array) else value


def astype(x: Array, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Array:
    """The elements in another dtype."""
    check_device(device)
    core = unwrap(x)
    if dtype is core.dtype:
        return wrap(mx.array(core)) if copy else x
    if kind_of(core.dtype) == "complex floating" and kind_of(dtype) != "complex floating":
        raise TypeError("[astype] complex numbers have no order: take `real` or `imag` first.")
    return wrap(core.astype(dtype))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether promotion takes the first dtype to the second."""
    return mx.result_type(_dtype_of(from_), to) is to


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point dtype; of a complex one, those of its parts."""
    dtype = _dtype_of(type)
    if kind_of(dtype) not in ("real floating", "complex floating"):
        raise TypeError(f"[finfo] takes floating-point dtypes, got {dtype.name}.")
    part = float32 if dtype is complex64 else dtype
    found = np.finfo(part.numpy)
    smallest = float(found.smallest_normal)
    return FloatInfo(
        found.bits, float(found.eps), float(found.max), float(found.min), smallest, part
    )


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer dtype."""
    dtype = _dtype_of(type)
    found = np.iinfo(dtype.numpy)
    return IntInfo(found.bits, int(found.max), int(found.min), dtype)


def isdtype(dtype: Any, kind: Any) -> Any:
    """Whether a dtype is another, of a kind, or one of several of those."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"[isdtype] the kinds are {', '.join(KINDS)}, got {kind!r}.")
        return kind_of(dtype) in KINDS[kind]
    return dtype is kind


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that arrays, dtypes and numbers promote to."""
    if not arrays_and_dtypes:
        raise ValueError("[result_type] needs at least one array or dtype.")
    given = [_dtype_of(value) for value in arrays_and_dtypes]
    numbers = [value for value in given if isinstance(value, (int, float, complex))]
    dtypes = [value for value in given if not isinstance(value, (int, float, complex))]
    if not dtypes:
        raise ValueError("[result_type] needs at least one array or dtype.")
    found = dtypes[0]
    for dtype in dtypes[1:]:
        found = mx.result_type(found, dtype)
    for number in numbers:
        found = dtype_for(number, found)
    return found
