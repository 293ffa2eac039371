"""Dtypes: the singletons of the C extension with their NumPy counterparts and categories, and
predicates on them.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native
from ingot._native import (
    Dtype,
    bfloat16,
    bool_,
    complex64,
    float16,
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
from ingot._native import promote as promote
from ingot.graph.deferred import Deferred

if TYPE_CHECKING:
    import ml_dtypes
else:
    ml_dtypes = Deferred("ml_dtypes")  # importing it takes a twentieth of the time of importing all

__all__ = [
    "Dtype",
    "DtypeCategory",
    "bfloat16",
    "bool_",
    "complex64",
    "complexfloating",
    "float16",
    "float32",
    "float64",
    "floating",
    "generic",
    "inexact",
    "int8",
    "int16",
    "int32",
    "int64",
    "integer",
    "number",
    "signedinteger",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]

ALL_DTYPES: tuple[Dtype, ...] = (
    bool_,
    uint8,
    uint16,
    uint32,
    uint64,
    int8,
    int16,
    int32,
    int64,
    float16,
    bfloat16,
    float32,
    float64,
    complex64,
)

_by_numpy: dict[Any, Dtype] = {}

for _dtype in ALL_DTYPES:
    if _dtype is not bfloat16:
        _dtype.numpy = np.dtype(_dtype.name)
        _by_numpy[_dtype.numpy] = _dtype


def numpy_bfloat16() -> np.dtype[Any]:
    """The NumPy dtype of bfloat16; C asks for it once, when it is first used."""
    found = np.dtype(ml_dtypes.bfloat16)
    _by_numpy[found] = bfloat16
    return found


def dtype_named(name: str) -> Dtype:
    """The dtype called `name`; used by pickle."""
    found: Dtype = getattr(_native, name)
    return found


_native.set_callbacks(dtype_named=dtype_named, numpy_bfloat16=numpy_bfloat16)


def from_numpy(dtype: Any) -> Dtype | None:
    """The dtype whose elements have this NumPy dtype in native byte order, or None."""
    found = _by_numpy.get(dtype)
    return bfloat16 if found is None and is_numpy_bfloat16(dtype) else found


def is_numpy_bfloat16(dtype: Any) -> bool:
    """Whether a NumPy dtype is that of bfloat16."""
    return isinstance(dtype, np.dtype) and dtype.kind == "V" and dtype == bfloat16.numpy


class DtypeCategory(enum.Enum):
    """Groups of dtypes, from `generic` (all) down to the leaves of the tree of kinds."""

    complexfloating = 0
    floating = 1
    inexact = 2
    signedinteger = 3
    unsignedinteger = 4
    integer = 5
    number = 6
    generic = 7

    def __repr__(self) -> str:
        return f"DtypeCategory.{self.name}"

    __str__ = __repr__


complexfloating = DtypeCategory.complexfloating
floating = DtypeCategory.floating
inexact = DtypeCategory.inexact
signedinteger = DtypeCategory.signedinteger
unsignedinteger = DtypeCategory.unsignedinteger
integer = DtypeCategory.integer
number = DtypeCategory.number
generic = DtypeCategory.generic


def is_complex(dtype: Dtype) -> bool:
    """Whether elements are complex numbers."""
    return dtype is complex64


def is_floating(dtype: Dtype) -> bool:
    """Whether elements are real floating-point numbers."""
    return dtype in (float16, bfloat16, float32, float64)


def is_inexact(dtype: Dtype) -> bool:
    """Whether elements are floating-point or complex numbers: what can be differentiated."""
    return dtype.number >= float16.number


def is_unsigned_integer(dtype: Dtype) -> bool:
    """Whether elements are integers without a sign."""
    return uint8.number <= dtype.number <= uint64.number


def is_signed_integer(dtype: Dtype) -> bool:
    """Whether elements are integers with a sign."""
    return int8.number <= dtype.number <= int64.number


def is_integer(dtype: Dtype) -> bool:
    """Whether elements are integers, bool excluded."""
    return uint8.number <= dtype.number <= int64.number
